"""Labels: infer a task from them, and convert them to the form the task needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.graphs import GraphStore
from gsat.graphs.build import to_float32
from gsat.tasks import Kind, Level, Metric, Task

Labels = NDArray[np.float64]
MOST_CLASSES = 10_000
METRICS: dict[str, Metric] = {
    "binary": "accuracy",
    "multiclass": "accuracy",
    "multilabel": "roc_auc",
    "regression": "r2",
}


def find_level(store: GraphStore, wanted: str) -> Level:
    """Find out whether graphs or nodes are labelled."""
    found = "node" if store.has("node_y") else "graph"
    if not store.has("node_y") and not store.has("y"):
        raise DataError("the graphs have no labels: give them y (of graphs) or node_y (of nodes)")
    if wanted not in ("auto", found):
        raise DataError(f"level is '{wanted}', but the {found}s have the labels")
    return cast(Level, found)


def read_labels(store: GraphStore, level: Level) -> Labels:
    """Read the labels of all graphs or nodes, ``[R, T]``; NaN where one is missing."""
    values = store.labels(level).astype(np.float64)
    return values[:, None] if values.ndim == 1 else values


def infer_kind(values: Labels, classes: Sequence[str]) -> Kind:
    """Infer the kind of task from labels."""
    known = values[~np.isnan(values)]
    if not len(known):
        raise DataError("all labels are missing; there is nothing to learn from")
    if values.shape[1] > 1:
        if np.isin(known, (0, 1)).all():
            return "multilabel"
        raise DataError(
            f"labels of {values.shape[1]} columns must be 0, 1 or missing (a multi-label task); "
            "a class to predict is one column, and several numbers need task='regression'"
        )
    if not (known == np.floor(known)).all():
        return "regression"
    return "binary" if (len(classes) or len(np.unique(known))) <= 2 else "multiclass"


def with_task(
    store: GraphStore, level: Level, kind: Kind, metric: str = "auto", classes: Sequence[str] = ()
) -> tuple[GraphStore, Task]:
    """Put labels into the form that a kind of task needs.

    Classes that are not 0 … k − 1 are numbered, and ``meta["classes"]`` then holds their names.
    """
    values = read_labels(store, level)
    chosen = METRICS[kind] if metric == "auto" else cast(Metric, metric)
    if kind in ("multilabel", "regression"):
        return _labelled(store, Task(kind, values.shape[1], chosen, level), values)
    if values.shape[1] > 1:
        raise DataError(f"a {kind} task has one label per {level}, not {values.shape[1]} columns")
    codes, names = class_codes(values[:, 0], store.meta.get("classes") or (), classes, level)
    count = len(names) or int(np.nanmax(codes, initial=-1)) + 1
    if count > MOST_CLASSES:
        raise DataError(
            f"the labels are of {count} classes; at most {MOST_CLASSES} are allowed: is it a "
            "regression?"
        )
    if count < 2:
        raise DataError(f"all {level}s are of one class; two are needed to learn from")
    if kind == "binary" and count != 2:
        raise DataError(f"a binary task has 2 classes, these labels have {count}")
    task = Task(kind, count, chosen, level)
    return _labelled(store, task, codes[:, None], names)


def for_task(store: GraphStore, task: Task, classes: Sequence[str] = ()) -> GraphStore:
    """Put labels, if there are any, into the form and order of a given task."""
    if not store.has("y" if task.level == "graph" else "node_y"):
        return store
    values, names = read_labels(store, task.level), list[str]()
    known = store.meta.get("classes") or ()
    if task.kind in ("binary", "multiclass") and values.shape[1] == 1 and (known or classes):
        if not classes and len(known) != task.classes:
            raise DataError(
                f"the labels are of the classes {', '.join(map(str, known))}; the model has "
                f"{task.classes} classes"
            )
        codes, names = class_codes(values[:, 0], known, classes, task.level)
        values = codes[:, None]
    return _labelled(store, task, values, names)[0]


def known_rows(values: Labels) -> NDArray[np.bool_]:
    """Mark the graphs or nodes that have any label, ``[R]``."""
    return np.asarray((~np.isnan(values)).any(axis=1))


def class_codes(
    values: Labels, names: Sequence[str], wanted: Sequence[str], level: str
) -> tuple[Labels, list[str]]:
    """Number the classes of labels."""
    known = ~np.isnan(values)
    distinct, which = np.unique(values[known], return_inverse=True)

    def refuse(bad: int, why: str) -> DataError:
        row = int(np.flatnonzero(known)[np.flatnonzero(which == bad)[0]])
        return DataError(f"{level} {row} has the label {distinct[bad]:g}; {why}")

    for at, value in enumerate(distinct):
        if not np.isfinite(value) or value != np.floor(value):
            raise refuse(at, "a class must be a whole number or a text")
        if names and not 0 <= value < len(names):
            raise refuse(at, f"the classes are 0 to {len(names) - 1}: {', '.join(map(str, names))}")
    texts = [str(names[int(v)]) if names else str(int(v)) for v in distinct]
    if wanted:
        for at, text in enumerate(texts):
            if text not in wanted:
                raise refuse(at, f"the class '{text}' is not one of {', '.join(wanted)}")
        places = np.array([list(wanted).index(text) for text in texts], dtype=np.float64)
        listed = list(wanted)
    elif names or (distinct == np.arange(len(distinct))).all():
        places, listed = distinct, [str(name) for name in names]
    else:
        places, listed = np.arange(len(distinct), dtype=np.float64), texts
    codes = np.full(len(values), np.nan)
    codes[known] = places[which]
    return codes, listed


def standardised(task: Task, values: Labels) -> Task:
    """Give a regression the mean and the standard deviation of its training labels."""
    centre, scale = [], []
    for column in values.T:
        known = column[~np.isnan(column)]
        spread = float(np.std(known)) if len(known) else 0.0
        centre.append(float(np.mean(known)) if len(known) else 0.0)
        scale.append(spread if spread > 0 else 1.0)
    if task.classes == 1:
        return replace(task, centre=centre[0], scale=scale[0])
    return replace(task, centre=tuple(centre), scale=tuple(scale))


def _labelled(
    store: GraphStore, task: Task, values: Labels, names: Sequence[str] = ()
) -> tuple[GraphStore, Task]:
    """The store with labels ``[R, T]`` in the type of a task and names of classes; the task."""
    rows: NDArray[Any]
    if task.kind == "multiclass":
        # −1 marks a missing class: such rows must be in no split.
        rows = np.where(np.isnan(values[:, 0]), -1, values[:, 0]).astype(np.int64)
    else:
        rows = to_float32(values, "the labels")
        task.check_labels(torch.from_numpy(rows))
    name = "node_y" if task.level == "node" else "y"
    meta = {**store.meta, "classes": list(names)} if names else store.meta
    return GraphStore({**store.arrays, name: rows}, meta, store.index), task
