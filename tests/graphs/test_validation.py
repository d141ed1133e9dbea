"""Errors and notes of data sets, with the numbers of the affected graphs."""

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
    """Twelve different paths of three nodes with alternating classes 0 and 1."""
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


def only(issues: list[DataIssue], kind: str | None = None) -> DataIssue:
    (issue,) = issues
    assert kind in (None, issue.kind)
    assert issue.message.isprintable()
    return issue


def changed(name: str, at: Any, value: float, task: Task = BINARY) -> GraphStore:
    """The same graphs with one changed value, without the checks of ``from_arrays``."""
    store = make(task, edge_weight=np.ones(24), node_truth=np.zeros(36))
    array = store.arrays[name].copy()
    if value != value or value != int(np.clip(value, -9, 9)):  # a whole number leaves whole numbers
        array = array.astype(np.float32)
    array[at] = value
    return GraphStore({**store.arrays, name: array}, store.meta)


def test_a_valid_data_set_has_no_issues() -> None:
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
def test_invalid_values(name: str, row: int, value: float, graph: int) -> None:
    store = changed(name, row, value)
    found = [f for f in find_issues(store, BINARY, SPLITS) if f.severity == "error"]
    assert only(found).graphs == (graph,)
    assert only(found).count == 1
    assert only(found).kind == ("edges" if name in ("src", "dst") else name)
    with pytest.raises(DataError, match=rf"^mine .*graph {graph}$"):
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
    """As in a damaged store: kernels would read beyond their arrays."""
    store = make()
    array = store.arrays[name].copy()
    array[5 if name == "undirected" else slice(10, 12)] = values
    found = find_issues(GraphStore({**store.arrays, name: array}, {}), BINARY, SPLITS)
    finding = only([f for f in found if f.severity == "error"])
    assert (finding.kind, finding.graphs) == ("order", (5,))


def test_the_first_few_graphs_are_listed_and_all_are_counted() -> None:
    issue = only(find_issues(changed("x", slice(9, 33, 3), np.nan), BINARY, SPLITS), "x")
    assert (issue.graphs, issue.count) == ((3, 4, 5, 6, 7), 8)
    assert "3, 4, 5, 6, 7 and 3 more" in issue.message


