"""Tasks inferred from labels, and labels converted for a task."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.preprocessing import LabelEncoder

from gsat.core.errors import DataError
from gsat.datasets.labels import find_level, for_task, infer_kind, with_task
from gsat.graphs import GraphStore, from_pyg
from gsat.tasks import Task
from own_data import make_graphs

NAN = float("nan")


def labelled(values: Any, classes: list[str] | None = None) -> GraphStore:
    """Graphs of one node with these labels."""
    count = len(values)
    return GraphStore.from_arrays(
        node_ptr=np.arange(count + 1),
        edge_ptr=np.zeros(count + 1),
        edge_index=np.zeros((2, 0)),
        y=np.array(values),
        meta={"classes": classes} if classes else {},
    )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1, 1], "binary"),
        ([-1, 1, 1], "binary"),
        ([0.0, 1.0, NAN], "binary"),
        ([0, 1, 2], "multiclass"),
        ([1, 2, 3], "multiclass"),
        ([1.5, 2.0, 3.0], "regression"),
        ([[0, 1], [1, 1]], "multilabel"),
        ([[0.0, NAN], [1.0, 1.0]], "multilabel"),
    ],
)
def test_the_task_is_inferred_from_the_labels(values: Any, kind: str) -> None:
    rows = np.array(values, dtype=float)
    assert infer_kind(rows[:, None] if rows.ndim == 1 else rows, ()) == kind


def test_labels_that_set_no_task() -> None:
    with pytest.raises(DataError, match="all labels are missing"):
        infer_kind(np.full((3, 1), NAN), ())
    with pytest.raises(DataError, match="labels of 2 columns must be 0, 1 or missing"):
        infer_kind(np.array([[0.5, 1.0]]), ())


@pytest.mark.parametrize("values", [[-1, 1, 1, -1], [5, 3, 9, 3], [2, 1, 1, 2]])
def test_other_labels_become_places_as_scikit_learns(values: list[int]) -> None:
    encoder = LabelEncoder().fit(values)
    kind = "binary" if len(encoder.classes_) == 2 else "multiclass"
    store, task = with_task(labelled(values), "graph", kind)  # type: ignore[arg-type]
    assert store.per_graph("y").reshape(-1).tolist() == encoder.transform(values).tolist()
    assert store.meta["classes"] == [str(c) for c in encoder.classes_]
    assert task.classes == len(encoder.classes_)
    task.check_labels(torch.from_numpy(store.labels("graph")))


def test_named_classes_are_kept_even_if_one_does_not_occur() -> None:
    store, task = with_task(labelled([2, 0, 2], ["a", "b", "c"]), "graph", "multiclass")
    assert store.per_graph("y").tolist() == [2, 0, 2]
    assert task.classes == 3


def test_the_order_of_classes_can_be_chosen() -> None:
    store, _ = with_task(
        labelled([0, 1, 1], ["no", "yes"]), "graph", "binary", classes=["yes", "no"]
    )
    assert store.per_graph("y")[:, 0].tolist() == [1, 0, 0]
    assert store.meta["classes"] == ["yes", "no"]
    with pytest.raises(DataError, match=r"graph 1 .* the class 'yes' is not one of no, maybe"):
        with_task(labelled([0, 1], ["no", "yes"]), "graph", "binary", classes=["no", "maybe"])


def test_missing_labels_in_the_form_of_each_task() -> None:
    binary, _ = with_task(labelled([1.0, NAN, 0.0]), "graph", "binary")
    np.testing.assert_array_equal(binary.per_graph("y"), [[1], [NAN], [0]])
    many, _ = with_task(labelled([1.0, NAN, 0.0, 2.0]), "graph", "multiclass")
    assert many.per_graph("y").tolist() == [1, -1, 0, 2]


@pytest.mark.parametrize(
    ("values", "kind", "why"),
    [
        ([0, 0, 0], "binary", "all graphs are of one class"),
        ([0, 1, 2], "binary", "a binary task has 2 classes, these labels have 3"),
        ([0, 0.5, 1], "multiclass", "graph 1 has the label 0.5; a class must be a whole number"),
        ([[0, 1], [1, 1]], "binary", "one label per graph, not 2 columns"),
        ([[0, 1], [2, 1]], "multilabel", "graph 1 has the label"),
        ([0.5, float("inf")], "regression", "graph 1 has the label"),
    ],
)
def test_labels_that_do_not_fit_the_task(values: Any, kind: Any, why: str) -> None:
    with pytest.raises(DataError, match=why):
        with_task(labelled(values), "graph", kind)


def test_levels() -> None:
    graphs = from_pyg(make_graphs(3))
    assert find_level(graphs, "auto") == "graph"
    with pytest.raises(DataError, match="level is 'node', but the graphs have the labels"):
        find_level(graphs, "node")
    with pytest.raises(DataError, match="no labels"):
        find_level(from_pyg(make_graphs(3, y=None)), "auto")


def test_labels_of_new_data_for_a_task_learnt_before() -> None:
    """A class that does not occur must not move the others."""
    three = Task("multiclass", 3)
    assert for_task(labelled([2, 2, 1]), three).per_graph("y").tolist() == [2, 2, 1]
    new = for_task(labelled([0, 0], ["yes"]), Task("binary"), ["no", "yes"])
    assert new.per_graph("y").tolist() == [[1], [1]]
    numbers = for_task(labelled([1, 1]), Task("binary"), ["-1", "1"])
    assert numbers.per_graph("y").tolist() == [[1], [1]]
    with pytest.raises(DataError, match="the class 'maybe' is not one of no, yes"):
        for_task(labelled([0], ["maybe"]), Task("binary"), ["no", "yes"])
    with pytest.raises(DataError, match="the model has 2 classes"):
        for_task(labelled([0], ["a", "b", "c"]), Task("binary"))
    bare = from_pyg(make_graphs(2, y=None))
    assert for_task(bare, Task("binary")) is bare
