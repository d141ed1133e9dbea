"""Validation and sorting of users' arrays for a store.

In an undirected graph, the order of the edges by source also maps each edge to its reverse: sorting
by (source, destination) lists the reversed edges in the order in which (destination, source) lists
the edges. Duplicates match by rank, and a self-loop matches itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsat.core.errors import DataError
from gsat.graphs.texts import encode_texts

Array = NDArray[Any]
Columns = Mapping[str, ArrayLike | None]


def sort_edges(
    node_ptr: ArrayLike, edge_ptr: ArrayLike, edge_index: ArrayLike
) -> tuple[dict[str, Array], NDArray[np.int64]]:
    """Sort edges by graph, destination and source."""
    node_ptr = _pointer(node_ptr, "node_ptr")
    edge_ptr = _pointer(edge_ptr, "edge_ptr")
    if len(node_ptr) != len(edge_ptr):
        raise DataError(
            f"node_ptr and edge_ptr must be of the same graphs, "
            f"not {len(node_ptr) - 1} and {len(edge_ptr) - 1}"
        )
    graphs, edges = len(node_ptr) - 1, int(edge_ptr[-1])
    index = np.asarray(edge_index)
    if index.size == 0:
        index = index.reshape(2, 0)
    elif index.dtype.kind not in "iu":
        raise DataError(f"edge_index must hold integers, the numbers of nodes, not {index.dtype}")
    index = index.astype(np.int64)
    if index.ndim != 2 or len(index) != 2:
        raise DataError(f"edge_index must have shape [2, E], not {list(index.shape)}")
    if index.shape[1] != edges:
        raise DataError(f"edge_index has {index.shape[1]} edges, but edge_ptr ends at {edges}")
    edge_graph = np.repeat(np.arange(graphs), np.diff(edge_ptr))
    _check_range(index, np.diff(node_ptr)[edge_graph], edge_graph)

    src, dst = index
    rows = np.lexsort((src, dst, edge_graph))
    src, dst = src[rows], dst[rows]
    by_src = np.lexsort((dst, src, edge_graph))
    # In undirected graphs, the reversed edges by source equal the edges by destination.
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


def build_arrays(
    node_ptr: ArrayLike,
    edge_ptr: ArrayLike,
    edge_index: ArrayLike,
    *,
    nodes: Columns,
    edges: Columns,
    graphs: Columns,
) -> dict[str, Array]:
    """Make the arrays of a store from a user's arrays."""
    arrays, order = sort_edges(node_ptr, edge_ptr, edge_index)
    if graphs.get("y") is not None and nodes.get("node_y") is not None:
        raise DataError("labels are of graphs (y) or of nodes (node_y), not of both")
    counts = {
        "node": int(arrays["node_ptr"][-1]),
        "edge": len(order),
        "graph": len(arrays["undirected"]),
    }
    for per, columns in (("node", nodes), ("edge", edges), ("graph", graphs)):
        for key, values in columns.items():
            if values is None:
                continue
            name = key.removeprefix("graph.")
            convert = as_matrix if name in ("x", "edge_attr") and per != "graph" else as_rows
            rows = convert(values, counts[per], name, per)
            if key == "edge_weight":
                if rows.ndim != 1:
                    raise DataError(f"edge_weight must have shape [E], not {list(rows.shape)}")
                rows = rows.astype(np.float32)
            arrays[key] = rows[order] if per == "edge" else rows
    return arrays


def as_rows(values: ArrayLike, count: int, name: str, per: str) -> Array:
    """Convert an array to float32, int64 or bool, and texts of graphs to bytes."""
    if per == "graph" and name != "y" and isinstance(values, list):
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) == len(values) == count:
            # np.asarray would reserve the length of the longest text for each.
            return encode_texts(texts)
    array = np.asarray(values)
    if array.ndim == 0:
        raise DataError(f"{name} must have {count} rows, one per {per}, not a single value")
    if len(array) != count:
        raise DataError(f"{name} has {len(array)} rows, but there are {count} {per}s")
    if array.dtype.kind == "U" and per == "graph" and name != "y":
        return encode_texts(array.tolist())
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name} must hold numbers, not {array.dtype}; encode texts as numbers")
    # Features may be float16, which halves the size of word vectors on disk.
    if name == "x" and array.dtype == np.float16:
        return array.copy()
    if array.dtype.kind == "f":
        return to_float32(array, name)
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise DataError(f"{name} contains a number that is too large: {int(array.max())}")
    return array.astype(bool if array.dtype.kind == "b" else np.int64)


