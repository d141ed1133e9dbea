"""Planted rules: labels and truth against RDKit's own matches, on tables of our own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gsat.core.errors import DataError, DataNotFoundError
from gsat.datasets.load import Dataset, load_dataset
from gsat.datasets.sources.attribution import SETS
from gsat.molecules.smiles import molecule_of
from gsat.molecules.substructures import MOST_CHARACTERS, MOST_SMARTS

Chem = pytest.importorskip("rdkit.Chem")

CHAINS = ["C" * n for n in range(1, 13)]
MOLECULES = [
    *CHAINS,
    *(f"{chain}O" for chain in CHAINS),
    *(f"{chain}C#N" for chain in CHAINS),
    *(f"N#CC{chain}C#N" for chain in CHAINS),
    *(f"{chain}C(=O)N" for chain in CHAINS),
    *(f"{chain}C(=O)NCC#N" for chain in CHAINS[:6]),
    "O=C(N)c1ccccc1C(=O)N",
]
NITRILE, AMIDE = "[CX2]#N", "C(=O)[NX3]"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of all molecules with identifiers."""
    return write(tmp_path / "mine.csv", MOLECULES)


def write(path: Path, smiles: list[str], header: str = "structure,name") -> Path:
    lines = [f"{text},m{at}" for at, text in enumerate(smiles)]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def counts(smiles: str, *smarts: str) -> list[int]:
    molecule = Chem.MolFromSmiles(smiles)
    return [len(molecule.GetSubstructMatches(Chem.MolFromSmarts(text))) for text in smarts]


def check_atoms(data: Dataset, smarts: dict[str, float], *, positive_only: bool) -> None:
    """Compare the truth of every atom and bond with RDKit's matches."""
    labels = data.store.labels("graph")[:, 0]
    for at, label in enumerate(labels):
        graph = data.store[at]
        molecule = molecule_of(graph.smiles, graph.num_nodes)
        weighted = [
            (set(match), weight)
            for text, weight in smarts.items()
            for match in molecule.GetSubstructMatches(Chem.MolFromSmarts(text))
            if label or not positive_only
        ]
        share = np.zeros(graph.num_nodes)
        for atoms, weight in weighted:
            share[list(atoms)] += weight / len(atoms)
        assert graph.node_sign.tolist() == np.sign(share).tolist()
        assert graph.node_truth.tolist() == np.abs(np.sign(share)).tolist()
        assert graph.annotated.item() == bool(weighted)
        true = [
            any({u, v} <= atoms for atoms, _ in weighted) for u, v in graph.edge_index.T.tolist()
        ]
        assert graph.edge_truth.bool().tolist() == true


@pytest.mark.parametrize(
    ("rule", "label"),
    [
        ("any", lambda nitriles, amides: nitriles > 0 or amides > 0),
        ("all", lambda nitriles, amides: nitriles > 0 and amides > 0),
        ("count", lambda nitriles, amides: nitriles + amides),
        ("sum", lambda nitriles, amides: 2.5 * nitriles - amides),
    ],
)
def test_the_rule_decides_labels_and_truth(
    rule: str, label: Callable[[int, int], float], table: Path
) -> None:
    weights = {NITRILE: 2.5, AMIDE: -1.0} if rule == "sum" else {NITRILE: 1.0, AMIDE: 1.0}
    data = load_dataset(
        "planted", table=str(table), smarts=list(weights), rule=rule, molecules=0, balance=False,
        weights=list(weights.values()) if rule == "sum" else [],
    )  # fmt: skip
    classes = rule in ("any", "all")
    assert (data.task.kind, data.task.metric) == (
        ("binary", "roc_auc") if classes else ("regression", "r2")
    )
    assert sorted(data.store.texts("smiles")) == sorted(MOLECULES)
    for smiles, y in zip(data.store.texts("smiles"), data.store.labels("graph"), strict=True):
        assert y[0] == label(*counts(smiles, NITRILE, AMIDE))
    check_atoms(data, weights, positive_only=classes)
    if not classes:  # standardised by the training labels
        other = load_dataset("planted", seed=1, **data.options)
        assert other.hash == data.hash
        assert other.task.centre != data.task.centre
        for found in (data, other):
            train = found.train.labels("graph")
            assert found.task.centre == pytest.approx(train.mean())
            assert found.task.scale == pytest.approx(train.std())


def test_shares_that_cancel_have_no_sign(table: Path) -> None:
    data = load_dataset(
        "planted", table=str(table), smarts=["CC#N", "[CX4]C#N", AMIDE], rule="sum",
        weights=[0.1, -0.1, 1], molecules=0,
    )  # fmt: skip
    for at in range(len(data.store)):
        graph = data.store[at]
        amide = {i for m in Chem.MolFromSmiles(graph.smiles).GetSubstructMatches(
            Chem.MolFromSmarts(AMIDE)) for i in m}  # fmt: skip
        assert set(np.flatnonzero(graph.node_sign).tolist()) == amide


def test_matches_of_single_atoms_have_no_true_bonds(table: Path) -> None:
    data = load_dataset("planted", table=str(table), smarts=["[#7]"], rule="count", molecules=0)
    assert not data.store.has("edge_truth")
    element = data.store.arrays["x"][:, 0]
    assert (data.store.arrays["node_truth"] == (element == 7)).all()


# -- drawing ----------------------------------------------------------------------------------


