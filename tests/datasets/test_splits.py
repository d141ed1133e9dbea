"""Splits, beside scikit-learn's, OGB's own files and brute force."""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold, StratifiedShuffleSplit

from gsat.core.errors import DataError, MissingExtraError
from gsat.datasets import splits

LABELS = np.random.RandomState(7).choice(4, size=503, p=[0.55, 0.3, 0.1, 0.05])


def is_partition(parts: splits.Splits, count: int) -> bool:
    return sorted(np.concatenate(list(parts.values())).tolist()) == list(range(count))


@pytest.mark.parametrize("seed", [0, 5])
def test_a_shuffle_is_numpys_and_its_parts_have_their_shares(seed: int) -> None:
    order = np.arange(100)
    np.random.RandomState(seed).shuffle(order)
    parts = splits.shuffled(100, seed, (0.29, 0.31, 0.4))
    assert parts["train"].tolist() == order[:29].tolist()
    assert parts["valid"].tolist() == order[29:60].tolist()
    assert parts["test"].tolist() == order[60:].tolist()
    assert [len(part) for part in splits.shuffled(57, seed).values()] == [45, 5, 7]


@pytest.mark.parametrize("seed", range(5))
def test_stratified_shares_are_as_even_as_scikit_learns(seed: int) -> None:
    parts = splits.stratified(LABELS, seed)
    assert is_partition(parts, len(LABELS))
    assert [len(part) for part in parts.values()] == [402, 50, 51]
    theirs = StratifiedShuffleSplit(1, train_size=402, test_size=101, random_state=seed)
    train, _ = next(theirs.split(LABELS, LABELS))
    ours = np.bincount(LABELS[parts["train"]])
    assert np.abs(ours - np.bincount(LABELS[train])).max() <= 1
    for name, share in zip(splits.NAMES, splits.SHARES, strict=True):
        got = np.bincount(LABELS[parts[name]], minlength=4)
        assert np.abs(got - share * np.bincount(LABELS)).max() <= 2


def test_stratified_is_decided_by_its_seed_alone() -> None:
    first, again, other = (splits.stratified(LABELS, seed) for seed in (0, 0, 1))
    named = splits.stratified(np.array(["a", "b", "c", "d"])[LABELS], 0)
    for name in splits.NAMES:
        assert first[name].tolist() == again[name].tolist() == named[name].tolist()
        assert first[name].tolist() != other[name].tolist()


def test_rare_classes_reach_every_part() -> None:
    """Classes of one member each are spread at random, not all put into one part."""
    labels = np.concatenate([np.zeros(1000, dtype=int), np.arange(1, 201)])
    parts = splits.stratified(labels, 0)
    rare = {name: int((part >= 1000).sum()) for name, part in parts.items()}
    assert 140 <= rare["train"] <= 180
    assert min(rare["valid"], rare["test"]) >= 5


@pytest.mark.parametrize("folds", [3, 10])
def test_folds_are_balanced_as_scikit_learns(folds: int) -> None:
    theirs = [
        np.bincount(LABELS[test], minlength=4)
        for _, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(LABELS, LABELS)
    ]
    made = [splits.kfold(LABELS, folds, fold, seed=0) for fold in range(folds)]
    ours = [np.bincount(LABELS[parts["test"]], minlength=4) for parts in made]
    assert (np.sort(ours, axis=0) == np.sort(theirs, axis=0)).all()
    assert all(is_partition(parts, len(LABELS)) for parts in made)
    # Everything is tested once and validates once.
    for name in ("test", "valid"):
        assert sorted(np.concatenate([p[name] for p in made]).tolist()) == list(range(len(LABELS)))
    for parts, following in zip(made, made[1:] + made[:1], strict=True):
        assert parts["valid"].tolist() == following["test"].tolist()


def test_folds_without_labels_are_of_scikit_learns_sizes() -> None:
    sizes = [len(test) for _, test in KFold(7).split(np.zeros(60))]
    made = [splits.kfold(60, 7, fold, seed=2)["test"] for fold in range(7)]
    assert sorted(map(len, made)) == sorted(sizes)
    other = splits.kfold(60, 7, 0, seed=3)["test"]
    assert made[0].tolist() != other.tolist()


def test_the_split_that_is_given() -> None:
    parts = splits.given([0, 2, -1, 1, 0])
    assert {name: part.tolist() for name, part in parts.items()} == {
        "train": [0, 4],
        "valid": [3],
        "test": [1],
    }
    with pytest.raises(DataError, match="row 1 has the split 3"):
        splits.given([0, 3])


@pytest.mark.parametrize("folds_and_fold", [(2, 0), (5, 5), (5, -1)])
def test_impossible_folds(folds_and_fold: tuple[int, int]) -> None:
    with pytest.raises(DataError, match="fold"):
        splits.kfold(50, *folds_and_fold, seed=0)


@pytest.mark.parametrize("shares", [(0.8, 0.1, 0.2), (0.9, 0.1, 0.0), (1.2, -0.1, -0.1)])
def test_impossible_shares(shares: tuple[float, float, float]) -> None:
    with pytest.raises(DataError, match="add up to 1"):
        splits.check_shares(*shares)


def test_scaffolds_stay_together_and_the_largest_come_first() -> None:
    names = ["a"] * 5 + ["b"] * 3 + ["c", "d"]
    parts = splits.by_scaffold(names, (0.5, 0.3, 0.2))
    assert [part.tolist() for part in parts.values()] == [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9]]
    # A group too large for a part goes to the next; the later of two equal groups comes first.
    parts = splits.by_scaffold(["a", "b", "b", "b", "c", "c", "c"], (0.4, 0.3, 0.3))
    assert [part.tolist() for part in parts.values()] == [[0], [4, 5, 6], [1, 2, 3]]


def test_scaffolds_of_known_molecules() -> None:
    pytest.importorskip("rdkit")
    aspirin, caffeine, hexane = "CC(=O)Oc1ccccc1C(=O)O", "Cn1cnc2c1c(=O)n(C)c(=O)n2C", "CCCCCC"
    found = splits.murcko_scaffolds([aspirin, caffeine, hexane])
    assert found == ["c1ccccc1", "O=c1[nH]c(=O)c2[nH]cnc2[nH]1", ""]


@pytest.mark.parametrize("wrong", ["C1CC", ""])
def test_invalid_smiles(wrong: str, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rdkit")
    with pytest.raises(DataError, match=r"graph 1: .* is not a SMILES"):
        splits.murcko_scaffolds(["C", wrong])
    assert capfd.readouterr().err == ""


def test_scaffolds_need_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'torch-gsat\[molecules\]'"):
        splits.murcko_scaffolds(["C"])


@pytest.mark.medium
@pytest.mark.parametrize("name", ["molbace", "molbbbp"])
def test_scaffold_splits_are_ogbs_own(name: str, raw_file: Callable[[str], Path]) -> None:
    pytest.importorskip("rdkit")
    folder = raw_file(f"ogbg_mol/ogbg_{name}/mapping/mol.csv.gz").parent.parent
    with gzip.open(folder / "mapping" / "mol.csv.gz", "rt") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)]
    parts = splits.by_scaffold(splits.murcko_scaffolds(smiles))
    for part, positions in parts.items():
        with gzip.open(folder / "split" / "scaffold" / f"{part}.csv.gz", "rt") as file:
            assert positions.tolist() == sorted(int(line) for line in file)
