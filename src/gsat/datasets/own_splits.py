"""Splits of the user's own graphs: given, random, stratified, by scaffold or in folds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.datasets import splits
from gsat.datasets.own_options import OwnDataOptions
from gsat.graphs import GraphStore
from gsat.tasks import Level, Task

FEWEST = 100  # molecules of an automatic scaffold split


def split(
    store: GraphStore,
    task: Task,
    known: NDArray[np.bool_],
    seed: int,
    options: OwnDataOptions,
) -> tuple[str, splits.Splits]:
    """Split the labelled graphs or nodes.

    Nodes of one graph are split themselves; nodes of several graphs follow their graphs.
    """
    rows = np.flatnonzero(known)
    together = task.level == "node" and len(store) > 1
    owner = (
        np.repeat(np.arange(len(store)), store.node_counts) if together else np.arange(len(known))
    )
    units = np.unique(owner[rows])
    marks = _marks(store, task.level)
    label = None
    if has_classes(task) and not together:
        label = store.labels(task.level).reshape(-1)[units]
    how: str = options.split
    shares = splits.check_shares(options.train, options.valid, options.test)
    if how == "auto":
        how = "given" if marks is not None else "random" if label is None else "stratified"
        if marks is None and _can_be_split_by_scaffold(store, units, shares):
            how = "scaffold"
    elif how.startswith("column:"):
        how = "given"  # the marks were read from that column
    if how == "given":
        if marks is None:
            raise DataError("split is 'given', but the graphs have no split; choose another")
        parts = {name: part[known[part]] for name, part in splits.given(marks).items()}
        return how, _check_not_empty(parts, task.level)
    if how == "stratified":
        if label is None:
            raise DataError(
                "split is 'stratified', which needs one class per graph, or nodes of one graph; "
                "use 'random'"
            )
        parts = splits.stratified(label, seed, shares)
    elif how == "kfold":
        every = len(units) if label is None else label
        parts = splits.kfold(every, options.folds, options.fold, seed)
    elif how == "scaffold":
        if not store.has("smiles") or (task.level == "node" and not together):
            raise DataError("split is 'scaffold', but the graphs have no 'smiles'; choose another")
        scaffolds = _scaffolds(store)  # once: it reads the texts of all graphs
        parts = splits.by_scaffold([scaffolds[unit] for unit in units], shares)
    else:
        parts = splits.shuffled(len(units), seed, shares)
    parts = {name: units[part] for name, part in parts.items()}
    if together:
        parts = {name: rows[np.isin(owner[rows], part)] for name, part in parts.items()}
    return how, _check_not_empty(parts, task.level)


def _marks(store: GraphStore, level: Level) -> NDArray[np.int64] | None:
    """The split marks of the data itself for each row; None without any."""
    if level == "node" and store.has("node_split"):
        return store.arrays["node_split"][store.target_nodes()]
    if not store.has("split") or (level == "node" and len(store) == 1):
        return None
    marks = store.per_graph("split").reshape(-1)
    return np.repeat(marks, store.node_counts) if level == "node" else marks


def _check_not_empty(parts: splits.Splits, level: str) -> splits.Splits:
    """The splits, unless one of them is empty."""
    for name, part in parts.items():
        if not len(part):
            sizes = ", ".join(f"{n} {len(p)}" for n, p in parts.items())
            raise DataError(
                f"the split '{name}' has no {level}s with labels ({sizes}); "
                "give more data, or other shares"
            )
    return parts


def has_classes(task: Task) -> bool:
    """Whether a graph or node has one of several classes."""
    return task.kind in ("binary", "multiclass")


def _scaffolds(store: GraphStore) -> list[str]:
    """The scaffold of each molecule, from the store or computed."""
    if store.has("scaffold"):
        return store.texts("scaffold")
    return splits.murcko_scaffolds(store.texts("smiles"))


def _can_be_split_by_scaffold(
    store: GraphStore, units: NDArray[np.int64], shares: splits.Shares
) -> bool:
    """Whether the automatic split of a table of molecules is by scaffold.

    There must be enough molecules, and every label must have two values in each part.
    """
    if not store.has("scaffold") or len(units) < FEWEST:
        return False
    found, labels = store.texts("scaffold"), store.labels("graph")
    parts = splits.by_scaffold([found[unit] for unit in units], shares)
    for part in parts.values():
        rows = labels[units[part]]
        rows = rows[:, None] if rows.ndim == 1 else rows
        for column in rows.T:
            if len(np.unique(column[column == column])) < 2:
                return False
    return True
