"""Splits into train, valid and test: random, stratified, by scaffold, in folds, or as given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsat.core.errors import DataError, MissingExtraError

Positions = NDArray[np.int64]
Splits = dict[str, Positions]
Shares = tuple[float, float, float]

NAMES: Final = ("train", "valid", "test")
# Names of the splits in users' files, and the numbers that stores hold.
MARKS: Final[dict[Any, int]] = {"train": 0, "valid": 1, "val": 1, "test": 2, None: -1}
SHARES: Final[Shares] = (0.8, 0.1, 0.1)


def shuffled(count: int, seed: int, shares: Shares = SHARES) -> Splits:
    """Cut a shuffle into three parts.

    The same positions as by ``np.random.seed(seed)`` and ``np.random.shuffle``.
    """
    return _cut(np.random.RandomState(seed).permutation(count), shares)


def stratified(labels: ArrayLike, seed: int, shares: Shares = SHARES) -> Splits:
    """Cut a shuffle in which every class is spread evenly into three parts."""
    _, label = np.unique(np.asarray(labels), return_inverse=True)
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(label))
    grouped = order[np.argsort(label[order], kind="stable")]
    counts = np.bincount(label)
    # The members of a class are placed at equal distances on [0, 1), from a random start: without
    # it, all classes of one member would fall into the same part.
    rank = np.arange(len(label)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = (rank + np.repeat(rng.random_sample(len(counts)), counts)) / np.repeat(counts, counts)
    return _cut(grouped[np.argsort(place, kind="stable")], shares)


def kfold(labels: ArrayLike | int, folds: int, fold: int, seed: int) -> Splits:
    """Take one fold for testing, the next one for validation and the rest for training."""
    if folds < 3:
        raise DataError(f"folds must be at least 3 (train, valid and test), not {folds}")
    if not 0 <= fold < folds:
        raise DataError(f"fold must be a number from 0 to {folds - 1}, not {fold}")
    label = np.zeros(labels, np.int64) if isinstance(labels, int) else np.asarray(labels)
    order = np.random.RandomState(seed).permutation(len(label))
    # Dealt like cards, class after class: sizes differ by one at most, in total and in each class.
    dealt = order[np.argsort(label[order], kind="stable")]
    at = np.arange(len(dealt)) % folds
    test, valid = at == fold, at == (fold + 1) % folds
    parts = (dealt[~(test | valid)], dealt[valid], dealt[test])
    return {name: np.sort(part).astype(np.int64) for name, part in zip(NAMES, parts, strict=True)}


def by_scaffold(scaffolds: Sequence[str], shares: Shares = SHARES) -> Splits:
    """Split molecules so that those of one scaffold stay together, as MoleculeNet and OGB do.

    The largest groups fill the training set, what no longer fits there the validation set; the
    rest is for testing. There is no seed: the split is always the same.
    """
    groups: dict[str, list[int]] = {}
    for position, found in enumerate(scaffolds):
        groups.setdefault(found, []).append(position)
    ends = np.cumsum(shares) * len(scaffolds) + 1e-9
    train: list[int] = []
    valid: list[int] = []
    test: list[int] = []
    for group in sorted(groups.values(), key=lambda g: (len(g), g[0]), reverse=True):
        if len(train) + len(group) <= ends[0]:
            train += group
        elif len(train) + len(valid) + len(group) <= ends[1]:
            valid += group
        else:
            test += group
    parts = (np.sort(np.array(part, dtype=np.int64)) for part in (train, valid, test))
    return dict(zip(NAMES, parts, strict=True))


def murcko_scaffolds(smiles: Sequence[str]) -> list[str]:
    """Find the Bemis–Murcko scaffold of each molecule.

    Mirror images are different scaffolds, as in OGB's splits.
    """
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem.Scaffolds import MurckoScaffold
    except ImportError:
        raise MissingExtraError("rdkit", "molecules", "a scaffold split") from None
    found = []
    with rdBase.BlockLogs():  # RDKit's messages would appear beside our one-line error
        for position, text in enumerate(smiles):
            molecule = Chem.MolFromSmiles(text)
            if not text or molecule is None:
                raise DataError(f"graph {position}: {text!r} is not a SMILES that rdkit can read")
            found.append(MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=True))
    return found


def given(marks: ArrayLike) -> Splits:
    """Split rows as they are marked."""
    marked = np.asarray(marks)
    wrong = np.flatnonzero(~np.isin(marked, (-1, 0, 1, 2)))
    if len(wrong):
        raise DataError(
            f"row {int(wrong[0])} has the split {marked[wrong[0]]}; "
            "0 is train, 1 valid, 2 test, -1 none"
        )
    return {name: np.flatnonzero(marked == at) for at, name in enumerate(NAMES)}


def with_validation(marks: ArrayLike, seed: int, share: float = SHARES[1]) -> Splits:
    """Keep a published test set, and draw a part of the published training set for validation."""
    marked = np.asarray(marks)
    train = np.random.RandomState(seed).permutation(np.flatnonzero(marked == 0))
    valid = int(share * len(train))
    parts = (np.sort(train[valid:]), np.sort(train[:valid]), np.flatnonzero(marked == 2))
    return dict(zip(NAMES, parts, strict=True))


def check_shares(train: float, valid: float, test: float) -> Shares:
    """Check that the shares of the three splits add up to 1."""
    shares = (train, valid, test)
    if min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise DataError(
            f"train, valid and test must be shares above 0 that add up to 1, not {train}, {valid} "
            f"and {test}; set all three"
        )
    return shares


def _cut(order: NDArray[Any], shares: Shares) -> Splits:
    """The first share of an order, the second, and the rest."""
    # A product like 0.29 * 100 is just below the whole number that is meant.
    train, valid = (int(share * len(order) + 1e-9) for share in shares[:2])
    parts = np.split(order.astype(np.int64), [train, train + valid])
    return dict(zip(NAMES, parts, strict=True))
