"""Data cards: what a data set holds, as plain values, beside the published figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.datasets.dataset import Dataset
from gsat.datasets.published import PUBLISHED
from gsat.datasets.registry import dataset_names, find_source, is_own_data
from gsat.graphs.scan import GraphStatistics, scan_graphs
from gsat.graphs.validation import DataIssue, find_issues, labels_at

Card = dict[str, Any]

# Keys of a store's meta that describe the data.
ABOUT: Final = ("parses", "vectors", "categories")


def card(data: Dataset) -> Card:
    """Make the card of a data set: plain values, safe for JSON, the same on every machine.

    ``splits.NAME.size`` counts graphs or, at node level, nodes; ``nodes`` and ``edges`` of a split
    are means over its graphs, edges as stored; ``classes`` are names, those of the labels when
    multi-label, or None; ``truth`` is the share of edges that are true; ``undirected`` the share
    of graphs. ``balance`` is the share of each class or, when multi-label, of the positives of
    each label; in a regression ``[mean, standard deviation]``.
    """
    store, task = data.store, data.task
    seen = scan_graphs(store)
    found = find_issues(store, task, data.splits, overlap=data.overlap, statistics=seen)
    table = [*data.notes, *([data.rejected.summary()] if data.rejected else [])]
    found = [*found, *(DataIssue("note", "table", text) for text in table)]
    return {
        "name": data.name,
        "options": dict(data.options),
        "seed": data.seed,
        "matches_paper": data.matches_paper,
        "hash": data.hash,
        "task": {k: getattr(task, k) for k in ("kind", "classes", "metric", "level")},
        "classes": store.meta.get("labels" if task.kind == "multilabel" else "classes"),
        "graphs": len(store),
        "nodes": _spread(store.node_counts),
        "edges": _spread(store.edge_counts),
        "undirected": _mean(store.per_graph("undirected")),
        "features": store.num_features,
        "edge_features": store.num_edge_features,
        "truth": _truth(data, seen, np.arange(len(store))),
        "splits": {name: _split(data, seen, name) for name in data.splits},
        "about": {key: store.meta[key] for key in ABOUT if key in store.meta},
        "findings": [{**asdict(finding), "graphs": list(finding.graphs)} for finding in found],
        "published": PUBLISHED.get(data.name, {}),
    }


def value_at(card: Card, place: str) -> Any:
    """Return the value at a dotted place of a card, such as ``splits.train.size``, or None."""
    value: Any = card
    for key in place.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def known_sets() -> list[tuple[str, dict[str, Any]]]:
    """List every data set whose files are available, with each value of its option ``source``."""
    sets: list[tuple[str, dict[str, Any]]] = []
    for name in dict.fromkeys([*dataset_names(), *PUBLISHED]):
        try:
            source = find_source(name)
        except DataError:  # a plug-in that can't be imported
            continue
        for value, files in source.sources(name).items():
            if all(file.find() is not None for file in files):
                sets.append((name, {"source": value} if value else {}))
    return sets


def file_name(card: Card) -> str:
    """Name the file of a card: by the data set and the options that differ from their defaults."""
    changed: dict[str, Any] = {}
    if not is_own_data(card["name"]):
        defaults = find_source(card["name"]).Options().model_dump()
        chosen = {**card["options"], "seed": card["seed"]}
        changed = {key: value for key, value in chosen.items() if value != defaults.get(key, 0)}
    # Only the last part of a path: the card must not be written elsewhere.
    named = [f"{key}={Path(str(value)).name}" for key, value in changed.items()]
    return "-".join([Path(card["name"]).name, *named]) + ".json"


def _split(data: Dataset, seen: GraphStatistics, name: str) -> Card:
    """The part of a card about one split."""
    part = data.splits[name]
    view = data.split(name)
    y = labels_at(data.store, data.task, part)
    present = y == y
    return {
        "size": len(part),
        "nodes": _mean(view.node_counts),
        "edges": _mean(view.edge_counts),
        "truth": _truth(data, seen, np.flatnonzero(np.isin(data.store.index, view.index))),
        "labelled": _mean(present),
        "balance": _balance(data, y),
    }


def _balance(data: Dataset, y: NDArray[Any]) -> list[float | None]:
    """Shares of classes, of positive labels, or mean and deviation, of labels ``[R, T]``."""
    kind, classes = data.task.kind, data.task.classes
    if kind == "multilabel":
        return [_mean(column[column == column]) for column in y.T]
    present = y[y == y]
    if kind == "regression":
        return [_mean(present), _rounded(present.std()) if len(present) else None]
    return [_mean(present == number) for number in range(classes)]


def _truth(data: Dataset, seen: GraphStatistics, positions: NDArray[np.int64]) -> float | None:
    """The share of true edges of some graphs."""
    edges = int(data.store.edge_counts[positions].sum())
    if seen.true_edges is None or not edges:
        return None
    return _rounded(float(seen.true_edges[positions].sum()) / edges)


def _spread(counts: NDArray[np.int64]) -> Card:
    least, most = (int(counts.min()), int(counts.max())) if len(counts) else (None, None)
    return {"mean": _mean(counts), "min": least, "max": most}


def _mean(values: NDArray[Any]) -> float | None:
    return _rounded(values.mean(dtype=np.float64)) if values.size else None


def _rounded(value: float) -> float:
    # Coarser than rounding errors of sums, so that cards compare equal.
    return round(float(value), 4)
