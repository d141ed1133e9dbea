"""Checks at the door: each problem is found, with the number of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gsat.core.errors import DataError
from gsat.graphs import GraphStore, from_pyg
from gsat.graphs.validation import DataIssue, find_issues, one_way, validate_dataset
from gsat.tasks import Task

SPLITS = {"train": np.arange(8), "valid": np.arange(8, 10), "test": np.arange(10, 12)}
BINARY = Task("binary")


def make(task: Task = BINARY, **change: Any) -> GraphStore:
    """Twelve paths of three nodes, no two alike, of classes 0 and 1 in turn."""
    graphs, nodes, edges = 12, 36, 24
    arrays: dict[str, Any] = {
        "node_ptr": np.arange(graphs + 1) * 3,
        "edge_ptr": np.arange(graphs + 1) * 2,
        "edge_index": np.tile([[0, 1], [1, 2]], graphs),
        "x": np.arange(nodes, dtype=np.float32),
        "edge_attr": np.ones(edges, dtype=np.float32),
        "edge_truth": np.tile([0.0, 1.0], graphs),
    }
    label = np.arange(nodes if task.level == "node" else graphs) % 2
    if task.kind != "multiclass":
        label = np.repeat(label[:, None], task.num_logits, axis=1).astype(np.float32)
    arrays["node_y" if task.level == "node" else "y"] = label
    return GraphStore.from_arrays(**{**arrays, **change})


def only(found: list[DataIssue]) -> DataIssue:
    assert len(found) == 1, found
    return found[0]


def changed(name: str, at: Any, value: float, task: Task = BINARY) -> GraphStore:
    """The same graphs with one value of an array set, past the checks of ``from_arrays``."""
    store = make(task, edge_weight=np.ones(24), node_truth=np.zeros(36))
    array = store.arrays[name].copy()
    if value != value or value != int(np.clip(value, -9, 9)):  # a whole number leaves whole numbers
        array = array.astype(np.float32)
    array[at] = value
    return GraphStore({**store.arrays, name: array}, store.meta)


def test_nothing_to_say() -> None:
    assert find_issues(make(), BINARY, SPLITS) == []
    validate_dataset(make(), BINARY, SPLITS, name="fine")


@pytest.mark.parametrize(
    ("name", "row", "value", "graph"),
    [
        ("x", 7, np.nan, 2),
        ("x", 35, np.inf, 11),
        ("edge_attr", 0, -np.inf, 0),
        ("edge_weight", 9, np.nan, 4),
        ("edge_truth", 23, 1.5, 11),
        ("edge_truth", 23, 0.5, 11),
        ("edge_truth", 23, np.nan, 11),
        ("node_truth", 3, -0.1, 1),
        ("src", 5, 3, 2),
        ("dst", 5, -1, 2),
    ],
)
def test_values_that_cant_be(name: str, row: int, value: float, graph: int) -> None:
    store = changed(name, row, value)
    found = [f for f in find_issues(store, BINARY, SPLITS) if f.severity == "error"]
    assert only(found).graphs == (graph,)
    assert only(found).count == 1
    assert only(found).kind == ("edges" if name in ("src", "dst") else name)
    with pytest.raises(DataError, match=rf"^mine can't be used: 1 graph has .*: graph {graph}$"):
        validate_dataset(store, BINARY, SPLITS, name="mine")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("by_src", [0, 9]),
        ("by_src", [0, -1]),
        ("by_src", [1, 1]),
        ("by_src", [1, 0]),
        ("order", [2, 0]),
        ("order", [0, 0]),
        ("dst", [2, 1]),
        ("undirected", True),
    ],
)
def test_edges_out_of_order(name: str, values: Any) -> None:
    """A store that was damaged or made elsewhere: kernels would read beside their arrays."""
    store = make()
    array = store.arrays[name].copy()
    array[5 if name == "undirected" else slice(10, 12)] = values
    found = find_issues(GraphStore({**store.arrays, name: array}, {}), BINARY, SPLITS)
    finding = only([f for f in found if f.severity == "error"])
    assert (finding.kind, finding.graphs) == ("order", (5,))


def test_the_first_few_graphs_are_named_and_the_rest_counted() -> None:
    found = only(find_issues(changed("x", slice(9, 33, 3), np.nan), BINARY, SPLITS))
    assert found.graphs == (3, 4, 5, 6, 7)
    assert found.count == 8
    assert found.message.endswith("graphs 3, 4, 5, 6, 7 and 3 more")


def test_all_errors_stand_in_one_line() -> None:
    store = changed("x", 0, np.nan)
    splits = {**SPLITS, "test": np.array([0, 10])}
    with pytest.raises(DataError) as caught:
        validate_dataset(store, BINARY, splits, name="mine")
    assert "NaN or infinite: graph 0; train and test share graph 0" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_graphs_without_nodes_or_edges() -> None:
    empty = Data(x=torch.zeros(0, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    bare = Data(x=torch.zeros(2, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    lonely = Data(x=torch.zeros(4, 3), edge_index=torch.tensor([[0], [1]]))
    store = from_pyg([lonely, empty, bare, bare, lonely])
    kinds = {f.kind: f for f in find_issues(store, BINARY, {})}
    assert kinds["empty"].severity == "error"
    assert kinds["empty"].graphs == (1,)
    assert kinds["no-edges"].severity == "note"
    assert kinds["no-edges"].graphs == (2, 3)
    assert kinds["isolated"].severity == "note"
    assert kinds["isolated"].graphs == (0, 4)
    assert "(4 in all)" in kinds["isolated"].message


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([[0, 1], [1, 2]], True),
        ([[0, 1, 2], [1, 2, 1]], False),  # one edge both ways is enough to know
        ([[0, 0, 1], [0, 1, 2]], True),  # with a loop
        ([[0, 1], [0, 1]], False),  # loops alone
        ([[0, 1], [1, 0]], False),
    ],
)
def test_edges_of_one_direction(edges: list[list[int]], expected: bool) -> None:
    def data(index: list[list[int]]) -> Data:
        tensor = torch.tensor(index, dtype=torch.int64).reshape(2, -1)
        return Data(x=torch.zeros(3, 1), edge_index=tensor, y=torch.zeros(1, 1))

    assert one_way(from_pyg([data([[], []]), data(edges)])) is expected
    assert one_way(from_pyg([data(edges), data(edges)]).select([1])) is expected
    assert not one_way(from_pyg([data([[], []])]))


def test_no_graphs_at_all() -> None:
    store = GraphStore.from_arrays(
        node_ptr=[0], edge_ptr=[0], edge_index=[[], []], y=np.zeros((0, 1))
    )
    none = np.zeros(0, dtype=np.int64)
    with pytest.raises(DataError, match="there are no graphs; the split train is empty"):
        validate_dataset(store, BINARY, {"train": none}, name="mine")


# -- splits -----------------------------------------------------------------------------------


def test_splits_that_share_graphs() -> None:
    splits = {**SPLITS, "test": np.array([10, 7, 2, 11])}
    found = only(find_issues(make(), BINARY, splits))
    assert (found.severity, found.kind, found.graphs, found.count) == ("error", "shared", (2, 7), 2)
    assert found.message == "train and test share graphs 2, 7"
    said = only(find_issues(make(), BINARY, splits, overlap="as published"))
    assert said.severity == "note"
    assert said.message == "train and test share graphs 2, 7 (on purpose: as published)"


def test_positions_that_are_none() -> None:
    splits = {**SPLITS, "valid": np.array([8, 9, 12, -1])}
    found = only(find_issues(make(), BINARY, splits))
    assert found.severity == "error"
    assert found.message == (
        "the split valid contains graphs 12, -1, but there are only 12, numbered from 0"
    )


def test_empty_splits() -> None:
    none = np.zeros(0, dtype=np.int64)
    found = find_issues(make(), BINARY, {**SPLITS, "test": none})
    assert [(f.severity, f.message) for f in found] == [("note", "the split test is empty")]
    found = find_issues(make(), BINARY, {**SPLITS, "train": none})
    assert [(f.severity, f.message) for f in found] == [("error", "the split train is empty")]


def test_the_same_graph_in_two_splits_is_noted() -> None:
    x = np.arange(36, dtype=np.float32)
    x[33:36] = x[3:6]  # 11 in test is 1 in train
    x[27:30] = x[24:27] = x[6:9]  # 8 and 9 in valid are 2 in train, and each other
    x[0:3] = x[9:12]  # 0 and 3 are both in train
    found = find_issues(make(x=x), BINARY, SPLITS)
    assert [(f.severity, f.kind, f.graphs) for f in found] == [
        ("note", "same", (8, 9)),
        ("note", "same", (11,)),
    ]
    assert found[0].message == (
        "graphs 8, 9 of valid have the same features and edges as one of train"
    )
    validate_dataset(make(x=x), BINARY, SPLITS, name="mine")


def test_a_shared_graph_is_not_the_same_as_itself() -> None:
    found = find_issues(make(), BINARY, {**SPLITS, "test": np.array([2, 10, 11])}, overlap="so")
    assert [f.kind for f in found] == ["shared"]


# -- labels -----------------------------------------------------------------------------------

MULTICLASS = Task("multiclass", 2)
MULTILABEL = Task("multilabel", 3, "roc_auc")
REGRESSION = Task("regression", 1, "r2")


@pytest.mark.parametrize("task", [BINARY, MULTICLASS, MULTILABEL, REGRESSION])
@pytest.mark.parametrize("value", [0, 1, 2, -1, 0.5, np.nan, np.inf])
def test_labels_are_judged_as_the_task_judges_them(task: Task, value: float) -> None:
    store = changed("y", 5, value, task)
    try:
        task.check_labels(torch.from_numpy(store.arrays["y"]))
        fine = True
    except DataError:
        fine = False
    found = [f for f in find_issues(store, task, SPLITS) if f.kind == "labels"]
    assert fine == (not found)
    if found:
        assert only(found).severity == "error"
        assert only(found).graphs == (5,)


def test_whole_numbers_stored_as_fractions() -> None:
    store = make(MULTICLASS, y=(np.arange(12) % 2).astype(np.float32))
    message = "labels of a multiclass task must be integers, not float32"
    assert only(find_issues(store, MULTICLASS, SPLITS)).message == message


def test_labels_of_the_wrong_shape_or_none() -> None:
    found = find_issues(make(y=np.arange(12) % 2), BINARY, SPLITS)
    assert "must have shape [G, 1], not [12]" in found[0].message
    store = make()
    del store.arrays["y"]
    assert (
        only(find_issues(store, BINARY, SPLITS)).message == "there are no labels 'y', one per graph"
    )


def test_missing_labels_are_counted() -> None:
    y = np.repeat(np.arange(12.0)[:, None] % 2, 3, axis=1)
    y[:4, 1] = np.nan
    found = only(find_issues(make(MULTILABEL, y=y), MULTILABEL, SPLITS))
    assert (found.severity, found.message) == ("note", "4 of 36 labels are missing")
    y[:] = np.nan
    found = find_issues(make(MULTILABEL, y=y), MULTILABEL, SPLITS)
    assert ("error", "36 of 36 labels are missing") in [(f.severity, f.message) for f in found]


def test_labels_that_no_split_asks_for_do_not_matter() -> None:
    splits = {**SPLITS, "test": np.array([10])}
    kinds = [f.kind for f in find_issues(changed("y", 11, 7), BINARY, splits)]
    assert kinds == ["one-class"]  # of one graph, which is all there is in test


def test_one_class_only() -> None:
    y = (np.arange(12) % 2).astype(np.float32)[:, None]
    y[:8] = 1
    found = only(find_issues(make(y=y, meta={"classes": ["no", "yes"]}), BINARY, SPLITS))
    assert (found.severity, found.message) == ("error", "train has one class only: yes")
    y = 1 - (np.arange(12) % 2).astype(np.float32)[:, None]
    y[10:] = 0
    found = only(find_issues(make(y=y), BINARY, SPLITS))
    assert (found.severity, found.message) == ("note", "test has one class only: 0")


def test_one_class_in_some_labels_or_one_value() -> None:
    y = np.repeat(np.arange(12.0)[:, None] % 2, 3, axis=1)
    y[:8, :2] = 1
    found = only(find_issues(make(MULTILABEL, y=y), MULTILABEL, SPLITS))
    assert (found.severity, found.message) == (
        "note",
        "train has one class only in 2 of 3 labels",
    )
    y[:8] = 1
    found = only(find_issues(make(MULTILABEL, y=y), MULTILABEL, SPLITS))
    assert found.severity == "error"
    found = find_issues(make(REGRESSION, y=np.full((12, 1), 2.5)), REGRESSION, SPLITS)
    assert {f.severity for f in found} == {"note"}
    assert found[0].message == "train has one value only: 2.5"


# -- nodes ------------------------------------------------------------------------------------

NODES = Task("multiclass", 2, level="node")
NODE_SPLITS = {"train": np.arange(20), "valid": np.arange(20, 28), "test": np.arange(28, 36)}


def test_node_splits_share_graphs_but_not_nodes() -> None:
    assert find_issues(make(NODES), NODES, NODE_SPLITS) == []
    splits = {**NODE_SPLITS, "test": np.array([3, 30, 31])}
    found = only(find_issues(make(NODES), NODES, splits))
    assert (found.severity, found.message) == ("error", "train and test share node 3")
    splits = {**NODE_SPLITS, "test": np.array([35, 36])}
    assert "node 36, but there are only 36" in find_issues(make(NODES), NODES, splits)[0].message


def test_node_labels() -> None:
    store = make(NODES)
    store.arrays["node_y"][[7, 8]] = 9
    found = only(find_issues(store, NODES, NODE_SPLITS))
    assert (found.severity, found.graphs, found.count) == ("error", (2,), 2)
    assert found.message == ("2 labels are not integers from 0 to 1: that of node 7 is 9 (graph 2)")
    # A node that no split asks for may be of no class.
    splits = {**NODE_SPLITS, "train": np.arange(7)}
    assert find_issues(store, NODES, splits) == []
