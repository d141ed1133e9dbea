"""Tables of molecules as data sets: what is used, what is left out and why, splits, tasks."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gsat
from gsat.core.errors import DataError, DataNotFoundError
from gsat.datasets import splits
from gsat.molecules import parallel, reader
from gsat.tasks import Task

Chem = pytest.importorskip("rdkit.Chem")

ALCOHOLS = ["C" * n + "O" for n in range(1, 31)]
RINGS = [f"c1ccccc1{'C' * n}O" for n in range(30)]


def write(path: Path, header: str, *rows: str, end: str = "\n") -> Path:
    path.write_text(end.join([header, *rows]) + end, encoding="utf-8", newline="")
    return path


def labelled(*labels: str) -> list[str]:
    return [f"{smiles},{labels[n % len(labels)]}" for n, smiles in enumerate(ALCOHOLS + RINGS)]


def test_a_table_of_two_classes(tmp_path: Path) -> None:
    data = gsat.read_molecules(write(tmp_path / "t.csv", "smiles,y", *labelled("yes", "no")))
    assert data.task == Task("binary", metric="roc_auc")
    assert data.store.meta["classes"] == ["no", "yes"]
    assert data.store[0].y.item() == 1
    assert data.store.texts("smiles") == ALCOHOLS + RINGS
    assert data.store.per_graph("line").tolist() == list(range(2, 62))
    assert [len(data.split(name)) for name in splits.NAMES] == [48, 6, 6]
    assert not data.rejected
    assert data.options["label"] == ["y"]
    assert "SMILES in 'smiles', binary label in 'y' (no, yes)" in data.notes


def test_numbers_words_and_several(tmp_path: Path) -> None:
    numbers = [f"{s},{n / 3:.3f},{n % 7 * 10.5},{n}" for n, s in enumerate(ALCOHOLS + RINGS)]
    path = write(tmp_path / "n.csv", "smiles,solubility (mg/L),logP,row", *numbers)
    one = gsat.read_molecules(path, label="logP")
    assert (one.task.kind, one.task.classes, one.task.metric) == ("regression", 1, "r2")
    train = one.train.labels("graph")
    assert one.task.centre == pytest.approx(train.mean(), rel=1e-5)
    assert one.task.scale == pytest.approx(train.std(), rel=1e-5)
    two = gsat.read_molecules(path, label=["solubility (mg/L)", "logP"], split="random")
    assert two.task.classes == 2
    np.testing.assert_allclose(two.task.centre, two.train.labels("graph").mean(0), rtol=1e-5)
    assert two.store.meta["table"]["units"] == ["mg/L", ""]
    words = gsat.read_molecules(write(tmp_path / "w.csv", "mol,c", *labelled("x", "y", "z")))
    assert words.task == Task("multiclass", 3)
    assert words.store.labels("graph").dtype == np.int64


def test_several_questions_with_missing_answers(tmp_path: Path) -> None:
    rows = [f"{s},{'01'[n % 2]},{('1', '', '0')[n % 3]}" for n, s in enumerate(ALCOHOLS + RINGS)]
    data = gsat.read_molecules(write(tmp_path / "t.csv", "smiles,a,b", *rows), split="random")
    assert data.task == Task("multilabel", 2, "roc_auc")
    assert data.store.meta["labels"] == ["a", "b"]
    assert np.isnan(data.store.labels("graph")[:, 1]).sum() == 20


def test_what_cannot_be_used_is_listed(tmp_path: Path) -> None:
    rows = labelled("0", "1")
    rows[3], rows[5], rows[8], rows[9] = "C1CC,1", "CN(C)(C)(C)C,0", ",1", "CCCC,"
    rows[11], rows[12], rows[20] = "[Na+],1", "[H+],0", "CC,1,2,3"
    path = write(tmp_path / "t.csv", "smiles,y", *rows)
    data = gsat.read_molecules(path)
    assert [(row.line, row.reason.split(":")[-1].strip()[:20]) for row in data.rejected] == [
        (5, "it is not a SMILES"),
        (7, "Explicit valence for"),
        (10, "it is empty"),
        (11, "no label"),
        (13, "it has only metal at"),
        (14, "it has no heavy atom"),
        (22, "the row has 4 cells,"),
    ]
    assert len(data.store) == 53
    assert data.rejected.summary().startswith("7 rows not used: ")
    assert "\n" not in data.rejected.summary()
    lines = list(csv.reader(io.StringIO(data.rejected.to_csv())))
    assert lines[0] == ["line", "id", "smiles", "reason"]
    assert lines[1][:3] == ["5", "", "C1CC"]
    # From the cache they are the same.
    assert gsat.read_molecules(path).rejected == data.rejected


def test_duplicates_are_merged(tmp_path: Path) -> None:
    rows = [*labelled("0", "1"), "OCC,1", "C(C)O,1", "OC,1"]  # of lines 3 (1) and 2 (0)
    data = gsat.read_molecules(write(tmp_path / "t.csv", "smiles,y", *rows))
    assert {(row.line, row.reason) for row in data.rejected} == {
        (62, "it repeats the molecule in line 3"),
        (63, "it repeats the molecule in line 3"),
        (64, "it repeats the molecule in line 2, with another label"),
        (2, "it repeats the molecule in line 64, with another label"),
    }
    assert len(data.store) == 59
    assert any(
        "3 rows repeat a molecule; 1 molecules have different labels" in n for n in data.notes
    )
    kept = gsat.read_molecules(tmp_path / "t.csv", duplicates="keep")
    assert len(kept.store) == 63
    assert not kept.rejected


def test_numbers_of_duplicates_are_averaged(tmp_path: Path) -> None:
    rows = [f"{s},{n}.5" for n, s in enumerate(ALCOHOLS)]
    data = gsat.read_molecules(write(tmp_path / "t.csv", "smiles,y", *rows, "OC,3.5", "OC,5.0"))
    assert data.store[0].y.item() == 3.0
    assert [row.reason for row in data.rejected] == [
        "it repeats the molecule in line 2, averaged with it"
    ] * 2


def test_labels_of_duplicates_complete_each_other(tmp_path: Path) -> None:
    rows = [f"{s},{n % 2},{n % 2}" for n, s in enumerate(RINGS)]
    rows += ["CCO,1,", "OCC,,0", "C(C)O,0,"]
    data = gsat.read_molecules(write(tmp_path / "t.csv", "smiles,a,b", *rows), split="random")
    last = data.store[len(data.store) - 1]
    assert last.smiles == "CCO"
    assert np.isnan(last.y[0, 0].item())  # 1 in one row, 0 in another
    assert last.y[0, 1].item() == 0


def test_mirror_images_and_isotopes_are_different_molecules(tmp_path: Path) -> None:
    same = [
        "C[C@H](N)O,1",
        "C[C@@H](N)O,0",
        "CC(N)O,1",
        "C[C@H]([15NH2])O,0",
        "F/C=C/F,1",
        "F/C=C\\F,0",
    ]
    data = gsat.read_molecules(write(tmp_path / "t.csv", "smiles,y", *labelled("0", "1"), *same))
    assert len(data.store) == 66


def test_salts(tmp_path: Path) -> None:
    rows = [f"{s}.Cl,{n % 2}" for n, s in enumerate(ALCOHOLS + RINGS)]
    path = write(tmp_path / "t.csv", "smiles,y", *rows)
    whole = gsat.read_molecules(path)
    assert whole.store[0].num_nodes == 3
    assert any("60 molecules have several fragments" in note for note in whole.notes)
    part = gsat.read_molecules(path, largest_fragment=True)
    assert part.store[0].num_nodes == 2
    assert part.store[0].smiles == "CO"


def test_splits(tmp_path: Path) -> None:
    rows = [
        f"{line},{('train', 'val', 'Test')[n % 3]}" for n, line in enumerate(labelled("0", "1"))
    ]
    path = write(tmp_path / "t.csv", "smiles,y,part", *rows)
    column = gsat.read_molecules(path, split="column:part", label="y")
    assert [part.tolist()[:2] for part in column.splits.values()] == [[0, 3], [1, 4], [2, 5]]
    assert column.options["split"] == "column:part"
    again = gsat.load_dataset(path, **{k: v for k, v in column.options.items() if k != "data_seed"})
    assert all((again.splits[k] == column.splits[k]).all() for k in column.splits)
    cycles = [f"C1{'C' * (n // 4 + 1)}C1{'C' * (n % 4)}" for n in range(60)]
    rows = [f"{smiles},{n % 2}" for n, smiles in enumerate(cycles)]
    scaffold = gsat.read_molecules(write(tmp_path / "s.csv", "smiles,y", *rows), split="scaffold")
    expected = splits.by_scaffold(splits.murcko_scaffolds(cycles))
    assert all((scaffold.splits[k] == expected[k]).all() for k in expected)
    one, two = (gsat.read_molecules(path, split="random", label="y", seed=s) for s in (0, 1))
    assert not np.array_equal(one.splits["test"], two.splits["test"])
    even = gsat.read_molecules(path, split="stratified", label="y")
    assert even.test.labels("graph").mean() == 0.5
    with pytest.raises(DataError, match=r"'0' in the column 'y' is not train"):
        gsat.read_molecules(path, split="column:y", label="y")
    with pytest.raises(DataError, match=r"'split': .*'alphabetical'"):
        gsat.read_molecules(path, split="alphabetical")


def test_splits_chosen_by_themselves(tmp_path: Path) -> None:
    chains = [f"{'C' * n}N1CCCC1" for n in range(60)]
    many = [f"{s},{n % 2}" for n, s in enumerate([*ALCOHOLS, *RINGS, *chains])]
    assert (
        gsat.read_molecules(write(tmp_path / "a.csv", "smiles,y", *many)).options["split"]
        == "stratified"
    )
    varied = [
        f"C1{'C' * (n // 2 + 1)}C1,{n % 2 if n % 4 < 2 else (n // 2) % 2}" for n in range(160)
    ]
    varied = [f"{line.replace('C1,', f'C1{chr(79) * (n % 2)},')}" for n, line in enumerate(varied)]
    data = gsat.read_molecules(write(tmp_path / "b.csv", "smiles,y", *varied))
    assert data.options["split"] == "scaffold"
    for name in splits.NAMES:
        assert set(data.split(name).labels("graph").reshape(-1)) == {0.0, 1.0}


def test_rare_classes_weigh_as_much(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "smiles,y", *labelled("0", "0", "0", "1"))
    data = gsat.read_molecules(path, balance=True)
    share = float(data.train.labels("graph").mean())
    assert data.task.weights == pytest.approx((0.5 / (1 - share), 0.5 / share))
    assert gsat.read_molecules(path).task.weights is None


def test_the_table_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    path = write(tmp_path / "t.csv", "smiles,y", *labelled("0", "1"))
    first = gsat.read_molecules(path)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the table is read again")

    monkeypatch.setattr(reader, "read_table", refuse)
    given = {k: v for k, v in first.options.items() if k != "data_seed"}
    for again in (gsat.read_molecules(path), gsat.load_dataset(path, **given)):
        assert again.hash == first.hash
        assert again.options == first.options
    with pytest.raises(AssertionError):
        gsat.read_molecules(path, largest_fragment=True)
    with path.open("a") as file:
        file.write("CCBr,1\n")
    with pytest.raises(AssertionError):
        gsat.read_molecules(path)


def test_two_processes_read_the_same_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*ALCOHOLS, "C1CC", *RINGS, ""] * 4
    options = {"canonical": True, "scaffold": True}
    monkeypatch.setattr(parallel, "CHUNK", 100)
    alone, parts = parallel.read_many(texts, quiet=True, **options)
    monkeypatch.setattr(parallel, "_FEW", 10)
    monkeypatch.setenv("GSAT_JOBS", "2")
    shared, shared_parts = parallel.read_many(texts, quiet=True, **options)
    assert [list(row) for row in shared.problems] == [list(row) for row in alone.problems]
    for name in ("rows", "smiles", "canonical", "scaffold", "components"):
        assert getattr(shared, name) == getattr(alone, name)
    assert len(parts) == len(shared_parts) == 3
    for one, two in zip(parts, shared_parts, strict=True):
        assert all(np.array_equal(one[name], two[name]) for name in one)


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="there is no file"):
        gsat.read_molecules(tmp_path / "none.csv")
    with pytest.raises(DataError, match="is not a table of molecules"):
        gsat.read_molecules(tmp_path / "graphs.jsonl")
    smi = tmp_path / "t.smi"
    smi.write_text("".join(f"{s} name{n} {n % 2}\n" for n, s in enumerate(ALCOHOLS)))
    data = gsat.read_molecules(smi, label="column_3", id="name")
    assert data.store.texts("id")[1] == "name1"
    with Chem.SDWriter(str(tmp_path / "t.sdf")) as writer:
        for n, smiles in enumerate(ALCOHOLS):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("active", str(n % 2))
            writer.write(molecule)
    sdf = gsat.read_molecules(tmp_path / "t.sdf")
    assert sdf.store.node_counts.tolist() == list(range(2, 32))
    given = {k: v for k, v in sdf.options.items() if k != "data_seed"}
    assert gsat.load_dataset(tmp_path / "t.sdf", **given).hash == sdf.hash


# Molecules, rejected rows and task of the real tables, counted with RDKit alone.
REAL = {
    "bbbp": (1965, "binary", "scaffold"),
    "bace": (1513, "binary", "scaffold"),
    "clintox": (1440, "multilabel", "scaffold"),
    "delaney": (1117, "regression", "scaffold"),
    "freesolv": (642, "regression", "scaffold"),
}


@pytest.mark.medium
@pytest.mark.parametrize("name", REAL)
def test_real_tables(name: str, raw_file: Callable[[str], Path]) -> None:
    path = raw_file(f"molecules_csv/{name}.csv")
    data = gsat.read_molecules(path)
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    canonical = {Chem.CanonSmiles(row[0]) for row in rows}
    if name in ("delaney", "freesolv", "bace"):
        assert len(data.store) == len(canonical)
    assert (len(data.store), data.task.kind, data.options["split"]) == REAL[name]
    assert len(data.store) + len(data.rejected) == len(rows)
    assert {Chem.CanonSmiles(s) for s in data.store.texts("smiles")} <= canonical
