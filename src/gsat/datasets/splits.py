"""Splits into train, valid and test: at random, by label, by scaffold, in folds, or as given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsat.errors import DataError, MissingExtraError

Positions = NDArray[np.int64]
Splits = dict[str, Positions]
Shares = tuple[float, float, float]

NAMES: Final = ("train", "valid", "test")
# How the split of a graph or node may be written.
MARKS: Final[dict[Any, int]] = {"train": 0, "valid": 1, "val": 1, "test": 2, None: -1}
SHARES: Final[Shares] = (0.8, 0.1, 0.1)


def shuffled(count: int, seed: int, shares: Shares = SHARES) -> Splits:
    """Parts of a shuffle; the same as ``np.random.seed(seed)`` and ``np.random.shuffle``."""
    return _cut(np.random.RandomState(seed).permutation(count), shares)


def stratified(labels: ArrayLike, seed: int, shares: Shares = SHARES) -> Splits:
    """Parts of a shuffle in which every class [R] is spread evenly, so that each has its share."""
    _, label = np.unique(np.asarray(labels), return_inverse=True)
    rng = np.random.RandomState(seed)
    order = rng.permutation(len(label))
    grouped = order[np.argsort(label[order], kind="stable")]
    counts = np.bincount(label)
    # The members of a class stand at equal distances on [0, 1), from a start of their own: without
    # it, all classes of one member would fall into the same part.
    rank = np.arange(len(label)) - np.repeat(np.cumsum(counts) - counts, counts)
    place = (rank + np.repeat(rng.random_sample(len(counts)), counts)) / np.repeat(counts, counts)
    return _cut(grouped[np.argsort(place, kind="stable")], shares)


def kfold(labels: ArrayLike | int, folds: int, fold: int, seed: int) -> Splits:
    """Fold number ``fold`` for testing, the next one for validation, the rest for training.

    Args:
        labels: classes [R], which all folds then have in equal shares; or how many rows there are.
    """
    if folds < 3:
        raise DataError(f"folds are at least 3 (train, valid and test), not {folds}")
    if not 0 <= fold < folds:
        raise DataError(f"fold is a number from 0 to {folds - 1}, not {fold}")
    label = np.zeros(labels, np.int64) if isinstance(labels, int) else np.asarray(labels)
    order = np.random.RandomState(seed).permutation(len(label))
    # Dealt like cards, class after class: sizes differ by one at most, of folds and within classes.
    dealt = order[np.argsort(label[order], kind="stable")]
    at = np.arange(len(dealt)) % folds
    test, valid = at == fold, at == (fold + 1) % folds
    parts = (dealt[~(test | valid)], dealt[valid], dealt[test])
    return {name: np.sort(part).astype(np.int64) for name, part in zip(NAMES, parts, strict=True)}


def by_scaffold(scaffolds: Sequence[str], shares: Shares = SHARES) -> Splits:
    """Molecules of one scaffold stay together; no seed: it is always the same.

    As MoleculeNet and OGB do: the largest groups fill the training set, what no longer fits there
    the validation set, the rest is for testing.
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
    """The Bemis–Murcko scaffold of each molecule as SMILES, "" where it has no ring.

    Mirror images are different scaffolds: so they are in OGB's splits.
    """
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem.Scaffolds import MurckoScaffold
    except ImportError:
        raise MissingExtraError("rdkit", "molecules", "a scaffold split") from None
    found = []
    with rdBase.BlockLogs():  # its own complaints would stand beside our one line
        for position, text in enumerate(smiles):
            molecule = Chem.MolFromSmiles(text)
            if not text or molecule is None:
                raise DataError(f"graph {position}: {text!r} is not a SMILES that rdkit can read")
            found.append(MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=True))
    return found


def given(marks: ArrayLike) -> Splits:
    """The split that marks [R] say: 0 train, 1 valid, 2 test, −1 nowhere."""
    marked = np.asarray(marks)
    wrong = np.flatnonzero(~np.isin(marked, (-1, 0, 1, 2)))
    if len(wrong):
        raise DataError(
            f"number {int(wrong[0])} has the split {marked[wrong[0]]}; "
            "0 is train, 1 valid, 2 test, -1 none"
        )
    return {name: np.flatnonzero(marked == at) for at, name in enumerate(NAMES)}


def check_shares(options: Mapping[str, Any]) -> Shares:
    """The shares of the three splits, which must make up the whole."""
    train, valid, test = shares = tuple(options[name] for name in NAMES)
    if min(shares) <= 0 or abs(sum(shares) - 1) > 1e-6:
        raise DataError(
            f"train, valid and test are shares above 0 that add up to 1, not {train}, {valid} and "
            f"{test}; set all three"
        )
    return train, valid, test


def _cut(order: NDArray[Any], shares: Shares) -> Splits:
    # A product like 0.29 * 100 lies just below the whole number that is meant.
    train, valid = (int(share * len(order) + 1e-9) for share in shares[:2])
    parts = np.split(order.astype(np.int64), [train, train + valid])
    return dict(zip(NAMES, parts, strict=True))
