"""Validation of data sets: errors prevent training, notes appear on the data card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.graphs.scan import GraphStatistics, scan_graphs
from gsat.graphs.store import GraphStore
from gsat.tasks import Task

Severity = Literal["error", "note"]
Splits = Mapping[str, NDArray[np.int64]]

_SAMPLE: Final = 1000  # graphs that are searched for reverse edges
ONE_WAY: Final = (
    "every edge is stored in one direction only, and messages follow it; if the direction has no "
    "meaning, store both"
)
SHOWN: Final = 5  # graphs that an issue lists
_INVALID: Final = {
    "edges": "edges to nodes that are not in the graph",
    "order": "edges that are not sorted as in a store (save the graphs again)",
    "x": "features (x) that are NaN or infinite",
    "edge_attr": "edge attributes (edge_attr) that are NaN or infinite",
    "edge_weight": "edge weights (edge_weight) that are NaN or infinite",
    "node_truth": "node truth other than 0 and 1",
    "edge_truth": "edge truth other than 0 and 1",
}


@dataclass(frozen=True)
class DataIssue:
    """An error in a data set, or a note about it."""

    severity: Severity
    kind: str  # a keyword for programs
    message: str  # one line
    graphs: tuple[int, ...] = ()  # numbers of the first affected graphs
    count: int = 0  # number of affected graphs, or nodes in a node-level split


def find_issues(
    store: GraphStore,
    task: Task,
    splits: Splits,
    *,
    overlap: str = "",
    statistics: GraphStatistics | None = None,
) -> list[DataIssue]:
    """Find the errors in a data set and collect notes about it."""
    scan = statistics or scan_graphs(store)
    issues = [
        *_graphs(store, scan),
        *_positions(store, task, splits, overlap),
        *_labels(store, task, splits),
    ]
    if not any(issue.kind == "positions" for issue in issues):
        issues += [*_classes(store, task, splits), *_same(task, splits, scan)]
    return sorted(issues, key=lambda issue: issue.severity)


def validate_dataset(
    store: GraphStore, task: Task, splits: Splits, *, name: str, overlap: str = ""
) -> None:
    """Raise if a data set has errors that prevent training."""
    quick = scan_graphs(store, digests=False)
    _raise_errors(find_issues(store, task, splits, overlap=overlap, statistics=quick), name)


def one_way(store: GraphStore) -> bool:
    """Whether no edge has a reverse edge, except for self-loops."""
    sample = store.select(np.flatnonzero(store.edge_counts)[:_SAMPLE])
    batch = sample.batch()
    edge, reverse = (
        (a * batch.num_nodes + b).numpy()[(batch.src != batch.dst).numpy()]
        for a, b in ((batch.src, batch.dst), (batch.dst, batch.src))
    )
    return len(edge) > 0 and not np.isin(edge, reverse).any()


def validate_graphs(store: GraphStore, *, name: str) -> None:
    """Raise if graphs have errors that prevent prediction, which needs no labels or splits."""
    _raise_errors(_values(scan_graphs(store, digests=False)), name)


def _raise_errors(issues: Iterable[DataIssue], name: str) -> None:
    """Raise all errors in one line."""
    errors = [issue.message for issue in issues if issue.severity == "error"]
    if errors:
        raise DataError(f"{name} can't be used: {'; '.join(errors)}")


# -- graphs ---------------------------------------------------------------------------------------


def _graphs(store: GraphStore, scan: GraphStatistics) -> Iterator[DataIssue]:
    if not len(store):
        yield DataIssue("error", "graphs", "there are no graphs")
    yield from _values(scan)
    yield from _numbered("error", "empty", store.node_counts == 0, "no nodes")
    yield from _numbered(
        "note", "no-edges", (store.edge_counts == 0) & (store.node_counts > 0), "no edges"
    )
    some = (scan.isolated > 0) & (store.edge_counts > 0)
    what = f"nodes without an edge ({scan.isolated[some].sum()} in all)"
    yield from _numbered("note", "isolated", some, what)


def _values(scan: GraphStatistics) -> Iterator[DataIssue]:
    """Arrays with invalid rows."""
    for name, invalid in scan.invalid.items():
        yield from _numbered("error", name, invalid > 0, _INVALID[name])


def _numbered(
    severity: Severity, kind: str, concerned: NDArray[np.bool_], what: str
) -> Iterator[DataIssue]:
    numbers = np.flatnonzero(concerned)
    if len(numbers):
        have = "graph has" if len(numbers) == 1 else "graphs have"
        message = f"{len(numbers)} {have} {what}: {_listed(numbers, 'graph')}"
        yield DataIssue(severity, kind, message, _first(numbers), len(numbers))


def _first(numbers: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(numbers[:SHOWN].tolist())


def _listed(numbers: NDArray[np.int64], of: str) -> str:
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return f"{of}{'s' * (len(numbers) > 1)} {', '.join(map(str, _first(numbers)))}{more}"


# -- splits ---------------------------------------------------------------------------------------


def _positions(store: GraphStore, task: Task, splits: Splits, overlap: str) -> Iterator[DataIssue]:
    """Positions out of range, empty splits, and positions in several splits."""
    total = int(store.arrays["node_ptr"][-1]) if task.level == "node" else len(store)
    for name, part in splits.items():
        outside = part[(part < 0) | (part >= total)]
        if len(outside):
            message = (
                f"the split {name} contains {_listed(outside, task.level)}, "
                f"but there are only {total}, numbered from 0"
            )
            yield DataIssue("error", "positions", message, count=len(outside))
        if not len(part):
            severity: Severity = "error" if name == "train" else "note"
            yield DataIssue(severity, "empty-split", f"the split {name} is empty")
    for one, other in combinations(splits, 2):
        shared = np.intersect1d(splits[one], splits[other])
        if len(shared):
            message = f"{one} and {other} share {_listed(shared, task.level)}"
            message += f" (on purpose: {overlap})" if overlap else ""
            graphs = () if task.level == "node" else _first(shared)
            severity = "note" if overlap else "error"
            yield DataIssue(severity, "shared", message, graphs, len(shared))


def _same(task: Task, splits: Splits, scan: GraphStatistics) -> Iterator[DataIssue]:
    """Graphs that equal a graph of another split."""
    if task.level == "node" or scan.digest is None:
        return
    for one, other in combinations(splits, 2):
        rest = np.setdiff1d(splits[other], splits[one])
        same = rest[np.isin(scan.digest[rest], scan.digest[splits[one]])]
        if len(same):
            have = "has" if len(same) == 1 else "have"
            message = (
                f"{_listed(same, 'graph')} of {other} {have} the same features and edges "
                f"as one of {one}"
            )
            yield DataIssue("note", "same", message, _first(same), len(same))


# -- labels ---------------------------------------------------------------------------------------


def _labels(store: GraphStore, task: Task, splits: Splits) -> Iterator[DataIssue]:
    """Wrong shapes, types and values of the labels in the splits, and missing labels."""
    name = "node_y" if task.level == "node" else "y"
    if name not in store.arrays:
        yield DataIssue("error", "labels", f"there are no labels '{name}', one per {task.level}")
        return
    y = store.arrays[name]
    expected = (len(y),) if task.kind == "multiclass" else (len(y), task.num_logits)
    if y.shape != expected:
        shape = "[G]" if task.kind == "multiclass" else f"[G, {task.num_logits}]"
        message = f"labels of a {task.kind} task must have shape {shape}, not {list(y.shape)}"
        yield DataIssue("error", "labels", message)
        return
    total = len(y) if task.level == "node" else len(store)
    used = np.unique(np.concatenate([np.zeros(0, np.int64), *splits.values()]))
    used = used[(used >= 0) & (used < total)]
    y = labels_at(store, task, used)
    valid, allowed = _valid_labels(task, y)
    bad = used[~valid]
    if len(bad):
        value, graphs = y[~valid][0].tolist(), bad
        if task.level == "node":
            graphs = np.unique(np.searchsorted(store.arrays["node_ptr"], bad, side="right") - 1)
        message = (
            f"{len(bad)} labels are not {allowed}: that of {task.level} {bad[0]} is {value} "
            f"({_listed(graphs, 'graph')})"
        )
        yield DataIssue("error", "labels", message, _first(graphs), len(bad))
    elif task.kind == "multiclass" and y.dtype.kind == "f":
        message = f"labels of a multiclass task must be integers, not {y.dtype}"
        yield DataIssue("error", "labels", message)
    missing = np.isnan(y).sum() if y.dtype.kind == "f" else 0
    if missing:
        severity: Severity = "error" if missing == y.size else "note"
        yield DataIssue(
            severity, "missing", f"{missing} of {y.size} labels are missing", count=int(missing)
        )


def labels_at(store: GraphStore, task: Task, positions: NDArray[np.int64]) -> NDArray[Any]:
    """Read the labels of graphs or nodes."""
    if task.level == "node":
        return np.asarray(store.arrays["node_y"][positions])
    return np.asarray(store.arrays["y"][store.index[positions]])


def _valid_labels(task: Task, y: NDArray[Any]) -> tuple[NDArray[np.bool_], str]:
    """Mask of the valid labels, and the requirement in words."""
    if task.kind == "multiclass":
        valid = (y >= 0) & (y < task.classes) & (y == np.floor(y))
        return valid, f"integers from 0 to {task.classes - 1}"
    if task.kind == "regression":
        return ~np.isinf(y).any(axis=1), "finite numbers, or NaN if missing"
    return ((y == 0) | (y == 1) | np.isnan(y)).all(axis=1), "0, 1, or NaN if missing"


def _classes(store: GraphStore, task: Task, splits: Splits) -> Iterator[DataIssue]:
    """Splits with a single class: no training signal in train, undefined metrics elsewhere."""
    if not store.has("node_y" if task.level == "node" else "y"):
        return
    for name, part in splits.items():
        y = labels_at(store, task, part)
        columns = y.T if y.ndim > 1 else y[None]
        constant = [_constant(column) for column in columns]
        if not len(part) or not any(constant):
            continue
        useless = name == "train" and task.kind != "regression" and all(constant)
        what = "one class only" if task.kind != "regression" else "one value only"
        if len(columns) > 1:
            what = f"{what} in {sum(constant)} of {len(columns)} labels"
        elif len(present := columns[0][columns[0] == columns[0]]):
            what = f"{what}: {_class_name(store, task, float(present[0]))}"
        else:
            what = "no label"
        yield DataIssue("error" if useless else "note", "one-class", f"{name} has {what}")


def _constant(column: NDArray[Any]) -> bool:
    present = column[column == column]  # without NaN
    return len(present) == 0 or bool((present == present[0]).all())


def _class_name(store: GraphStore, task: Task, value: float) -> str:
    names = store.meta.get("classes") or ()
    named = task.kind != "regression" and value == int(value) and 0 <= value < len(names)
    return str(names[int(value)]) if named else f"{value:g}"
