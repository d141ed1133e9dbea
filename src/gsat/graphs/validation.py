"""Validation of data sets before training, with the numbers of the graphs concerned.

An error means that training would fail or be meaningless; a note goes on the data card.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.graphs.build import ranges
from gsat.graphs.scan import GraphStatistics, scan_graphs
from gsat.graphs.store import GraphStore
from gsat.tasks import Task

Severity = Literal["error", "note"]
Splits = Mapping[str, NDArray[np.int64]]

LOOKED_AT: Final = 1000  # graphs, to tell whether edges have a reverse
ONE_WAY: Final = (
    "every edge is there in one direction alone, and messages flow in that direction; if it says "
    "nothing, store both directions"
)
SHOWN: Final = 5  # numbers of graphs that an issue lists
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
    """An error in a data set, or something worth knowing about it.

    Attributes:
        severity: ``"error"`` or ``"note"``.
        kind: A keyword, for programs.
        message: One line.
        graphs: Numbers of the first few graphs concerned, if single graphs are.
        count: How many graphs are concerned; in a node-level split, how many nodes.
    """

    severity: Severity
    kind: str
    message: str
    graphs: tuple[int, ...] = ()
    count: int = 0


def find_issues(
    store: GraphStore,
    task: Task,
    splits: Splits,
    *,
    overlap: str = "",
    statistics: GraphStatistics | None = None,
) -> list[DataIssue]:
    """Find everything that is wrong with a data set or worth knowing."""
    seen = statistics or scan_graphs(store)
    found = [
        *_graphs(store, seen),
        *_positions(store, task, splits, overlap),
        *_labels(store, task, splits),
    ]
    if not any(issue.kind == "positions" for issue in found):
        found += [*_classes(store, task, splits), *_same(task, splits, seen)]
    return sorted(found, key=lambda issue: issue.severity)


def validate_dataset(
    store: GraphStore, task: Task, splits: Splits, *, name: str, overlap: str = ""
) -> None:
    """Raise if a data set can't be trained on."""
    quick = scan_graphs(store, digests=False)
    _raise_errors(find_issues(store, task, splits, overlap=overlap, statistics=quick), name)


def one_way(store: GraphStore) -> bool:
    """Whether graphs have every edge in one direction alone."""
    looked_at = store.select(np.flatnonzero(store.edge_counts)[:LOOKED_AT])
    if not len(looked_at):
        return False
    counts, rows = looked_at.edge_counts, looked_at.index
    edges = ranges(store.arrays["edge_ptr"][rows], counts)
    src, dst = (store.arrays[name][edges].astype(np.int64) for name in ("src", "dst"))
    graph, nodes = np.repeat(np.arange(len(rows)), counts), int(looked_at.node_counts.max())
    other = src != dst  # a loop is its own reverse
    there, back = ((graph * nodes + a) * nodes + b for a, b in ((src, dst), (dst, src)))
    return bool(other.any()) and not np.isin(there[other], back[other]).any()


def validate_graphs(store: GraphStore, *, name: str) -> None:
    """Raise if graphs can't be predicted; they need neither labels nor splits."""
    _raise_errors(_values(scan_graphs(store, digests=False)), name)


def _raise_errors(found: Iterable[DataIssue], name: str) -> None:
    """Raise the errors among some issues, if any, as one line."""
    wrong = [issue.message for issue in found if issue.severity == "error"]
    if wrong:
        raise DataError(f"{name} can't be used: {'; '.join(wrong)}")


# -- graphs ---------------------------------------------------------------------------------------


def _graphs(store: GraphStore, seen: GraphStatistics) -> Iterator[DataIssue]:
    if not len(store):
        yield DataIssue("error", "graphs", "there are no graphs")
    yield from _values(seen)
    yield from _numbered("error", "empty", store.node_counts == 0, "no nodes")
    yield from _numbered(
        "note", "no-edges", (store.edge_counts == 0) & (store.node_counts > 0), "no edges"
    )
    some = (seen.isolated > 0) & (store.edge_counts > 0)
    what = f"nodes without an edge ({seen.isolated[some].sum()} in all)"
    yield from _numbered("note", "isolated", some, what)


def _values(seen: GraphStatistics) -> Iterator[DataIssue]:
    """Arrays with invalid rows."""
    for name, invalid in seen.invalid.items():
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
    """Positions out of range, empty splits, and positions in two splits."""
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


def _same(task: Task, splits: Splits, seen: GraphStatistics) -> Iterator[DataIssue]:
    """Graphs of a split that are equal to one of an earlier split, under another number."""
    if task.level == "node" or seen.digest is None:
        return
    for one, other in combinations(splits, 2):
        rest = np.setdiff1d(splits[other], splits[one])
        same = rest[np.isin(seen.digest[rest], seen.digest[splits[one]])]
        if len(same):
            have = "has" if len(same) == 1 else "have"
            message = (
                f"{_listed(same, 'graph')} of {other} {have} the same features and edges "
                f"as one of {one}"
            )
            yield DataIssue("note", "same", message, _first(same), len(same))


# -- labels ---------------------------------------------------------------------------------------


def _labels(store: GraphStore, task: Task, splits: Splits) -> Iterator[DataIssue]:
    """Labels of the wrong shape, type or value, and missing ones, of the graphs in splits."""
    name = "node_y" if task.level == "node" else "y"
    if name not in store.arrays:
        yield DataIssue("error", "labels", f"there are no labels '{name}', one per {task.level}")
        return
    y = store.arrays[name]
    wanted = (len(y),) if task.kind == "multiclass" else (len(y), task.num_logits)
    if y.shape != wanted:
        shape = "[G]" if task.kind == "multiclass" else f"[G, {task.num_logits}]"
        message = f"labels of a {task.kind} task must have shape {shape}, not {list(y.shape)}"
        yield DataIssue("error", "labels", message)
        return
    total = len(y) if task.level == "node" else len(store)
    asked = np.unique(np.concatenate([np.zeros(0, np.int64), *splits.values()]))
    asked = asked[(asked >= 0) & (asked < total)]
    y = labels_at(store, task, asked)
    fine, allowed = _valid_labels(task, y)
    bad = asked[~fine]
    if len(bad):
        value, graphs = y[~fine][0].tolist(), bad
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
    """Read labels."""
    if task.level == "node":
        return np.asarray(store.arrays["node_y"][positions])
    return np.asarray(store.arrays["y"][store.index[positions]])


def _valid_labels(task: Task, y: NDArray[Any]) -> tuple[NDArray[np.bool_], str]:
    """Which labels are valid, and what they must be, in words."""
    if task.kind == "multiclass":
        fine = (y >= 0) & (y < task.classes) & (y == np.floor(y))
        return fine, f"integers from 0 to {task.classes - 1}"
    if task.kind == "regression":
        return ~np.isinf(y).any(axis=1), "finite numbers, or NaN if missing"
    return ((y == 0) | (y == 1) | np.isnan(y)).all(axis=1), "0, 1, or NaN if missing"


def _classes(store: GraphStore, task: Task, splits: Splits) -> Iterator[DataIssue]:
    """Splits with a single class: nothing to learn in train, undefined metrics elsewhere."""
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
    known = task.kind != "regression" and value == int(value) and 0 <= value < len(names)
    return str(names[int(value)]) if known else f"{value:g}"
