"""`load_dataset` on data of one's own: every form of it gives the same data set."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.model_selection import StratifiedKFold
from torch.utils.data import Subset
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataLoader

import gsat
from gsat.core.errors import DataError, DataNotFoundError
from gsat.datasets.formats import jsonl
from gsat.datasets.load import Dataset, load_dataset
from gsat.graphs import GraphStore, from_pyg
from own_data import as_json, make_graphs, tu_tables, write_lines, write_tu


class InMemory(InMemoryDataset):
    """A PyG data set of given graphs."""

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def sizes(data: Dataset) -> list[int]:
    return [len(data.splits[name]) for name in ("train", "valid", "test")]


def test_every_form_is_the_same_data(tmp_path: Path) -> None:
    graphs = make_graphs()
    given: dict[str, Any] = {
        "list": graphs,
        "tuple": tuple(graphs),
        "iterator": iter(graphs),
        "subset": Subset(graphs, range(len(graphs))),
        "batch": Batch.from_data_list(graphs),
        "loader": DataLoader(graphs, batch_size=8),
        "in-memory": InMemory(graphs),
        "store": from_pyg(graphs),
        "saved": from_pyg(graphs).save(tmp_path / "saved"),
        "lines": write_lines(tmp_path / "toy.jsonl", [as_json(g) for g in graphs]),
        "zipped lines": str(write_lines(tmp_path / "toy.jsonl.gz", [as_json(g) for g in graphs])),
        "tables": write_tu(tmp_path / "toy", tu_tables(graphs)),
        "zipped tables": write_tu(tmp_path / "toy.zip", tu_tables(graphs)),
    }
    found = {form: load_dataset(source, seed=1) for form, source in given.items()}
    assert len({data.hash for data in found.values()}) == 1
    for form, data in found.items():
        assert data.task == gsat.Task("binary"), form
        assert data.matches_paper == "different"
        assert sizes(data) == [32, 4, 4]
        for name, part in data.splits.items():
            assert part.tolist() == found["list"].splits[name].tolist(), form
        at_a_path = isinstance(given[form], str | Path)
        assert data.name == (str(given[form]) if at_a_path else "custom")
    for ours, graph in zip(found["tables"].store, graphs, strict=True):
        assert torch.equal(ours.edge_index, graph.edge_index)
        assert torch.equal(ours.x, graph.x)
        assert ours.y.item() == graph.y.item()


def test_the_graphs_given_are_not_changed() -> None:
    graphs = make_graphs(12, y=lambda i, g: torch.arange(g.num_nodes) % 2)
    before = copy.deepcopy(graphs)
    load_dataset(graphs)
    for graph, old in zip(graphs, before, strict=True):
        assert graph.keys() == old.keys()
        assert torch.equal(graph.y, old.y)
    store = from_pyg(make_graphs(12, y=lambda i, g: torch.tensor([3 + i % 2])))
    load_dataset(store)
    assert store.per_graph("y").tolist() == [3, 4] * 6
    assert store.meta == {}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_part_of_a_store_is_its_own_data(seed: int) -> None:
    store = from_pyg(make_graphs())
    part = store.select(np.arange(10, 30))
    data = load_dataset(part, seed=seed)
    assert len(data.store) == 20
    assert data.hash == load_dataset(make_graphs()[10:30]).hash != load_dataset(store).hash
    named = load_dataset("ba2motifs", graphs=20)
    assert load_dataset(named.train).hash != named.hash  # not the hash of all it was taken from


def test_given_splits_are_used_unless_another_is_chosen() -> None:
    marks = ["train", "val", "test", "train", None]
    graphs = make_graphs(40, split=lambda i, g: marks[i % 5])
    data = load_dataset(graphs, seed=3)
    assert data.options["split"] == "given"
    assert data.splits["train"].tolist() == [i for i in range(40) if i % 5 in (0, 3)]
    assert data.splits["test"].tolist() == [i for i in range(40) if i % 5 == 2]
    assert sizes(load_dataset(graphs, split="random", train=0.5, valid=0.25, test=0.25)) == [
        20,
        10,
        10,
    ]
    with pytest.raises(DataError, match="have no split"):
        load_dataset(make_graphs(), split="given")
    with pytest.raises(DataError, match="graph 0 has the split 'trian'"):
        load_dataset(make_graphs(4, split="trian"))


def test_folds(tmp_path: Path) -> None:
    graphs = make_graphs(43)
    tests = [load_dataset(graphs, split="kfold", folds=5, fold=f).splits["test"] for f in range(5)]
    assert sorted(np.concatenate(tests).tolist()) == list(range(43))
    labels = np.arange(43) % 2
    theirs = StratifiedKFold(5).split(labels, labels)
    counts = sorted(np.bincount(labels[test]).tolist() for _, test in theirs)
    assert sorted(np.bincount(labels[test]).tolist() for test in tests) == counts


def test_scaffold_split() -> None:
    pytest.importorskip("rdkit")
    smiles = ["c1ccccc1C", "CCO", "C1CCCCC1", "c1ccccc1", "c1ccccc1O"]
    graphs = make_graphs(40, smiles=lambda i, g: smiles[i % 5])
    data = load_dataset(graphs, split="scaffold", train=0.6, valid=0.2, test=0.2)
    assert data.splits["train"].tolist() == [i for i in range(40) if i % 5 in (0, 3, 4)]
    assert sizes(data) == [24, 8, 8]
    assert data.store[1].smiles == "CCO"
    with pytest.raises(DataError, match="have no 'smiles'"):
        load_dataset(make_graphs(), split="scaffold")


def test_unlabelled_graphs_are_kept_but_in_no_split(tmp_path: Path) -> None:
    records = [as_json(g) for g in make_graphs(40)]
    for record in records[::4]:
        record["y"] = None
    data = load_dataset(write_lines(tmp_path / "toy.jsonl", records))
    assert len(data.store) == 40
    assert sizes(data) == [24, 3, 3]
    assert not any(i % 4 == 0 for part in data.splits.values() for i in part)


def test_regression_is_in_units_of_its_training_labels() -> None:
    graphs = make_graphs(40, y=lambda i, g: torch.tensor([100.0 + 2.5 * i]))
    data = load_dataset(graphs, seed=2)
    values = data.train.labels("graph")[:, 0]
    assert data.task.kind == "regression"
    assert data.options["split"] == "random"
    assert (data.task.centre, data.task.scale) == pytest.approx((values.mean(), values.std()))
    assert load_dataset(graphs, metric="mae").task.metric == "mae"
    whole = load_dataset(make_graphs(40), task="regression")
    assert whole.task.kind == "regression"
    flat = load_dataset(make_graphs(20, y=torch.tensor([0.5])))
    assert flat.task.scale == 1


def test_several_labels() -> None:
    graphs = make_graphs(40, y=lambda i, g: torch.tensor([[i % 2, float("nan"), i % 3 == 0]]))
    data = load_dataset(graphs)
    assert data.task == gsat.Task("multilabel", 3, "roc_auc")
    assert data.train.labels("graph").shape == (32, 3)


# -- nodes ----------------------------------------------------------------------------------------


def one_graph(nodes: int = 60, **more: Any) -> Data:
    ends = torch.arange(nodes - 1)
    edges = torch.stack([torch.cat([ends, ends + 1]), torch.cat([ends + 1, ends])])
    label = torch.arange(nodes) % 3
    return Data(x=torch.rand(nodes, 2), edge_index=edges, y=label, **more)


def test_nodes_of_one_graph_are_split_by_label() -> None:
    data = load_dataset([one_graph()], seed=0)
    assert data.task == gsat.Task("multiclass", 3, level="node")
    assert sizes(data) == [48, 6, 6]
    assert np.bincount(data.train.labels("node")).tolist() == [16, 16, 16]
    assert len(data.train) == 1  # the graph stays whole


def test_masks_of_nodes_are_a_given_split() -> None:
    masks = {
        "train_mask": torch.arange(60) < 30,
        "val_mask": (torch.arange(60) >= 30) & (torch.arange(60) < 40),
        "test_mask": torch.arange(60) >= 50,
    }
    data = load_dataset([one_graph(**masks)])
    assert data.options["split"] == "given"
    assert data.splits["valid"].tolist() == list(range(30, 40))
    assert data.splits["test"].tolist() == list(range(50, 60))
    with pytest.raises(DataError, match=r"graph 0: train_mask has the shape \[60, 2\]"):
        load_dataset([one_graph(train_mask=torch.ones(60, 2, dtype=torch.bool))])
    masks["test_mask"] = torch.arange(60) >= 38
    with pytest.raises(DataError, match="graph 0: node 38 is in test_mask and in another mask"):
        load_dataset([one_graph(**masks)])


def test_graphs_without_truth_stay_unannotated_in_a_list(tmp_path: Path) -> None:
    lines = [as_json(graph) for graph in make_graphs()]
    for number, line in enumerate(lines):
        if number % 3:
            line["edge_truth"] = [1] * len(line["edge_index"][0])
    store = load_dataset(write_lines(tmp_path / "graphs.jsonl", lines)).store
    again = load_dataset(list(store)).store
    assert again.per_graph("annotated").tolist() == [number % 3 > 0 for number in range(40)]


def test_nodes_of_several_graphs_go_with_their_graphs() -> None:
    graphs = make_graphs(20, y=lambda i, g: (torch.arange(g.num_nodes) + i) % 2)
    data = load_dataset(graphs, seed=4)
    assert data.task == gsat.Task("binary", level="node")
    owner = np.repeat(np.arange(20), data.store.node_counts)
    held = [set(owner[part].tolist()) for part in data.splits.values()]
    assert [len(part) for part in held] == [16, 2, 2]
    assert sum(sizes(data)) == data.store.num_nodes
    with pytest.raises(DataError, match="stratified"):
        load_dataset(graphs, split="stratified")


def test_labels_of_nodes_in_lines(tmp_path: Path) -> None:
    graph = one_graph()
    record = {
        "x": graph.x.tolist(),
        "edge_index": graph.edge_index.tolist(),
        "node_y": [None if i % 10 == 0 else "abc"[i % 3] for i in range(60)],
    }
    data = load_dataset(write_lines(tmp_path / "toy.jsonl", [record]))
    assert data.task == gsat.Task("multiclass", 3, level="node")
    assert data.store.meta["classes"] == ["a", "b", "c"]
    assert sum(sizes(data)) == 54
    assert data.train.labels("node").min() == 0


# -- refusals and the cache -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ([], "no graphs"),
        ([{"x": 1}], "graph 0 is a dict, not a PyG Data"),
        (7, "data must be a name, a path, a GraphStore or a list of PyG Data, not a int"),
        (make_graphs(1)[0], "not a Data"),
        ("custom", "given in Python"),
        ("nosuch", "no data set 'nosuch'"),
        (make_graphs(5), "the split 'valid' has no graphs"),
        (make_graphs(split=["train"]), r"graph 0 has the split \['train'\]"),
        (make_graphs(split=torch.arange(99)), "graph 0 has the split .*train_mask"),
        (make_graphs(y="yes"), "graph 0: 'y' is not a dense numeric tensor"),
    ],
)
def test_invalid_data(source: Any, why: str) -> None:
    with pytest.raises(DataError, match=why):
        load_dataset(source)


def test_paths_that_hold_no_data(tmp_path: Path) -> None:
    with pytest.raises(DataNotFoundError, match="there is no file or folder"):
        load_dataset(tmp_path / "nothing")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(DataError, match=r"notes.txt can't be read as graphs.* \.jsonl"):
        load_dataset(tmp_path / "notes.txt")
    with pytest.raises(DataError, match=r"no saved graphs.* TU folder"):
        load_dataset(tmp_path)


def test_classes_may_be_numbers_and_stand_once() -> None:
    graphs = make_graphs(y=lambda number, _: torch.tensor([2 * (number % 2) - 1]))
    data = load_dataset(graphs, classes=[1, -1])
    assert data.store.meta["classes"] == data.options["classes"] == ["1", "-1"]
    assert data.store.labels("graph")[:2, 0].tolist() == [1, 0]
    with pytest.raises(DataError, match="the classes 1, -1, 1 are not all different"):
        load_dataset(graphs, classes=[1, -1, 1])


def test_files_are_read_once_until_they_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    reads = []
    whole = jsonl.read

    def read(path: Path) -> GraphStore:
        reads.append(path)
        return whole(path)

    read.__module__ = jsonl.__name__
    monkeypatch.setattr(jsonl, "read", read)
    path = write_lines(tmp_path / "toy.jsonl", [as_json(g) for g in make_graphs(40)])
    first = load_dataset(path)
    assert load_dataset(path, seed=1, split="random").hash == first.hash
    assert len(reads) == 1
    write_lines(path, [as_json(g) for g in make_graphs(39)])
    assert load_dataset(path).hash != first.hash
    assert len(reads) == 2
    with pytest.raises(DataError, match="the data has changed since the training"):
        load_dataset(path, content=first.hash)
