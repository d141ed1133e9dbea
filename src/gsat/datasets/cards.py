"""Data cards: what a data set holds, as plain values, beside what is published about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.datasets.load import Dataset
from gsat.datasets.published import PUBLISHED
from gsat.datasets.registry import ENTRIES, find_entry
from gsat.errors import DataError
from gsat.graphs.scan import GraphStatistics, scan_graphs
from gsat.graphs.validation import find_issues, labels_at

Card = dict[str, Any]

# What a data set may say of itself in its store's meta.
ABOUT: Final = ("parses", "vectors", "categories")


def card(data: Dataset) -> Card:
    """The card of a data set: plain values, safe for JSON, the same on every machine.

    ``splits.NAME.size`` counts graphs or, at node level, nodes; ``nodes`` and ``edges`` of a split
    are means over its graphs, edges as stored; ``classes`` are names, those of the labels when
    multi-label, or None; ``truth`` is the share of edges that are true;
    ``undirected`` the share of graphs. ``balance`` is the share of each class or, when
    multi-label, of the positives of each label; in a regression ``[mean, standard deviation]``.
    """
    store, task = data.store, data.task
    seen = scan_graphs(store)
    found = find_issues(store, task, data.splits, overlap=data.overlap, statistics=seen)
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
        "undirected": _rounded(_mean(store.per_graph("undirected"))),
        "features": store.num_features,
        "edge_features": store.num_edge_features,
        "truth": _truth(data, seen, np.arange(len(store))),
        "splits": {name: _split(data, seen, name) for name in data.splits},
        "about": {key: store.meta[key] for key in ABOUT if key in store.meta},
        "findings": [{**asdict(finding), "graphs": list(finding.graphs)} for finding in found],
        "published": {
            place: asdict(figure) for place, figure in PUBLISHED.get(data.name, {}).items()
        },
    }


def figure(card: Card, place: str) -> Any:
    """The value at a dotted place of a card, such as ``splits.train.size``; None if not there."""
    value: Any = card
    for key in place.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def known_sets() -> list[tuple[str, dict[str, Any]]]:
    """Every data set whose files are here, by name and options: each source, each paper's bias."""
    sets: list[tuple[str, dict[str, Any]]] = []
    for name in dict.fromkeys([*(entry.name for entry in ENTRIES), *PUBLISHED]):
        try:
            entry = find_entry(name)
        except DataError:  # published, but not a set of this version
            continue
        source = entry.options.get("source")
        for value in source.choices if source else (None,):
            options = {} if value is None else {"source": value}
            files = entry.raw_files(entry.resolve(options))
            if all(file.find() is not None for file in files):
                sets.append((name, options))
    return sets


def file_name(card: Card) -> str:
    """Where a card is kept: the set's name and, of ours, what differs from its defaults."""
    entry = find_entry(card["name"])
    chosen = {**card["options"], "seed": card["seed"]} if entry.matches(card["name"]) else {}
    defaults = {name: option.default for name, option in entry.options.items()}
    changed = {key: value for key, value in chosen.items() if value != defaults.get(key, 0)}
    # Of a path, only the last part: the card must not land elsewhere.
    named = [f"{key}={Path(str(value)).name}" for key, value in changed.items()]
    return "-".join([Path(card["name"]).name, *named]) + ".json"


def _split(data: Dataset, seen: GraphStatistics, name: str) -> Card:
    part = data.splits[name]
    view = data.split(name)
    y = labels_at(data.store, data.task, part)
    present = y == y
    return {
        "size": len(part),
        "nodes": _rounded(_mean(view.node_counts)),
        "edges": _rounded(_mean(view.edge_counts)),
        "truth": _truth(data, seen, np.flatnonzero(np.isin(data.store.index, view.index))),
        "labelled": _rounded(_mean(present)),
        "balance": _balance(data, y),
    }


def _balance(data: Dataset, y: NDArray[Any]) -> list[float | None]:
    kind, classes = data.task.kind, data.task.classes
    if kind == "multilabel":
        return [_rounded(_mean(column[column == column])) for column in y.T]
    present = y[y == y]
    if kind == "regression":
        return [_rounded(_mean(present)), _rounded(float(present.std()) if len(present) else None)]
    return [_rounded(_mean(present == number)) for number in range(classes)]


def _truth(data: Dataset, seen: GraphStatistics, positions: NDArray[np.int64]) -> float | None:
    edges = int(data.store.edge_counts[positions].sum())
    if seen.true_edges is None or not edges:
        return None
    return _rounded(float(seen.true_edges[positions].sum()) / edges)


def _spread(counts: NDArray[np.int64]) -> Card:
    if not len(counts):
        return {"mean": None, "min": None, "max": None}
    return {"mean": _rounded(_mean(counts)), "min": int(counts.min()), "max": int(counts.max())}


def _mean(values: NDArray[Any]) -> float | None:
    return float(values.mean(dtype=np.float64)) if values.size else None


def _rounded(value: float | None) -> float | None:
    # Far above what the order of a sum does to the last digits, so that cards compare equal.
    return None if value is None else round(value, 4)
