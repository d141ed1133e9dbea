"""Mutag: molecules that are mutagenic or not (TU "Mutagenicity"), with PGExplainer's truth.

The truth marks the bonds of NO2 and NH2 groups in mutagens. As in the paper, mutagens without
such a group are left out, and non-mutagens have no truth even where they carry such a group.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.datasets.formats import tu
from gsat.datasets.registry import MUTAG
from gsat.errors import DataError
from gsat.graphs import GraphStore
from gsat.tasks import Task

VERSION: Final = 1
TASK: Final = Task("binary")
SPLIT_OPTIONS: Final = frozenset({"test"})

ATOMS: Final = ("C", "O", "Cl", "H", "N", "F", "Br", "S", "P", "I", "Na", "K", "Li", "Ca")
MUTAGEN: Final = 0
PARTS: Final = ("A", "graph_indicator", "edge_gt", "graph_labels", "node_labels")


def build(name: str, options: Mapping[str, Any]) -> GraphStore:
    """The molecules, edges in the file's order.

    ``annotated`` [G] says which molecules carry truth: explanations are measured on these only.
    """
    (file,) = MUTAG.raw_files(options)
    store = read_zip(file.require())
    if options["drop_unannotated"]:
        mutagen = store.per_graph("y")[:, 0] == MUTAGEN
        store = store.select(store.per_graph("annotated") | ~mutagen).compact()
    return store


def split(store: GraphStore, seed: int, options: Mapping[str, Any]) -> dict[str, NDArray[np.int64]]:
    """A shuffle, cut 80/20 with all annotated mutagens as test, or cut 80/10/10.

    ``test="paper"`` is the published split: its test graphs are also in train and validation.
    """
    order = np.random.RandomState(seed).permutation(len(store)).astype(np.int64)
    train, valid = int(0.8 * len(order)), int(0.1 * len(order))
    if options["test"] == "paper":
        test = np.flatnonzero(store.per_graph("annotated"))
        return {"train": order[:train], "valid": order[train:], "test": test}
    parts = np.split(order, [train, train + valid])
    return dict(zip(("train", "valid", "test"), parts, strict=True))


def overlap(options: Mapping[str, Any]) -> str:
    """Why the splits share graphs, if they do."""
    return "the published test set is every annotated mutagen" if options["test"] == "paper" else ""


def matches_paper(name: str, options: Mapping[str, Any]) -> str:
    """``yes`` for the published split of the annotated set."""
    return "yes" if options["test"] == "paper" and options["drop_unannotated"] else "different"


def read_zip(path: Path) -> GraphStore:
    """All 4337 molecules of the zip; the truth of non-mutagens is set to 0."""
    try:
        raw = tu.read_tables(path, PARTS)
    except DataError as error:
        raise _damaged(path, str(error)) from error
    for part in PARTS[2:]:  # of the first two, the tables are made
        if part not in raw:
            raise _damaged(path, f"there is no Mutagenicity_{part}.txt in it")
    atom, label = raw["node_labels"][:, 0], raw["graph_labels"][:, 0]
    if not 0 <= atom.min(initial=0) <= atom.max(initial=0) < len(ATOMS):
        raise _damaged(path, "the tables do not fit: there are 14 kinds of atoms")

    edge_ptr, node_ptr, edge_index = raw["edge_ptr"], raw["node_ptr"], raw["edge_index"]
    edge_graph = np.repeat(np.arange(len(label)), np.diff(edge_ptr))
    truth = (raw["edge_gt"][:, 0] == 1) & (label == MUTAGEN)[edge_graph]
    node_truth = np.zeros(len(atom), dtype=np.float32)
    node_truth[(edge_index + node_ptr[edge_graph])[:, truth]] = 1
    return GraphStore.from_arrays(
        node_ptr=node_ptr,
        edge_ptr=edge_ptr,
        edge_index=edge_index,
        x=np.eye(len(ATOMS), dtype=np.float32)[atom],
        y=label.astype(np.float32)[:, None],
        node_truth=node_truth,
        edge_truth=truth.astype(np.float32),
        graph_fields={"annotated": np.bincount(edge_graph[truth], minlength=len(label)) > 0},
        meta={"classes": ["mutagen", "non-mutagen"], "node_types": list(ATOMS)},
    )


def _damaged(path: Path, why: str) -> DataError:
    (file,) = MUTAG.files["published"]
    return DataError(f"{path} is damaged ({why}); get it again from {file.source}")
