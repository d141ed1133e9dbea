"""OGBG-Mol: the real files' numbers, the `ogb` package, and small files for the rest."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gsat.core.errors import DataError
from gsat.datasets.load import load_dataset
from gsat.tasks import Task

# Split sizes, labels, what the files are.
REAL = {
    "molbace": ((1210, 151, 152), 1, "yes"),
    "molbbbp": ((1631, 204, 204), 1, "yes"),
    "molclintox": ((1181, 148, 148), 2, "rebuilt"),
    "moltox21": ((6264, 783, 784), 12, "rebuilt"),
    "molsider": ((1141, 143, 143), 27, "rebuilt"),
    "molhiv": ((32901, 4113, 4113), 1, "rebuilt"),
}


@pytest.mark.parametrize("name", REAL)
def test_real_files(name: str, raw_file: Callable[[str], Path]) -> None:
    raw_file(f"ogbg_mol/ogbg_{name}/raw/edge.csv.gz")
    sizes, labels, match = REAL[name]
    data = load_dataset(f"ogbg-{name}", seed=3)
    store = data.store
    assert tuple(len(data.splits[s]) for s in ("train", "valid", "test")) == sizes
    assert len(np.unique(np.concatenate(list(data.splits.values())))) == len(store) == sum(sizes)
    assert store.arrays["x"].dtype == np.int64
    assert store.per_graph("y").shape == (len(store), labels)
    assert len(store.meta["labels"]) == labels
    assert data.matches_paper == match
    kind = "binary" if labels == 1 else "multilabel"
    assert data.task == Task(kind, max(labels, 2), "roc_auc")


def test_rows_of_the_real_files(raw_file: Callable[[str], Path]) -> None:
    """The first and the last molecule of BACE against the text of the files."""
    folder = raw_file("ogbg_mol/ogbg_molbace/raw/edge.csv.gz").parent

    def lines(name: str) -> list[list[str]]:
        with gzip.open(folder / f"{name}.csv.gz", "rt") as file:
            return [line.strip().split(",") for line in file]

    store = load_dataset("ogbg-molbace").store
    atoms, bonds = (int(lines(f"num-{kind}-list")[-1][0]) for kind in ("node", "edge"))
    last = store[len(store) - 1]
    assert last.x.tolist() == [[int(v) for v in row] for row in lines("node-feat")[-atoms:]]
    ends = [[int(v) for v in row] for row in lines("edge")[-bonds:]]
    assert last.edge_index.T.tolist() == [e for u, v in ends for e in ([u, v], [v, u])]
    first = int(lines("num-node-list")[0][0])
    assert store[0].x.tolist() == [[int(v) for v in row] for row in lines("node-feat")[:first]]
    assert [y.item() for y in store.per_graph("y")] == [float(r[0]) for r in lines("graph-label")]


def test_missing_labels_of_tox21(raw_file: Callable[[str], Path]) -> None:
    raw_file("ogbg_mol/ogbg_moltox21/raw/edge.csv.gz")
    y = load_dataset("ogbg-moltox21").store.per_graph("y")
    assert np.isnan(y).any(axis=0).all()
    assert set(np.unique(y[~np.isnan(y)])) == {0.0, 1.0}


@pytest.mark.parametrize("name", ["ogbg-molhiv", "ogbg-moltox21"])
def test_the_metric_is_that_of_ogb(name: str) -> None:
    ogb = pytest.importorskip("ogb.graphproppred", reason="the ogb package is not installed")
    rng = np.random.RandomState(0)
    tasks = 1 if name == "ogbg-molhiv" else 12
    y = (rng.random_sample((200, tasks)) < 0.2).astype(np.float32)
    # Scores with ties, labels missing where there are several tasks, a task of one class only.
    scores = np.round(rng.standard_normal((200, tasks)) + y, 1).astype(np.float32)
    if tasks > 1:
        y[rng.random_sample(y.shape) < 0.3] = np.nan
        y[:, 4] = 0
    task = Task("binary" if tasks == 1 else "multilabel", max(tasks, 2), "roc_auc")
    theirs = ogb.Evaluator(name).eval({"y_true": y, "y_pred": scores})["rocauc"]
    ours = task.score(torch.from_numpy(scores), torch.from_numpy(y))
    assert ours == pytest.approx(theirs, abs=1e-12)


# -- files of our own ------------------------------------------------------------------------------

ETHANOL = {
    "raw/num-node-list": "3\n1\n2\n2\n",
    "raw/num-edge-list": "2\n0\n1\n1\n",
    "raw/edge": "0,1\n1,2\n0,1\n0,1\n",
    "raw/node-feat": "\n".join(["5,0,4,5,3,0,2,0,0"] * 8) + "\n",
    "raw/graph-label": "0,1\n1,nan\nnan,0\n1,0\n",
    "mapping/mol": "FDA_APPROVED,CT_TOX,smiles,mol_id\n0,1,CCO,a\n1,,C,b\n,0,CC,c\n1,0,CO,d\n",
    "split/scaffold/train": "0\n3\n",
    "split/scaffold/valid": "2\n",
    "split/scaffold/test": "1\n",
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write the tables of a small ``ogbg-molclintox``, some of them changed."""
    monkeypatch.setenv("GSAT_DATA", str(tmp_path))
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))

    def write(changed: dict[str, str] | None = None) -> None:
        for part, text in {**ETHANOL, **(changed or {})}.items():
            path = tmp_path / f"ogbg_mol/ogbg_molclintox/{part}.csv.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(text.encode()))

    return write


def test_small_files(files: Callable[..., None]) -> None:
    files()
    data = load_dataset("ogbg-molclintox")
    assert [g.num_nodes for g in data.store] == [3, 1, 2, 2]
    assert [g.num_edges for g in data.store] == [4, 0, 2, 2]
    assert data.store[0].edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert data.splits["valid"].tolist() == [2]
    assert data.store.meta["labels"] == ["FDA_APPROVED", "CT_TOX"]
    assert data.store.texts("smiles") == ["CCO", "C", "CC", "CO"]
    assert data.matches_paper == "yes"
    assert np.isnan(data.store.per_graph("y")[1, 1])


def test_changed_files_are_read_again(files: Callable[..., None]) -> None:
    files()
    before = load_dataset("ogbg-molclintox").hash
    files({"raw/graph-label": "0,1\n1,1\nnan,0\n1,0\n"})
    assert load_dataset("ogbg-molclintox").hash != before


@pytest.mark.parametrize(
    ("part", "text", "said"),
    [
        ("raw/num-node-list", "3\n1\n", "do not fit together"),
        ("raw/edge", "0,1,2\n", "3 columns, not 2"),
        ("raw/edge", "0,9\n1,2\n0,1\n0,1\n", "graph 0 has an edge 0 → 9"),
        ("raw/node-feat", "119,0,4,5,3,0,2,0,0\n" * 8, "line 1, column 1"),
        ("raw/node-feat", "x\n", "is damaged"),
        ("split/scaffold/train", "0\n2\n3\n", "lists 5 graphs"),
        ("split/scaffold/train", "7\n", "beyond its 4"),
        ("mapping/mol", "", "is damaged"),
        ("mapping/mol", "a,b,c\n1,2,C\n", "is damaged"),
        ("mapping/mol", "a,b,smiles\n1,2,C\n", "has 1 molecules"),
    ],
)
def test_damaged_files(files: Callable[..., None], part: str, text: str, said: str) -> None:
    files({part: text})
    with pytest.raises(DataError) as caught:
        load_dataset("ogbg-molclintox")
    assert said in str(caught.value)
