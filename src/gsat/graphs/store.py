"""`GraphStore`: a data set as a handful of flat arrays.

Edges are kept sorted by graph, then destination, then source, so that the edges arriving at a node
are one slice. Beside them stand the by-source order (for the backward pass) and each edge's place
in the caller's own list, so that whatever leaves the store is in the caller's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gsat.errors import DataError
from gsat.graphs.build import as_matrix, as_rows, sort_edges
from gsat.graphs.sharded_array import Array, Column, reader
from gsat.graphs.texts import decode

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from gsat.graphs.batch import GraphBatch

# Arrays with one row per graph, node or edge; `x`, `y`, ... are optional, the rest always there.
EDGE_ARRAYS: Final = (
    "src", "dst", "by_src", "order", "edge_attr", "edge_weight", "edge_truth"
)  # fmt: skip
NODE_ARRAYS: Final = ("x", "node_y", "node_truth", "node_split", "targets")


class GraphStore(Sequence["Data"]):
    """Graphs in flat arrays; a split is a view on the same arrays.

    Build one with :meth:`from_arrays`, :func:`gsat.graphs.from_pyg` or
    :func:`gsat.graphs.from_networkx`. ``store[i]`` is a PyG ``Data`` in the caller's edge order;
    ``store.batch(ids)`` is a :class:`GraphBatch`.

    Attributes:
        arrays: the flat arrays by name. ``node_ptr`` and ``edge_ptr`` [G + 1]; ``src``, ``dst``,
            ``by_src`` and ``order`` [E], numbers within the graph; ``undirected`` [G];
            and, where given, ``x`` [N, F], ``edge_attr`` [E, D], ``edge_weight`` [E],
            ``y`` [G] or [G, T], or else ``node_y`` [N] or [N, T], ``node_truth`` [N],
            ``edge_truth`` [E], and ``targets`` [N], the nodes that :meth:`at_nodes` chose.
            Per-graph extras are named ``graph.NAME``; texts are bytes there (:meth:`texts`).
            ``graph.split`` or ``node_split`` say where a graph or node belongs: 0 train, 1 valid,
            2 test, −1 nowhere. Of a store in several files, the arrays of nodes and edges are
            :class:`~gsat.graphs.sharded_array.ShardedArray`: index them by rows.
        meta: plain values that belong to the data (names of classes, of node types, …).
        index: the graphs of this view, as rows of the arrays [len(self)].
    """

    def __init__(
        self, arrays: Mapping[str, Column], meta: Mapping[str, Any], index: Array | None = None
    ) -> None:
        self.arrays: dict[str, Column] = dict(arrays)
        self.meta = dict(meta)
        total = len(self.arrays["node_ptr"]) - 1
        rows = np.arange(total) if index is None else index
        self.index: NDArray[np.int64] = rows  # type: ignore[assignment]

    # -- building ---------------------------------------------------------------------------

    @classmethod
    def from_arrays(
        cls,
        *,
        node_ptr: ArrayLike,
        edge_ptr: ArrayLike,
        edge_index: ArrayLike,
        x: ArrayLike | None = None,
        edge_attr: ArrayLike | None = None,
        edge_weight: ArrayLike | None = None,
        y: ArrayLike | None = None,
        node_y: ArrayLike | None = None,
        node_truth: ArrayLike | None = None,
        edge_truth: ArrayLike | None = None,
        graph_fields: Mapping[str, ArrayLike] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> GraphStore:
        """Sort the caller's edges once and remember the order they came in.

        Args:
            node_ptr: [G + 1], first node of each graph.
            edge_ptr: [G + 1], first edge of each graph.
            edge_index: [2, E], source and destination, numbered within each graph, any order.
            x: [N, F] features, float or integer. edge_attr: [E, D] or [E].
            edge_weight: [E], what the message on each edge is multiplied with, beside attention.
            y: [G] or [G, T], labels of graphs; or node_y: [N] or [N, T], labels of nodes.
            node_truth: [N]. edge_truth: [E], 1 on edges of the true explanation.
            graph_fields: further arrays [G, …] or G texts, kept with each graph under their names.
            meta: plain values that belong to the data.
        """
        arrays, rows = sort_edges(node_ptr, edge_ptr, edge_index)
        graphs = len(arrays["undirected"])
        nodes, edges = int(arrays["node_ptr"][-1]), len(rows)
        if x is not None:
            arrays["x"] = as_matrix(x, nodes, "x", "node")
        if edge_attr is not None:
            arrays["edge_attr"] = as_matrix(edge_attr, edges, "edge_attr", "edge")[rows]
        if edge_weight is not None:
            weight = as_rows(edge_weight, edges, "edge_weight", "edge")
            if weight.ndim != 1:
                raise DataError(f"edge_weight must have shape [E], not {list(weight.shape)}")
            arrays["edge_weight"] = weight[rows].astype(np.float32)
        if y is not None and node_y is not None:
            raise DataError("either graphs have labels (y) or nodes have (node_y), not both")
        if node_y is not None:
            arrays["node_y"] = as_rows(node_y, nodes, "node_y", "node")
        if node_truth is not None:
            arrays["node_truth"] = as_rows(node_truth, nodes, "node_truth", "node")
        if edge_truth is not None:
            arrays["edge_truth"] = as_rows(edge_truth, edges, "edge_truth", "edge")[rows]
        if y is not None:
            arrays["y"] = as_rows(y, graphs, "y", "graph")
        for name, values in (graph_fields or {}).items():
            arrays[f"graph.{name}"] = as_rows(values, graphs, name, "graph")
        return cls(arrays, meta or {})

    # -- reading ----------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.index)

    @overload
    def __getitem__(self, position: int) -> Data: ...
    @overload
    def __getitem__(self, position: slice) -> GraphStore: ...
    def __getitem__(self, position: int | slice) -> Data | GraphStore:
        """Graph number ``position`` of this view as a PyG ``Data``, in the caller's edge order; of
        a slice, the view of those graphs."""
        from gsat.graphs.conversions import to_pyg

        if isinstance(position, slice):
            return self.select(range(*position.indices(len(self))))
        return to_pyg(self, position)

    def __iter__(self) -> Iterator[Data]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"GraphStore({len(self)} graphs, {self.num_nodes} nodes, {self.num_edges} edges)"

    def select(self, positions: ArrayLike) -> GraphStore:
        """A view of some graphs of this view, sharing the arrays; a negative number counts back."""
        return GraphStore(self.arrays, self.meta, self._rows(positions))

    def at_nodes(self, nodes: ArrayLike | None) -> GraphStore:
        """A view that asks for the answers of some nodes: the split of a node-level task.

        The graphs stay whole, so that messages flow as before; graphs without a chosen node are
        left out.

        Args:
            nodes: rows of the node arrays or a mask over all of them, or None for every node of
                the view's graphs.
        """
        if nodes is None:
            arrays = {name: values for name, values in self.arrays.items() if name != "targets"}
            return GraphStore(arrays, self.meta, self.index)
        ptr = self.arrays["node_ptr"]
        chosen = np.zeros(ptr[-1], dtype=bool)
        wanted = np.asarray(nodes)
        if wanted.dtype != bool:
            wanted = wanted.astype(np.int64)
            wrong = wanted[(wanted < 0) | (wanted >= len(chosen))]
            if len(wrong):
                raise DataError(
                    f"there is no node {int(wrong[0])}: rows of nodes are 0 to {len(chosen) - 1}"
                )
        elif wanted.shape != chosen.shape:
            raise DataError(f"a mask of {wanted.size} was given for {len(chosen)} nodes")
        chosen[wanted] = True
        before = np.concatenate([[0], np.cumsum(chosen)])[ptr]
        has_some = np.diff(before)[self.index] > 0
        return GraphStore({**self.arrays, "targets": chosen}, self.meta, self.index[has_some])

    def batch(self, positions: ArrayLike | None = None) -> GraphBatch:
        """Some graphs of this view (all by default) as one :class:`GraphBatch`."""
        from gsat.graphs.batch import gather

        return gather(self, self.index if positions is None else self._rows(positions))

    def _rows(self, positions: ArrayLike) -> NDArray[np.int64]:
        """Rows of the arrays for some graphs of this view: numbers, or a mask [len(self)]."""
        wanted = np.atleast_1d(np.asarray(positions))
        if wanted.dtype == bool:
            if wanted.shape != self.index.shape:
                raise DataError(f"a mask of {wanted.size} was given for {len(self)} graphs")
            return self.index[wanted]
        if wanted.size and wanted.dtype.kind not in "iu":
            raise DataError(f"graphs are chosen by whole numbers or a mask, not {wanted.dtype}")
        wanted = wanted.astype(np.int64)
        if wanted.size and (wanted.min() < -len(self) or wanted.max() >= len(self)):
            wrong = int(wanted.max() if wanted.max() >= len(self) else wanted.min())
            known = f"the graphs are 0 to {len(self) - 1}" if len(self) else "there are none"
            raise DataError(f"there is no graph {wrong}: {known}")
        return self.index[wanted]

    def batches(self, size: int, max_edges: int | None = None) -> Iterator[GraphBatch]:
        """The view in order, ``size`` graphs at a time.

        Args:
            max_edges: fewer graphs where they would have more edges than this together, so that
                memory stays bounded; a single graph is never cut.
        """
        ends = np.cumsum(self.edge_counts)
        start = 0
        while start < len(self):
            stop = min(start + size, len(self))
            if max_edges is not None:
                before = ends[start - 1] if start else 0
                fits = int(np.searchsorted(ends, before + max_edges, side="right"))
                stop = max(start + 1, min(stop, fits))
            yield self.batch(np.arange(start, stop))
            start = stop

    def per_graph(self, name: str) -> Array:
        """The rows of a per-graph array (``y``, ``undirected`` or an extra) for this view."""
        key = name if name in self.arrays else f"graph.{name}"
        if key not in self.arrays:
            raise DataError(f"these graphs carry no '{name}'")
        return self.arrays[key][self.index]

    def texts(self, name: str) -> list[str]:
        """A per-graph extra that is text (``smiles``), for this view."""
        rows = self.per_graph(name)
        if rows.dtype != np.uint8:
            raise DataError(f"'{name}' of these graphs is not text but {rows.dtype}")
        return decode(rows)

    def target_nodes(self) -> NDArray[np.int64]:
        """Rows of the node arrays whose answers this view asks for, graph after graph: all its
        nodes, or those that :meth:`at_nodes` chose."""
        nodes = ranges(self.arrays["node_ptr"][self.index], self.node_counts)
        return nodes[self.arrays["targets"][nodes]] if "targets" in self.arrays else nodes

    def target_places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The same nodes by graph (counted in this view) and number within the graph, [M] each."""
        nodes, counts = self.target_nodes(), self.node_counts
        first = self.arrays["node_ptr"][self.index]
        every = ranges(first, counts)
        graph = np.repeat(np.arange(len(self)), counts)
        if "targets" in self.arrays:
            graph = graph[self.arrays["targets"][every]]
        return graph, nodes - first[graph]

    def count(self, level: str) -> int:
        """How many answers this view asks for: graphs, or nodes when ``level`` is ``node``."""
        return len(self.target_nodes()) if level == "node" else len(self)

    def labels(self, level: str) -> Array:
        """Labels of the view, one row per graph, or per node asked for; the order of a batch."""
        name = "node_y" if level == "node" else "y"
        if name not in self.arrays:
            raise DataError(f"the graphs have no labels '{name}', one per {level}")
        return self.arrays[name][self.target_nodes() if level == "node" else self.index]

    def has(self, name: str) -> bool:
        """Whether the array ``name`` is there."""
        return name in self.arrays or f"graph.{name}" in self.arrays

    @property
    def node_counts(self) -> NDArray[np.int64]:
        """Nodes of each graph of this view."""
        ptr = self.arrays["node_ptr"]
        return ptr[self.index + 1] - ptr[self.index]

    @property
    def edge_counts(self) -> NDArray[np.int64]:
        """Stored (directed) edges of each graph of this view."""
        ptr = self.arrays["edge_ptr"]
        return ptr[self.index + 1] - ptr[self.index]

    @property
    def num_nodes(self) -> int:
        """Nodes of all graphs of this view."""
        return int(self.node_counts.sum())

    @property
    def num_edges(self) -> int:
        """Stored (directed) edges of all graphs of this view."""
        return int(self.edge_counts.sum())

    @property
    def num_features(self) -> int:
        """Columns of ``x``."""
        return self.arrays["x"].shape[1] if "x" in self.arrays else 0

    @property
    def num_edge_features(self) -> int:
        """Columns of ``edge_attr``; 0 when there is none."""
        return self.arrays["edge_attr"].shape[1] if "edge_attr" in self.arrays else 0

    def caller_order(self, values: Array) -> Array:
        """One value per edge of this view, from the stored order to the caller's order.

        Args:
            values: [E, …], the edges of the view graph after graph, in stored order.
        """
        ptr, counts = self.arrays["edge_ptr"], self.edge_counts
        order = self.arrays["order"][ranges(ptr[self.index], counts)].astype(np.int64)
        order += np.repeat(np.cumsum(counts) - counts, counts)
        out = np.empty_like(values)
        out[order] = values
        return out

    # -- disk -------------------------------------------------------------------------------

    def save(self, folder: str | Path) -> Path:
        """Write this view's graphs to ``folder`` as safetensors; returns the folder.

        Large stores are written in shards, a few hundred megabytes at a time.
        """
        from gsat.graphs.storage import save

        return save(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> GraphStore:
        """Open a folder written by :meth:`save` or :class:`ShardWriter`; the arrays of nodes and
        edges are memory-mapped, not read."""
        from gsat.graphs.storage import load

        return load(folder)

    def compact(self) -> GraphStore:
        """A copy that holds just the graphs of this view."""
        at_nodes = reader(ranges(self.arrays["node_ptr"][self.index], self.node_counts))
        at_edges = reader(ranges(self.arrays["edge_ptr"][self.index], self.edge_counts))
        arrays: dict[str, Array] = {}
        for name, values in self.arrays.items():
            if name in ("node_ptr", "edge_ptr"):
                counts = self.node_counts if name == "node_ptr" else self.edge_counts
                arrays[name] = np.concatenate([[0], np.cumsum(counts)])
            elif name in EDGE_ARRAYS:
                arrays[name] = at_edges(values)
            elif name in NODE_ARRAYS:
                arrays[name] = at_nodes(values)
            else:
                arrays[name] = values[self.index]
        return GraphStore(arrays, self.meta)

    def whole(self) -> GraphStore:
        """This view, or a copy of its graphs where its arrays hold others, too."""
        total = len(self.arrays["node_ptr"]) - 1
        return self if np.array_equal(self.index, np.arange(total)) else self.compact()


def ranges(starts: Array, counts: Array) -> NDArray[np.int64]:
    """``concatenate([arange(s, s + c) for s, c in zip(starts, counts)])`` without the loop."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - counts), counts) + np.arange(total)
