"""Statistics and a digest of each graph of a store, in one pass with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.graphs.build import offsets, portions, ranges
from gsat.graphs.sharded_array import Column
from gsat.graphs.store import GraphStore

Array = NDArray[Any]
Counts = NDArray[np.int64]

CHUNK: Final = 1 << 20  # numbers read at a time
FINITE: Final = ("x", "edge_attr", "edge_weight")
TRUTHS: Final = ("node_truth", "edge_truth")


@dataclass(frozen=True)
class GraphStatistics:
    """Statistics of the ``G`` graphs of a store: arrays ``[G]``."""

    # Number of invalid rows by array: values that are not finite, truth other than 0 and 1; under
    # "edges", edges that leave their graph; under "order", edges that kernels need in other order.
    invalid: dict[str, Counts]
    isolated: Counts  # number of nodes without edges
    true_edges: NDArray[np.float64] | None  # sum of ``edge_truth``
    digest: NDArray[np.uint64] | None  # of features and edges in stored order, if requested


def scan_graphs(store: GraphStore, *, digests: bool = True) -> GraphStatistics:
    """Compute the statistics of all graphs of a store or view."""
    arrays, total = store.arrays, len(store)
    checked = [name for name in (*FINITE, *TRUTHS) if name in arrays]
    invalid = {name: np.zeros(total, dtype=np.int64) for name in ("edges", "order", *checked)}
    isolated = np.zeros(total, dtype=np.int64)
    true_edges = np.zeros(total) if "edge_truth" in arrays else None
    digest = np.zeros(total, dtype=np.uint64) if digests else None
    node_counts, edge_counts = store.node_counts, store.edge_counts
    for part in _parts(store):
        rows, node_count, edge_count = store.index[part], node_counts[part], edge_counts[part]
        node_ptr, edge_ptr = offsets(node_count), offsets(edge_count)
        nodes = ranges(arrays["node_ptr"][rows], node_count)
        edges = ranges(arrays["edge_ptr"][rows], edge_count)
        ends = np.stack([arrays["src"][edges], arrays["dst"][edges]], axis=1)
        within = (ends >= 0) & (ends < np.repeat(node_count, edge_count)[:, None])
        outside = ~_all(within)
        invalid["edges"][part] = leaving = _sums(outside, edge_ptr)
        unsorted = _sums(_unsorted(arrays, rows, edges, ends, edge_ptr), edge_ptr)
        invalid["order"][part] = np.where(leaving > 0, 0, unsorted)  # their order is undefined
        untouched = np.ones(len(nodes), dtype=bool)
        untouched[(ends + np.repeat(node_ptr[:-1], edge_count)[:, None])[~outside]] = False
        isolated[part] = _sums(untouched, node_ptr)
        for name in checked:
            per_node = name in ("x", "node_truth")
            values = np.asarray(arrays[name][nodes if per_node else edges])
            wrong = ~_valid(name, values)
            invalid[name][part] = _sums(wrong, node_ptr if per_node else edge_ptr)
            if name == "edge_truth" and true_edges is not None:
                true_edges[part] = _sums(np.where(wrong, 0, values), edge_ptr)
        if digest is not None:
            columns = [arrays[n][edges] for n in ("edge_attr", "edge_weight") if n in arrays]
            of_nodes = [arrays["x"][nodes]] if "x" in arrays else []
            digest[part] = _mixed(
                _mixed(node_count.astype(np.uint64))
                + _digest(of_nodes, node_ptr, salt=1)
                + _digest([ends, *columns], edge_ptr, salt=2)
            )
    return GraphStatistics(invalid, isolated, true_edges, digest)


def _parts(store: GraphStore) -> Iterator[slice]:
    """Slices of the view with about ``CHUNK`` numbers each, without splitting graphs."""
    numbers = store.node_counts * max(1, store.num_features)
    numbers += store.edge_counts * (2 + store.num_edge_features)
    return portions(numbers, CHUNK)


def _unsorted(
    arrays: Mapping[str, Column],
    rows: Counts,
    edges: Counts,
    ends: Array,
    edge_ptr: Counts,
) -> NDArray[np.bool_]:
    """Mask of the edges, ``[E]``, that differ from the result of ``build.sort_edges``.

    That function sorts by destination and stores the order by source (in undirected graphs, the
    reverse edges) and the user's order.
    """
    counts = np.diff(edge_ptr)
    first, count = np.repeat(edge_ptr[:-1], counts), np.repeat(counts, counts)
    wrong = np.zeros(len(edges), dtype=bool)
    for name in ("order", "by_src"):
        place = arrays[name][edges].astype(np.int64)
        outside = (place < 0) | (place >= count)
        place = np.where(outside, 0, place) + first
        wrong |= outside | (np.bincount(place, minlength=len(edges))[place] != 1)
    by_src = ends[place]
    falls = (np.diff(ends[:, 1]) < 0) | (np.diff(by_src[:, 0]) < 0)
    wrong[1:] |= falls & (np.diff(first) == 0)
    mirrored = _all(by_src == ends[:, ::-1])
    wrong |= np.repeat(arrays["undirected"][rows], counts) & ~mirrored
    return wrong


def _valid(name: str, values: Array) -> NDArray[np.bool_]:
    """Mask of the valid rows: finite numbers, or a truth of 0 or 1."""
    if name in TRUTHS:
        fine = (values == 0) | (values == 1)
    else:
        fine = np.isfinite(values)
    return _all(fine)


def _all(fine: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the rows that are true in every column."""
    return np.logical_and.reduce(_matrix(fine), axis=1)


def _matrix(values: Array) -> Array:
    # reshape(len, -1) can't infer the columns of an array without rows.
    return values.reshape(len(values), int(np.prod(values.shape[1:])))


def _sums(values: Array, ptr: Counts) -> Array:
    """Sums of segments; uint64 wraps around."""
    kind = np.int64 if values.dtype == bool else np.uint64 if values.dtype == np.uint64 else float
    total = np.zeros(len(values) + 1, dtype=kind)
    np.cumsum(values, out=total[1:])
    return total[ptr[1:]] - total[ptr[:-1]]


# -- digests --------------------------------------------------------------------------------------


def _digest(columns: list[Array], ptr: Counts, salt: int) -> NDArray[np.uint64]:
    """Order-dependent digest of each segment of rows, ``[len(ptr) - 1]``."""
    place = np.arange(ptr[-1]) - np.repeat(ptr[:-1], np.diff(ptr))
    row = _mixed(place.astype(np.uint64) + np.uint64(salt << 40))
    for number, values in enumerate(columns):
        bits = _matrix(np.ascontiguousarray(values))
        bits = _mixed(bits.view(f"u{bits.itemsize}").astype(np.uint64))
        weights = _mixed(np.arange(bits.shape[1], dtype=np.uint64) + np.uint64((number + 1) << 32))
        row = _mixed(row + bits @ (weights | np.uint64(1)))
    return _sums(row, ptr)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64, which mixes all bits."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values