def test_both_classes_are_drawn_in_equal_numbers(table: Path) -> None:
    nitriles = sum(bool(counts(smiles, NITRILE)[0]) for smiles in MOLECULES)
    options: dict[str, Any] = {"table": str(table), "smarts": [NITRILE]}
    whole = load_dataset("planted", **options)
    labels = whole.store.labels("graph")[:, 0]
    assert labels.sum() == nitriles == len(labels) / 2
    part = load_dataset("planted", molecules=20, **options)
    assert len(part.store) == 20
    assert part.store.labels("graph").sum() == 10
    for data in (whole, part):
        for name in ("train", "valid", "test"):
            assert 0 < data.split(name).labels("graph").mean() < 1
    other = load_dataset("planted", molecules=20, data_seed=1, **options)
    assert set(other.store.texts("smiles")) != set(part.store.texts("smiles"))
    again = load_dataset("planted", molecules=20, seed=5, **options)
    assert again.hash == part.hash
    assert not np.array_equal(again.splits["train"], part.splits["train"])


def test_identifiers_and_unusable_rows_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.csv", [*MOLECULES, "C1CC", *MOLECULES[:5]])
    data = load_dataset("planted", table=str(path), smarts=[NITRILE], molecules=0, balance=False)
    assert [row.line for row in data.rejected] == [len(MOLECULES) + 2]
    # A molecule that is listed twice is drawn once.
    canonical = {Chem.CanonSmiles(smiles) for smiles in data.store.texts("smiles")}
    assert len(data.store) == len(canonical) == len(MOLECULES)
    lines = path.read_text("utf-8").splitlines()[1:]
    pairs = zip(data.store.texts("smiles"), data.store.texts("id"), strict=True)
    assert {f"{smiles},{name}" for smiles, name in pairs} <= set(lines)


def test_the_column_of_smiles_can_be_named(tmp_path: Path) -> None:
    lines = [f"{smiles},{'C' * (at % 3 + 1)}" for at, smiles in enumerate(MOLECULES)]
    path = tmp_path / "two.csv"
    path.write_text("\n".join(["smiles,other", *lines]), encoding="utf-8")
    options: dict[str, Any] = {"table": str(path), "smarts": [NITRILE], "molecules": 0}
    assert len(load_dataset("planted", smiles="smiles", **options).store) > 10
    with pytest.raises(DataError, match="0 of 3 molecules"):
        load_dataset("planted", smiles="other", **options)
    with pytest.raises(DataError, match=r"no column 'nosuch'.*'smiles'"):
        load_dataset("planted", smiles="nosuch", **options)


def test_a_table_that_changes_makes_other_graphs(table: Path) -> None:
    options: dict[str, Any] = {"table": str(table), "smarts": [NITRILE], "molecules": 0}
    before = load_dataset("planted", **options)
    write(table, [*MOLECULES, "CC(C)C#N", "CC(C)C"])
    assert load_dataset("planted", **options).hash != before.hash
    write(table, MOLECULES)
    assert load_dataset("planted", **options).hash == before.hash


@pytest.mark.medium
def test_molecules_of_benzene_are_the_default(raw_file: Callable[[str], Path]) -> None:
    raw_file("attribution/benzene_smiles.csv")
    ring = SETS["benzene"].smarts[0]
    data = load_dataset("planted", smarts=[ring], molecules=300)
    assert len(data.store) == 300
    for smiles, y in zip(data.store.texts("smiles"), data.store.labels("graph"), strict=True):
        assert y[0] == bool(counts(smiles, ring)[0])
    other = load_dataset("planted", smarts=[ring], molecules=300, data_seed=1)
    assert other.hash != data.hash  # although the molecules are from a raw file


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"smarts": []}, "not 0"),
        ({"smarts": ["C"] * (MOST_SMARTS + 1)}, f"not {MOST_SMARTS + 1}"),
        ({"smarts": ["C" * (MOST_CHARACTERS + 1)]}, f"{MOST_CHARACTERS + 1} characters"),
        ({"smarts": ["C#N", "C("]}, r"C\("),
        ({"smarts": [""]}, "''"),
        ({"smarts": ["C N"]}, "'C N'"),
        ({"smarts": ["C\0"]}, "C"),
        ({"smarts": ["[Au]"]}, "0 of 67 molecules"),
        ({"smarts": ["*"]}, "67 of 67 molecules"),
        ({"smarts": ["[Au]"], "rule": "count"}, "the label 0 to each of 67"),
        ({"smarts": ["*.*.*.*.*"]}, r"\*\.\*\.\*\.\*\.\*"),
        ({"smarts": ["c1ccccc1"]}, "not 2"),
        ({"rule": "sum"}, "not 0"),
        ({"rule": "sum", "weights": [1, 2]}, "not 2"),
        ({"rule": "sum", "weights": [0]}, "not 0"),
        ({"rule": "sum", "weights": [1e9]}, r"not 1e\+09"),
        ({"weights": [1]}, "rule='any'"),
        ({"rule": "both"}, "'both'"),
        ({"molecules": 3}, "not 3"),
        ({"table": "mine.xlsx"}, "mine.xlsx"),
        ({"table": "", "smiles": "x"}, "'smiles'"),
    ],
)
def test_refusals(options: dict[str, Any], value: str, table: Path) -> None:
    with pytest.raises(DataError, match=value):
        load_dataset("planted", **{"table": str(table), **options})


def test_tables_that_can_not_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match=r"gone\.csv"):
        load_dataset("planted", table=str(tmp_path / "gone.csv"))
    path = tmp_path / "words.csv"
    path.write_text("a,b\nxyzzy,foo\nplugh,bar\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"words\.csv.* no column holds SMILES"):
        load_dataset("planted", table=str(path))
