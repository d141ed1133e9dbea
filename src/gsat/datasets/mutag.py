"""Mutag: molecules that are mutagenic or not (TU "Mutagenicity"), with PGExplainer's truth.

The truth marks the bonds of NO2 and NH2 groups in mutagens. As in the paper, mutagens without
such a group are left out, and non-mutagens have no truth even where they carry such a group.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.datasets.registry import MUTAG
from gsat.errors import DataError
from gsat.graphs import GraphStore
from gsat.tasks import Task

VERSION: Final = 1
TASK: Final = Task("binary")
SPLIT_OPTIONS: Final = frozenset({"test"})

ATOMS: Final = ("C", "O", "Cl", "H", "N", "F", "Br", "S", "P", "I", "Na", "K", "Li", "Ca")
MUTAGEN: Final = 0
PARTS: Final = ("A", "edge_gt", "graph_indicator", "graph_labels", "node_labels")


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
    raw = _read_parts(path)
    graphs, nodes, edges = (len(raw[p]) for p in ("graph_labels", "node_labels", "A"))
    graph_of = raw["graph_indicator"] - 1
    src, dst = raw["A"].T - 1
    whole = (
        len(graph_of) == nodes > 0
        and len(raw["edge_gt"]) == edges > 0
        and bool((np.diff(graph_of) >= 0).all())
        and 0 <= graph_of[0] <= graph_of[-1] < graphs
        and 0 <= min(src.min(), dst.min()) <= max(src.max(), dst.max()) < nodes
        and bool((graph_of[src] == graph_of[dst]).all())
        and 0 <= raw["node_labels"].min() <= raw["node_labels"].max() < len(ATOMS)
    )
    if not whole:
        raise _damaged(path, "its tables do not fit together")

    edge_graph = graph_of[src]
    rows = np.argsort(edge_graph, kind="stable")  # by graph; within a graph as in the file
    edge_graph, src, dst = edge_graph[rows], src[rows], dst[rows]
    mutagen = raw["graph_labels"] == MUTAGEN
    truth = (raw["edge_gt"][rows] == 1) & mutagen[edge_graph]
    node_truth = np.zeros(nodes, dtype=np.float32)
    node_truth[src[truth]] = node_truth[dst[truth]] = 1
    node_ptr = np.concatenate([[0], np.cumsum(np.bincount(graph_of, minlength=graphs))])
    return GraphStore.from_arrays(
        node_ptr=node_ptr,
        edge_ptr=np.concatenate([[0], np.cumsum(np.bincount(edge_graph, minlength=graphs))]),
        edge_index=np.stack([src, dst]) - node_ptr[edge_graph],
        x=np.eye(len(ATOMS), dtype=np.float32)[raw["node_labels"]],
        y=raw["graph_labels"].astype(np.float32)[:, None],
        node_truth=node_truth,
        edge_truth=truth.astype(np.float32),
        graph_fields={"annotated": np.bincount(edge_graph[truth], minlength=graphs) > 0},
        meta={"classes": ["mutagen", "non-mutagen"], "node_types": list(ATOMS)},
    )


def _read_parts(path: Path) -> dict[str, NDArray[np.int64]]:
    """The tables by name: ``A`` [E, 2], the others [E], [N] or [G]; numbers from 1 in the files."""
    try:
        raw = {}
        with zipfile.ZipFile(path) as archive:
            for part in PARTS:
                columns = 2 if part == "A" else 1
                with archive.open(f"Mutagenicity_{part}.txt") as member:
                    text = io.TextIOWrapper(member, "ascii")
                    table = np.loadtxt(text, dtype=np.int64, delimiter=",", ndmin=2)
                if table.shape[1] != columns:
                    raise ValueError(f"{part} has {table.shape[1]} columns, not {columns}")
                raw[part] = table if columns == 2 else table[:, 0]
        return raw
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(path, " ".join(str(error).split())) from error


def _damaged(path: Path, why: str) -> DataError:
    (file,) = MUTAG.files["published"]
    return DataError(f"{path} is damaged ({why}); get it again from {file.source}")
