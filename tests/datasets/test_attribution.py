"""Sets of graph-attribution: labels and truth, recounted with RDKit from the published files."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gsat.core.errors import DataError
from gsat.datasets import find_source
from gsat.datasets.load import Dataset, load_dataset
from gsat.datasets.sources.attribution import SETS, read_indices, read_table
from gsat.graphs import GraphStore
from gsat.molecules.smiles import molecule_of

Chem = pytest.importorskip("rdkit.Chem")

# Molecules, share of positives (PROVENANCE.txt), published test molecules.
REAL = {
    "benzene": (12_000, 0.5, 2000),
    "fluoride-carbonyl": (4326, 0.087, 486),
    "alkane-carbonyl": (8671, 0.176, 918),
}
# True atoms and the number of true bonds of short molecules, worked out by hand, by set.
BIPHENYL, KETONE, FLUOROKETONE, ESTER = "c1ccccc1-c1ccccc1", "CC(=O)C", "CC(=O)CCF", "CCCCOC(C)=O"
EXPECTED: dict[str, dict[str, tuple[set[int], int]]] = {
    "benzene": {
        BIPHENYL: (set(range(12)), 12),
        KETONE: (set(), 0),
        "C1CCCCC1": (set(), 0),
        "Cc1ccccc1": ({1, 2, 3, 4, 5, 6}, 6),
    },
    "fluoride-carbonyl": {
        BIPHENYL: (set(), 0),
        KETONE: (set(), 0),
        FLUOROKETONE: ({1, 2, 5}, 1),
        "FCCF": (set(), 0),
    },
    "alkane-carbonyl": {
        ESTER: ({0, 1, 2, 3, 4, 5, 7}, 5),
        "CCCCC": (set(), 0),
        KETONE: (set(), 0),
        "C1CCCCC1=O": (set(), 0),
    },
}


def load(name: str, raw_file: Callable[[str], Path]) -> Dataset:
    for file in find_source(name).raw_files(name, None):
        raw_file(file.path)
    return load_dataset(name)


def raw_table(folder: Path, name: str) -> list[dict[str, str]]:
    path = folder / "attribution" / f"{SETS[name].published_name}_smiles.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def check_truth(store: GraphStore, at: int, smarts: tuple[str, ...]) -> None:
    """Compare a graph with RDKit's matches."""
    graph = store[at]
    molecule = molecule_of(graph.smiles, graph.num_nodes)
    queries = [Chem.MolFromSmarts(text) for text in smarts]
    positive = all(molecule.HasSubstructMatch(query) for query in queries)
    assert graph.y.item() == positive
    assert graph.annotated.item() == positive
    matches = [m for query in queries for m in molecule.GetSubstructMatches(query) if positive]
    atoms = {atom for match in matches for atom in match}
    assert set(np.flatnonzero(graph.node_sign).tolist()) == atoms
    assert graph.node_truth.tolist() == graph.node_sign.tolist()
    for (u, v), true in zip(graph.edge_index.T.tolist(), graph.edge_truth.tolist(), strict=True):
        assert molecule.GetBondBetweenAtoms(u, v) is not None
        assert bool(true) == any({u, v} <= set(match) for match in matches)


@pytest.mark.medium
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", REAL)
def test_real_files(name: str, raw_file: Callable[[str], Path], raw_data: Path) -> None:
    data = load(name, raw_file)
    store, (count, share, test) = data.store, REAL[name]
    rows = raw_table(raw_data, name)
    assert len(store) == count == len(rows)
    assert store.texts("smiles") == [row["smiles"] for row in rows]
    assert store.texts("id") == [row["mol_id"] for row in rows]
    assert store.labels("graph").mean() == pytest.approx(share, abs=5e-4)
    if name == "benzene":
        assert store.labels("graph")[:, 0].tolist() == [float(row["label"]) for row in rows]
    assert store.meta["classes"] == list(SETS[name].classes)
    for at in range(0, count, 23):
        check_truth(store, at, SETS[name].smarts)
    index = raw_data / "attribution" / f"{SETS[name].published_name}_traintest_indices.npz"
    with np.load(index, allow_pickle=False) as published:
        assert data.splits["test"].tolist() == sorted(published["test_index"].tolist())
        official = np.concatenate([data.splits["train"], data.splits["valid"]])
        assert sorted(official) == sorted(published["train_index"].tolist())
        assert len(data.splits["valid"]) == len(published["train_index"]) // 10
    assert len(data.splits["test"]) == test


# -- without raw files ------------------------------------------------------------------------


def write_table(path: Path, smiles: list[str]) -> Path:
    # The labels are wrong on purpose: they must not be read.
    lines = [f"ZINC{at},{text},7" for at, text in enumerate(smiles)]
    path.write_text("\n".join(["mol_id,smiles,label", *lines]) + "\n", encoding="utf-8")
    return path


def build(
    name: str, smiles: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> GraphStore:
    """Build a set from a small table, in place of the published files."""
    table = write_table(folder / "smiles.csv", smiles)
    indices = folder / "indices.npz"
    np.savez(indices, train_index=np.arange(len(smiles) - 1), test_index=[len(smiles) - 1])
    monkeypatch.setattr(
        "gsat.datasets.sources.attribution.require_all", lambda files: [table, indices]
    )
    source = find_source(name)
    return source.build(name, source.Options(), 0)


@pytest.mark.parametrize("name", EXPECTED)
def test_truth_is_that_of_all_matches(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = EXPECTED[name]
    store = build(name, list(expected), tmp_path, monkeypatch)
    assert store.per_graph("split").tolist() == [0] * (len(expected) - 1) + [2]
    for at, (atoms, bonds) in enumerate(expected.values()):
        graph = store[at]
        assert set(np.flatnonzero(graph.node_truth).tolist()) == atoms
        assert graph.edge_truth.sum() == 2 * bonds
        assert graph.y.item() == bool(atoms)
        check_truth(store, at, SETS[name].smarts)


def test_a_text_that_is_not_a_molecule_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="C1CC"):
        build("benzene", ["CC", "C1CC"], tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "arrays",
    [
        {"train_index": [0, 1]},
        {"train_index": [0.0, 1.0], "test_index": [2]},
        {"train_index": [[0, 1]], "test_index": [2]},
        {"train_index": [0, 1], "test_index": [5]},
        {"train_index": [-1, 1], "test_index": [2]},
        {"train_index": [0, 0], "test_index": [2]},
        {"train_index": [0, 1], "test_index": [1]},
        {"train_index": np.array([0, 1], dtype=object), "test_index": [2]},
    ],
)
def test_damaged_indices(arrays: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "indices.npz"
    np.savez(path, **{name: np.asarray(values) for name, values in arrays.items()})
    with pytest.raises(DataError, match=r"indices\.npz is damaged"):
        read_indices(path, 5)


def test_molecules_outside_of_both_parts_are_in_no_split(tmp_path: Path) -> None:
    path = tmp_path / "indices.npz"
    np.savez(path, train_index=np.array([3, 0]), test_index=np.array([1], dtype=np.uint8))
    assert read_indices(path, 5).tolist() == [0, 2, -1, 0, -1]
    path.write_bytes(b"no zip")
    with pytest.raises(DataError, match="is damaged"):
        read_indices(path, 5)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "mol_id,smiles\n1,CC,CC,CC\n"])
def test_damaged_tables(text: str, tmp_path: Path) -> None:
    (tmp_path / "smiles.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"smiles\.csv is damaged"):
        read_table(tmp_path / "smiles.csv")
