"""`GraphStore`: a data set in flat arrays.

Edges are sorted by graph, destination and source, so that the edges into a node are one slice. The
store also holds the order by source, for the backward pass, and each edge's position in the user's
list: results are returned in the user's order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gsat.core.errors import DataError
from gsat.graphs import storage
from gsat.graphs.array_table import EDGE_ARRAYS, NODE_ARRAYS
from gsat.graphs.batch import GraphBatch, gather
from gsat.graphs.build import build_arrays, graph_rows, node_mask, offsets, portions, ranges
from gsat.graphs.sharded_array import Array, Column, row_reader
from gsat.graphs.texts import decode_texts

if TYPE_CHECKING:
    from torch_geometric.data import Data


class GraphStore(Sequence["Data"]):
    """Graphs in flat arrays; a split is a view of the same arrays.

    Build one with :meth:`from_arrays`, :func:`gsat.graphs.from_pyg` or
    :func:`gsat.graphs.from_networkx`. ``store[i]`` is a PyG ``Data`` in the user's edge order;
    ``store.batch(ids)`` is a :class:`GraphBatch`.

    The arrays are ``node_ptr`` and ``edge_ptr`` ``[G + 1]``; ``src``, ``dst``, ``by_src`` and
    ``order`` ``[E]``, numbered within each graph; ``undirected`` ``[G]``; and, optionally, ``x``
    ``[N, F]``, ``edge_attr`` ``[E, D]``, ``edge_weight`` ``[E]``, ``y`` ``[G]`` or ``[G, T]`` (or
    else ``node_y`` ``[N]`` or ``[N, T]``), ``node_truth`` and ``node_sign`` ``[N]``, ``edge_truth``
    ``[E]`` and ``targets`` ``[N]``, the nodes that :meth:`at_nodes` selected. Further per-graph
    arrays are named ``graph.NAME``; texts are stored as bytes. ``graph.split`` and ``node_split``
    contain 0 for train, 1 for valid, 2 for test and −1 for none. Arrays of nodes and edges in
    several files are a :class:`~gsat.graphs.sharded_array.ShardedArray`, which is indexed by rows.

    Attributes:
        arrays: The flat arrays by name.
        meta: Plain values stored with the data, such as ``classes`` and ``node_types``.
        index: Rows of this view's graphs in the arrays, ``[len(self)]``.
    """

    def __init__(
        self, arrays: Mapping[str, Column], meta: Mapping[str, Any], index: Array | None = None
    ) -> None:
        self.arrays: dict[str, Column] = dict(arrays)
        self.meta = dict(meta)
        total = len(self.arrays["node_ptr"]) - 1
        rows = np.arange(total) if index is None else index
        self.index: NDArray[np.int64] = rows  # type: ignore[assignment]

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
        """Build a store from flat arrays; edges may be in any order.

        Args:
            node_ptr: First node of each graph, ``[G + 1]``.
            edge_ptr: First edge of each graph, ``[G + 1]``.
            edge_index: Sources and destinations, ``[2, E]``, numbered within each graph.
            x: Node features, ``[N, F]`` or ``[N]``, float or integer. (default: none)
            edge_attr: Edge attributes, ``[E, D]`` or ``[E]``. (default: none)
            edge_weight: Factors that multiply the edges' messages, ``[E]``. (default: none)
            y: Labels of graphs, ``[G]`` or ``[G, T]``. (default: none)
            node_y: Labels of nodes instead of ``y``, ``[N]`` or ``[N, T]``. (default: none)
            node_truth: 1 for nodes of the true explanation, ``[N]``. (default: none)
            edge_truth: 1 for edges of the true explanation, ``[E]``. (default: none)
            graph_fields: Further arrays by name, ``[G, …]`` or ``G`` texts. (default: none)
            meta: Plain values to store with the data, such as ``classes``. (default: none)

        Raises:
            DataError: If shapes of arrays disagree, or an edge leaves its graph.

        Example:
            >>> store = GraphStore.from_arrays(  # a triangle and a single edge
            ...     node_ptr=[0, 3, 5],
            ...     edge_ptr=[0, 3, 4],
            ...     edge_index=[[0, 1, 2, 0], [1, 2, 0, 1]],
            ...     y=[1, 0],
            ... )
            >>> store
            GraphStore(2 graphs, 5 nodes, 4 edges)
            >>> store[1].edge_index.tolist()
            [[0], [1]]
        """
        arrays = build_arrays(
            *(node_ptr, edge_ptr, edge_index),
            nodes={"x": x, "node_y": node_y, "node_truth": node_truth},
            edges={"edge_attr": edge_attr, "edge_weight": edge_weight, "edge_truth": edge_truth},
            graphs={"y": y, **{f"graph.{k}": v for k, v in (graph_fields or {}).items()}},
        )
        return cls(arrays, meta or {})

    def __len__(self) -> int:
        return len(self.index)

    @overload
    def __getitem__(self, position: int) -> Data: ...
    @overload
    def __getitem__(self, position: slice) -> GraphStore: ...
    def __getitem__(self, position: int | slice) -> Data | GraphStore:
        """One graph of this view as a PyG ``Data``, in the user's edge order; or a slice of it."""
        if isinstance(position, slice):
            return self.select(range(*position.indices(len(self))))
        return next(self.select([position]).each_pyg())

    def __iter__(self) -> Iterator[Data]:
        return (self[i] for i in range(len(self)))

    def each_pyg(self, kind: type[Data] | None = None) -> Iterator[Data]:
        """Iterate over the graphs as PyG ``Data``, which are gathered in one batch.

        Edges are in the user's order; further per-graph arrays become attributes of the same name.

        Args:
            kind: Subclass of ``Data`` to make. (default: ``Data``)
        """
        from torch_geometric.data import Data

        view = self.at_nodes(None)
        batch = view.batch()
        order = torch.from_numpy(view.caller_order(np.arange(batch.num_edges)))
        signs = None
        if "node_sign" in self.arrays:
            signs = torch.from_numpy(np.asarray(self.arrays["node_sign"][view.target_nodes()]))
        per_node = {
            "x": batch.x if self.has("x") else None,
            "node_truth": batch.node_truth,
            "node_sign": signs,
            "node_y": batch.y if self.has("node_y") else None,
        }
        per_edge = {
            name: None if (values := getattr(batch, name)) is None else values[order]
            for name in ("edge_attr", "edge_weight", "edge_truth")
        }
        per_graph, texts = {"y": None if self.has("node_y") else batch.y}, {}
        for name in self.arrays:
            if name.startswith("graph."):
                column, short = view.per_graph(name), name.removeprefix("graph.")
                if column.dtype == np.uint8:
                    texts[short] = decode_texts(column)
                else:
                    per_graph[short] = torch.from_numpy(column)
        index = batch.edge_index[:, order]
        nodes, edges = batch.node_ptr.tolist(), batch.edge_ptr.tolist()
        for place in range(batch.num_graphs):
            of_nodes = slice(nodes[place], nodes[place + 1])
            of_edges = slice(edges[place], edges[place + 1])
            data = (kind or Data)(
                edge_index=index[:, of_edges] - of_nodes.start,
                num_nodes=of_nodes.stop - of_nodes.start,
            )
            for rows, columns in (
                (of_nodes, per_node),
                (of_edges, per_edge),
                (slice(place, place + 1), per_graph),
            ):
                for name, values in columns.items():
                    if values is not None:
                        data[name] = values[rows].clone()  # does not keep the batch alive
            for name, listed in texts.items():
                data[name] = listed[place]
            yield data

    def __repr__(self) -> str:
        return f"GraphStore({len(self)} graphs, {self.num_nodes} nodes, {self.num_edges} edges)"

    def select(self, positions: ArrayLike) -> GraphStore:
        """Select graphs of this view.

        Args:
            positions: Positions of graphs, negative ones from the end, or a mask ``[len(self)]``.

        Returns:
            A view that shares the arrays.

        Raises:
            DataError: If a position is out of range, or the mask has another length.
        """
        return GraphStore(self.arrays, self.meta, graph_rows(positions, self.index))

    def at_nodes(self, nodes: ArrayLike | None) -> GraphStore:
        """Select the nodes to predict, such as the training nodes of a node-level task.

        The graphs stay complete, so that messages do not change; graphs without a selected node are
        left out.

        Args:
            nodes: Rows of the node arrays, a mask ``[N]``, or ``None`` for all nodes.

        Returns:
            A view that shares the arrays.

        Raises:
            DataError: If a row is out of range, or the mask has another length.
        """
        if nodes is None:
            arrays = {name: values for name, values in self.arrays.items() if name != "targets"}
            return GraphStore(arrays, self.meta, self.index)
        ptr = self.arrays["node_ptr"]
        mask = node_mask(nodes, int(ptr[-1]))
        count = np.diff(offsets(mask)[ptr])[self.index]
        return GraphStore({**self.arrays, "targets": mask}, self.meta, self.index[count > 0])

    def batch(self, positions: ArrayLike | None = None) -> GraphBatch:
        """Gather graphs of this view into one :class:`GraphBatch`.

        Args:
            positions: Positions of graphs, or a mask ``[len(self)]``. (default: all graphs)
        """
        rows = self.index if positions is None else graph_rows(positions, self.index)
        return gather(self.arrays, rows)

    def batches(self, size: int, max_edges: int | None = None) -> Iterator[GraphBatch]:
        """Iterate over this view in order, in batches.

        Args:
            size: Graphs per batch.
            max_edges: Maximum number of edges per batch, which bounds memory. A larger graph gets
                a batch of its own. (default: no limit)
        """
        limit = math.inf if max_edges is None else max_edges
        for part in portions(self.edge_counts, limit, most=size):
            yield gather(self.arrays, self.index[part])

    def per_graph(self, name: str) -> Array:
        """The rows of a per-graph array for this view, ``[len(self), …]``.

        Args:
            name: ``y``, ``undirected`` or the name of a further array.

        Raises:
            DataError: If the store has no such array.
        """
        key = name if name in self.arrays else f"graph.{name}"
        if key not in self.arrays:
            raise DataError(f"these graphs carry no '{name}'")
        return self.arrays[key][self.index]

    def texts(self, name: str) -> list[str]:
        """The texts of a per-graph array, such as ``smiles``, for this view.

        Raises:
            DataError: If the store has no such array, or it contains numbers.
        """
        rows = self.per_graph(name)
        if rows.dtype != np.uint8:
            raise DataError(f"'{name}' of these graphs is not text but {rows.dtype}")
        return decode_texts(rows)

    def target_nodes(self) -> NDArray[np.int64]:
        """Rows of the nodes to predict: all, or those that :meth:`at_nodes` selected, ``[M]``."""
        nodes = ranges(self.arrays["node_ptr"][self.index], self.node_counts)
        return nodes[self.arrays["targets"][nodes]] if "targets" in self.arrays else nodes

    def target_places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The nodes to predict: graph in this view and position within the graph, ``[M]`` each."""
        first, counts = self.arrays["node_ptr"][self.index], self.node_counts
        graph = np.repeat(np.arange(len(self)), counts)
        if "targets" in self.arrays:
            graph = graph[self.arrays["targets"][ranges(first, counts)]]
        return graph, self.target_nodes() - first[graph]

    def count(self, level: str) -> int:
        """Number of predictions for this view, of level ``"graph"`` or ``"node"``."""
        return len(self.target_nodes()) if level == "node" else len(self)

    def labels(self, level: str) -> Array:
        """Labels of this view, in the order of a batch.

        Args:
            level: ``"graph"``, or ``"node"`` for the labels of :meth:`target_nodes`.

        Raises:
            DataError: If the store has no such labels.
        """
        name = "node_y" if level == "node" else "y"
        if name not in self.arrays:
            raise DataError(f"the graphs have no labels '{name}', one per {level}")
        return self.arrays[name][self.target_nodes() if level == "node" else self.index]

    def has(self, name: str) -> bool:
        """Whether the store has an array ``NAME`` or ``graph.NAME``."""
        return name in self.arrays or f"graph.{name}" in self.arrays

    @property
    def node_counts(self) -> NDArray[np.int64]:
        """Nodes of each graph of this view, ``[len(self)]``."""
        ptr = self.arrays["node_ptr"]
        return ptr[self.index + 1] - ptr[self.index]

    @property
    def edge_counts(self) -> NDArray[np.int64]:
        """Stored (directed) edges of each graph of this view, ``[len(self)]``."""
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
        """Columns of ``x``; 0 if there is none."""
        return self.arrays["x"].shape[1] if "x" in self.arrays else 0

    @property
    def num_edge_features(self) -> int:
        """Columns of ``edge_attr``; 0 if there is none."""
        return self.arrays["edge_attr"].shape[1] if "edge_attr" in self.arrays else 0

    def caller_order(self, values: Array) -> Array:
        """Reorder one value per edge of this view from the stored order to the user's."""
        ptr, counts = self.arrays["edge_ptr"], self.edge_counts
        order = self.arrays["order"][ranges(ptr[self.index], counts)].astype(np.int64)
        order += np.repeat(np.cumsum(counts) - counts, counts)
        out = np.empty_like(values)
        out[order] = values
        return out

    def save(self, folder: str | Path) -> Path:
        """Write the graphs of this view as safetensors files, and return the folder.

        Args:
            folder: Created if missing; a previous store in it is replaced.
        """
        return storage.save(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> GraphStore:
        """Open a folder that :meth:`save` or :class:`~gsat.graphs.ShardWriter` wrote.

        Arrays of nodes and edges are memory-mapped, not read.

        Raises:
            DataError: If the folder contains no store, or a file is damaged.
        """
        return cls(*storage.load(folder))

    def compact(self) -> GraphStore:
        """Copy the graphs of this view into a new store."""
        at_nodes = row_reader(ranges(self.arrays["node_ptr"][self.index], self.node_counts))
        at_edges = row_reader(ranges(self.arrays["edge_ptr"][self.index], self.edge_counts))
        arrays: dict[str, Array] = {}
        for name, values in self.arrays.items():
            if name in ("node_ptr", "edge_ptr"):
                counts = self.node_counts if name == "node_ptr" else self.edge_counts
                arrays[name] = offsets(counts)
            elif name in EDGE_ARRAYS:
                arrays[name] = at_edges(values)
            elif name in NODE_ARRAYS:
                arrays[name] = at_nodes(values)
            else:
                arrays[name] = values[self.index]
        return GraphStore(arrays, self.meta)

    def whole(self) -> GraphStore:
        """This store if it is a view of all graphs in order, else :meth:`compact`."""
        total = len(self.arrays["node_ptr"]) - 1
        return self if np.array_equal(self.index, np.arange(total)) else self.compact()