def to_float32(array: Array, name: str) -> NDArray[np.float32]:
    """Convert numbers to float32."""
    with np.errstate(over="ignore"):
        converted = array.astype(np.float32)
    if array.dtype.itemsize > 4 and array.dtype.kind == "f":
        lost = np.isinf(converted) & np.isfinite(array)
        if lost.any():
            raise DataError(f"{name} contains a number that is too large: {array[lost][0]:g}")
    return converted


def as_matrix(values: ArrayLike, count: int, name: str, per: str) -> Array:
    """Like :func:`as_rows`, with two axes; a list of numbers becomes one column."""
    array = as_rows(values, count, name, per)
    if array.ndim > 2:
        raise DataError(f"{name} must have shape [rows, columns], not {list(array.shape)}")
    return array[:, None] if array.ndim == 1 else array


def graph_rows(positions: ArrayLike, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """Select graphs of a view."""
    rows, total = np.atleast_1d(np.asarray(positions)), len(index)
    if rows.dtype == bool:
        if rows.shape != index.shape:
            raise DataError(f"the mask has {rows.size} entries for {total} graphs")
        return index[rows]
    if rows.size and rows.dtype.kind not in "iu":
        raise DataError(f"graphs are selected by integers or a mask, not by {rows.dtype}")
    rows = rows.astype(np.int64)
    wrong = rows[(rows < -total) | (rows >= total)]
    if len(wrong):
        valid = f"the graphs are 0 to {total - 1}" if total else "there are none"
        raise DataError(f"there is no graph {int(wrong[0])}: {valid}")
    return index[rows]


def node_mask(nodes: ArrayLike, count: int) -> NDArray[np.bool_]:
    """Turn rows of nodes into a mask."""
    mask, rows = np.zeros(count, dtype=bool), np.asarray(nodes)
    if rows.dtype != bool:
        rows = rows.astype(np.int64)
        wrong = rows[(rows < 0) | (rows >= count)]
        if len(wrong):
            raise DataError(f"there is no node {int(wrong[0])}: the nodes are 0 to {count - 1}")
    elif rows.shape != mask.shape:
        raise DataError(f"the mask has {rows.size} entries for {count} nodes")
    mask[rows] = True
    return mask


def ranges(starts: Array, counts: Array) -> NDArray[np.int64]:
    """Concatenate ``arange(start, start + count)`` for each start and count, without a loop."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - counts), counts) + np.arange(total)


def offsets(counts: Array) -> NDArray[np.int64]:
    """Cumulative sums of counts ``[G]`` with a leading 0, ``[G + 1]``."""
    out = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=out[1:])
    return out


def portions(sizes: Array, limit: float, most: int | None = None) -> Iterator[slice]:
    """Cut consecutive items into slices of at most ``most`` items and a total size of ``limit``.

    An item that is larger than the limit gets a slice of its own.
    """
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + limit, side="right")))
        stop = stop if most is None else min(stop, start + most)
        yield slice(start, stop)
        start = stop


def _pointer(values: ArrayLike, name: str) -> NDArray[np.int64]:
    pointer = np.asarray(values, dtype=np.int64)
    if pointer.ndim != 1 or len(pointer) < 1 or pointer[0] != 0 or (np.diff(pointer) < 0).any():
        raise DataError(f"{name} must start at 0 and must not decrease")
    return pointer


def _check_range(index: Array, sizes: Array, edge_graph: Array) -> None:
    wrong = np.flatnonzero(((index < 0) | (index >= sizes)).any(axis=0))
    if len(wrong):
        graph = int(edge_graph[wrong[0]])
        edge = index[:, wrong[0]]
        raise DataError(
            f"graph {graph} has an edge {edge[0]} → {edge[1]}, but only "
            f"{int(sizes[wrong[0]])} nodes; nodes are numbered from 0 within each graph"
        )