def test_all_errors_are_raised_in_one_line() -> None:
    splits = {**SPLITS, "test": np.array([0, 10])}
    with pytest.raises(DataError) as caught:
        validate_dataset(changed("x", 0, np.nan), BINARY, splits, name="mine")
    for part in ("mine", "NaN", "train", "test", "graph 0"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_graphs_without_nodes_or_edges() -> None:
    empty = Data(x=torch.zeros(0, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    bare = Data(x=torch.zeros(2, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    lonely = Data(x=torch.zeros(4, 3), edge_index=torch.tensor([[0], [1]]))
    store = from_pyg([lonely, empty, bare, bare, lonely])
    issues = {i.kind: (i.severity, i.graphs) for i in find_issues(store, BINARY, {})}
    assert issues["empty"] == ("error", (1,))
    assert issues["no-edges"] == ("note", (2, 3))
    assert issues["isolated"] == ("note", (0, 4))


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([[0, 1], [1, 2]], True),
        ([[0, 1, 2], [1, 2, 1]], False),  # one edge in both directions is enough
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
    with pytest.raises(DataError, match=r"no graphs.*train"):
        validate_dataset(store, BINARY, {"train": none}, name="mine")


# -- splits -----------------------------------------------------------------------------------


def test_splits_that_share_graphs() -> None:
    splits = {**SPLITS, "test": np.array([10, 7, 2, 11])}
    issue = only(find_issues(make(), BINARY, splits), "shared")
    assert (issue.severity, issue.graphs, issue.count) == ("error", (2, 7), 2)
    intended = only(find_issues(make(), BINARY, splits, overlap="as published"), "shared")
    assert intended.severity == "note"
    assert "as published" in intended.message


def test_positions_out_of_range() -> None:
    splits = {**SPLITS, "valid": np.array([8, 9, 12, -1])}
    issue = only(find_issues(make(), BINARY, splits), "positions")
    assert (issue.severity, issue.count) == ("error", 2)
    assert "valid" in issue.message
    assert "12, -1" in issue.message


@pytest.mark.parametrize(("split", "severity"), [("train", "error"), ("test", "note")])
def test_empty_splits(split: str, severity: str) -> None:
    issues = find_issues(make(), BINARY, {**SPLITS, split: np.zeros(0, dtype=np.int64)})
    issue = only(issues, "empty-split")
    assert issue.severity == severity
    assert split in issue.message


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
    validate_dataset(make(x=x), BINARY, SPLITS, name="mine")


def test_a_shared_graph_is_not_reported_as_equal_to_itself() -> None:
    found = find_issues(make(), BINARY, {**SPLITS, "test": np.array([2, 10, 11])}, overlap="so")
    assert [f.kind for f in found] == ["shared"]


# -- labels -----------------------------------------------------------------------------------

MULTICLASS = Task("multiclass", 2)
MULTILABEL = Task("multilabel", 3, "roc_auc")
REGRESSION = Task("regression", 1, "r2")


@pytest.mark.parametrize("task", [BINARY, MULTICLASS, MULTILABEL, REGRESSION])
@pytest.mark.parametrize("value", [0, 1, 2, -1, 0.5, np.nan, np.inf])
def test_labels_are_valid_exactly_if_the_task_accepts_them(task: Task, value: float) -> None:
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
    issue = only(find_issues(store, MULTICLASS, SPLITS), "labels")
    assert issue.severity == "error"
    assert "float32" in issue.message


def test_labels_of_the_wrong_shape_or_none() -> None:
    wrong = only(find_issues(make(y=np.arange(12) % 2), BINARY, SPLITS), "labels")
    assert "[12]" in wrong.message
    store = make()
    del store.arrays["y"]
    missing = only(find_issues(store, BINARY, SPLITS), "labels")
    assert (wrong.severity, missing.severity) == ("error", "error")


def test_missing_labels_are_counted() -> None:
    y = np.repeat(np.arange(12.0)[:, None] % 2, 3, axis=1)
    y[:4, 1] = np.nan
    some = only(find_issues(make(MULTILABEL, y=y), MULTILABEL, SPLITS), "missing")
    assert (some.severity, some.count) == ("note", 4)
    y[:] = np.nan
    issues = {i.kind: i for i in find_issues(make(MULTILABEL, y=y), MULTILABEL, SPLITS)}
    assert (issues["missing"].severity, issues["missing"].count) == ("error", 36)


def test_labels_outside_the_splits_do_not_matter() -> None:
    splits = {**SPLITS, "test": np.array([10])}
    kinds = [f.kind for f in find_issues(changed("y", 11, 7), BINARY, splits)]
    assert kinds == ["one-class"]  # test has one graph


def test_splits_with_one_class_or_value() -> None:
    def issue(y: Any, task: Task = BINARY) -> DataIssue:
        store = make(task, y=y, meta={"classes": ["no", "yes"]})
        return only(find_issues(store, task, SPLITS), "one-class")

    y = (np.arange(12) % 2).astype(np.float32)[:, None]
    for split, rows, severity, name in (("train", 8, "error", "yes"), ("test", -2, "note", "no")):
        constant = y.copy() if split == "train" else 1 - y
        constant[slice(rows) if split == "train" else slice(rows, None)] = int(name == "yes")
        one = issue(constant)
        assert one.severity == severity
        assert split in one.message
        assert name in one.message
    several = np.repeat(y, 3, axis=1)
    several[:8, :2] = 1
    assert issue(several, MULTILABEL).severity == "note"
    assert "2 of 3" in issue(several, MULTILABEL).message
    several[:8] = 1
    assert issue(several, MULTILABEL).severity == "error"
    issues = find_issues(make(REGRESSION, y=np.full((12, 1), 2.5)), REGRESSION, SPLITS)
    assert {i.severity for i in issues} == {"note"}
    assert "2.5" in issues[0].message


# -- nodes ------------------------------------------------------------------------------------

NODES = Task("multiclass", 2, level="node")
NODE_SPLITS = {"train": np.arange(20), "valid": np.arange(20, 28), "test": np.arange(28, 36)}


def test_node_splits_share_graphs_but_not_nodes() -> None:
    assert find_issues(make(NODES), NODES, NODE_SPLITS) == []
    splits = {**NODE_SPLITS, "test": np.array([3, 30, 31])}
    found = only(find_issues(make(NODES), NODES, splits))
    assert (found.severity, found.kind, found.count) == ("error", "shared", 1)
    assert "node 3" in found.message
    splits = {**NODE_SPLITS, "test": np.array([35, 36])}
    assert "node 36" in only(find_issues(make(NODES), NODES, splits), "positions").message


def test_node_labels() -> None:
    store = make(NODES)
    store.arrays["node_y"][[7, 8]] = 9
    found = only(find_issues(store, NODES, NODE_SPLITS))
    assert (found.severity, found.graphs, found.count) == ("error", (2,), 2)
    assert "node 7 is 9" in found.message
    # Nodes outside the splits may have invalid labels.
    splits = {**NODE_SPLITS, "train": np.arange(7)}
    assert find_issues(store, NODES, splits) == []
