"""The caller's edges, checked and sorted, and other arrays brought to the store's few kinds.

On an undirected graph the by-source order *is* the map from an edge to its reverse: sorting by
(source, destination) lists the reversed edges in the order in which (destination, source) lists
the edges. Duplicates match by rank, a self-loop matches itself. One array serves both purposes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsat.errors import DataError
from gsat.graphs.texts import encode

Array = NDArray[Any]


def sort_edges(
    node_ptr: ArrayLike, edge_ptr: ArrayLike, edge_index: ArrayLike
) -> tuple[dict[str, Array], NDArray[np.int64]]:
    """The arrays that every store has, and the row [E] from which each stored edge came.

    Args:
        node_ptr, edge_ptr: [G + 1]. edge_index: [2, E], numbered within each graph.
    """
    node_ptr = _pointer(node_ptr, "node_ptr")
    edge_ptr = _pointer(edge_ptr, "edge_ptr")
    if len(node_ptr) != len(edge_ptr):
        raise DataError(
            f"node_ptr and edge_ptr must count the same graphs, "
            f"not {len(node_ptr) - 1} and {len(edge_ptr) - 1}"
        )
    graphs, edges = len(node_ptr) - 1, int(edge_ptr[-1])
    index = np.asarray(edge_index)
    if index.size == 0:
        index = index.reshape(2, 0)
    elif index.dtype.kind not in "iu":
        raise DataError(f"edge_index holds whole numbers, the nodes, not {index.dtype}")
    index = index.astype(np.int64)
    if index.ndim != 2 or len(index) != 2:
        raise DataError(f"edge_index must have shape [2, E], not {list(index.shape)}")
    if index.shape[1] != edges:
        raise DataError(f"edge_index has {index.shape[1]} edges, edge_ptr says {edges}")
    edge_graph = np.repeat(np.arange(graphs), np.diff(edge_ptr))
    _check_range(index, np.diff(node_ptr)[edge_graph], edge_graph)

    src, dst = index
    rows = np.lexsort((src, dst, edge_graph))
    src, dst = src[rows], dst[rows]
    by_src = np.lexsort((dst, src, edge_graph))
    # Undirected: the reversed edges, listed by source, are the edges listed by destination.
    mirrored = (src[by_src] == dst) & (dst[by_src] == src)
    undirected = np.bincount(edge_graph[~mirrored], minlength=graphs) == 0

    first = edge_ptr[edge_graph]
    arrays: dict[str, Array] = {
        "node_ptr": node_ptr,
        "edge_ptr": edge_ptr,
        "src": src.astype(np.int32),
        "dst": dst.astype(np.int32),
        "by_src": (by_src - first).astype(np.int32),
        "order": (rows - first).astype(np.int32),
        "undirected": undirected,
    }
    return arrays, rows


def as_rows(values: ArrayLike, count: int, name: str, per: str) -> Array:
    """``values`` with one row for each of ``count`` things, as float32, int64 or bool; texts of
    graphs as bytes."""
    array = np.asarray(values)
    if len(array) != count:
        raise DataError(f"{name} has {len(array)} rows where there are {count} {per}s")
    if array.dtype.kind == "U" and per == "graph" and name != "y":
        return encode(array.tolist())
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} holds numbers, not {array.dtype}; number what is text")
    # Labels and features are float32 or int64: one floating and one integer kind to reason about.
    # Half-precision features stay as they are: word vectors take half the disk.
    half = name == "x" and array.dtype == np.float16
    kind = np.float16 if half else np.float32 if array.dtype.kind == "f" else np.int64
    return array.astype(bool if array.dtype.kind == "b" else kind)


def as_matrix(values: ArrayLike, count: int, name: str, per: str) -> Array:
    """The same with two axes: a list of numbers is one column."""
    array = as_rows(values, count, name, per)
    if array.ndim > 2:
        raise DataError(f"{name} has a row of numbers per {per}, not {list(array.shape[1:])} each")
    return array[:, None] if array.ndim == 1 else array


def _pointer(values: ArrayLike, name: str) -> NDArray[np.int64]:
    pointer = np.asarray(values, dtype=np.int64)
    if pointer.ndim != 1 or len(pointer) < 1 or pointer[0] != 0 or (np.diff(pointer) < 0).any():
        raise DataError(f"{name} must start at 0 and never fall")
    return pointer


def _check_range(index: Array, sizes: Array, edge_graph: Array) -> None:
    wrong = np.flatnonzero(((index < 0) | (index >= sizes)).any(axis=0))
    if len(wrong):
        graph = int(edge_graph[wrong[0]])
        edge = index[:, wrong[0]]
        raise DataError(
            f"graph {graph} has an edge {edge[0]} → {edge[1]} but only "
            f"{int(sizes[wrong[0]])} nodes; nodes are numbered from 0 within each graph"
        )
