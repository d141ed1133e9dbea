"""`GraphBatch`: several graphs of a store as one block-diagonal graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.graphs.build import offsets, ranges
from gsat.graphs.sharded_array import Array, Column, row_reader


@dataclass(frozen=True, repr=False)
class GraphBatch:
    """``B`` graphs as one block-diagonal graph of ``N`` nodes and ``E`` edges.

    Edges are sorted by destination, so ``dst_ptr[v]:dst_ptr[v + 1]`` are the edges into node ``v``;
    ``by_src[src_ptr[u]:src_ptr[u + 1]]`` are the edges out of node ``u``. Optional tensors are
    ``None`` if the store does not have them.

    Attributes:
        x: Node features, ``[N, F]``.
        src: Source of each edge, ``[E]`` long.
        dst: Destination of each edge, ``[E]`` long.
        by_src: The edges sorted by source, ``[E]`` long.
        pair: The edge with which each edge's attention is averaged, ``[E]`` long: the reverse edge
            in an undirected graph, the edge itself in a directed one.
        node_ptr: First node of each graph, ``[B + 1]``.
        edge_ptr: First edge of each graph, ``[B + 1]``.
        dst_ptr: First edge into each node, ``[N + 1]``.
        src_ptr: First place in ``by_src`` of each node, ``[N + 1]``.
        node_graph: Graph of each node within the batch, ``[N]``.
        edge_graph: Graph of each edge within the batch, ``[E]``.
        node_id: Key of each node for random draws, ``[N]`` long, the same in every batch.
        edge_id: Key of each edge for random draws, ``[E]`` long, the same in every batch.
        by_caller: The edges as the user listed them, graph after graph, ``[E]`` long.
        graph_row: Row of each graph in the store, ``[B]`` long.
        undirected: Whether each graph is undirected, ``[B]`` bool.
        edge_attr: Edge attributes, ``[E, D]``, optional.
        edge_weight: A constant factor of each edge's message, ``[E]``, optional.
        targets: The nodes to predict in a node-level task, ``[M]`` long; ``None`` for all.
        y: Labels of graphs, ``[B]`` or ``[B, T]``, or of nodes, ``[M]`` or ``[M, T]``, optional.
        node_truth: True explanation by node, ``[N]``, optional.
        edge_truth: True explanation by edge, ``[E]``, optional.
    """

    x: Tensor
    src: Tensor
    dst: Tensor
    by_src: Tensor
    pair: Tensor
    node_ptr: Tensor
    edge_ptr: Tensor
    dst_ptr: Tensor
    src_ptr: Tensor
    node_graph: Tensor
    edge_graph: Tensor
    node_id: Tensor
    edge_id: Tensor
    by_caller: Tensor
    graph_row: Tensor
    undirected: Tensor
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None
    targets: Tensor | None = None
    y: Tensor | None = None
    node_truth: Tensor | None = None
    edge_truth: Tensor | None = None

    @property
    def num_graphs(self) -> int:
        """Graphs of the batch, ``B``."""
        return len(self.graph_row)

    @property
    def num_nodes(self) -> int:
        """Nodes of the batch, ``N``."""
        return len(self.x)

    @property
    def num_edges(self) -> int:
        """Edges of the batch, ``E``."""
        return len(self.src)

    @property
    def edge_index(self) -> Tensor:
        """Sources and destinations, ``[2, E]``, in stored order."""
        return torch.stack([self.src, self.dst])

    def __repr__(self) -> str:
        """The sizes of the batch, and the shapes of features, labels and true explanations."""
        counts = [(self.num_graphs, "graph"), (self.num_nodes, "node"), (self.num_edges, "edge")]
        parts = [f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts]
        for name in ("x", "edge_attr", "edge_weight", "targets", "y", "node_truth", "edge_truth"):
            if (value := getattr(self, name)) is not None:
                parts.append(f"{name}={list(value.shape)}")
        device = "" if self.x.device.type == "cpu" else f", device={self.x.device}"
        return f"GraphBatch({', '.join(parts)}{device})"

    def weighted(self, attention: Tensor | None) -> Tensor | None:
        """Multiply attention by the edge weights of the data.

        Args:
            attention: Attention of each edge, ``[E]``, or ``None`` for ones.

        Returns:
            The factors of the messages, ``[E]``, or ``None`` for ones.
        """
        if attention is None or self.edge_weight is None:
            return self.edge_weight if attention is None else attention
        return attention * self.edge_weight

    def at_targets(self, values: Tensor) -> Tensor:
        """Select the rows of the nodes to predict: ``[N, …]`` to ``[M, …]``."""
        return values if self.targets is None else values[self.targets]

    def to(self, device: torch.device | str) -> GraphBatch:
        """Move the batch to a device."""
        if self.x.device == torch.device(device):
            return self
        moved = {
            f.name: value.to(device)
            for f in fields(self)
            if (value := getattr(self, f.name)) is not None
        }
        return replace(self, **moved)


def gather(arrays: Mapping[str, Column], rows: NDArray[np.int64]) -> GraphBatch:
    """Gather the graphs in some rows of a store's arrays into a batch."""
    node_first, edge_first = arrays["node_ptr"][rows], arrays["edge_ptr"][rows]
    node_count = arrays["node_ptr"][rows + 1] - node_first
    edge_count = arrays["edge_ptr"][rows + 1] - edge_first
    nodes, edges = ranges(node_first, node_count), ranges(edge_first, edge_count)
    at_nodes, at_edges = row_reader(nodes), row_reader(edges)
    node_ptr, edge_ptr = offsets(node_count), offsets(edge_count)
    graphs = np.arange(len(rows))
    node_graph, edge_graph = np.repeat(graphs, node_count), np.repeat(graphs, edge_count)

    shift = np.repeat(node_ptr[:-1], edge_count)
    src, dst = at_edges(arrays["src"]) + shift, at_edges(arrays["dst"]) + shift
    by_src = at_edges(arrays["by_src"]) + np.repeat(edge_ptr[:-1], edge_count)
    by_caller = np.empty(len(edges), dtype=np.int64)
    order = at_edges(arrays["order"]) + np.repeat(edge_ptr[:-1], edge_count)
    by_caller[order] = np.arange(len(edges))
    undirected = arrays["undirected"][rows]
    pair = np.where(undirected[edge_graph], by_src, np.arange(len(edges)))
    total = int(node_ptr[-1])

    x = at_nodes(arrays["x"]) if "x" in arrays else np.ones((total, 1), dtype=np.float32)
    if x.dtype == np.float16:
        x = x.astype(np.float32)

    def optional(name: str, read: Callable[[Column], Array]) -> Tensor | None:
        return torch.from_numpy(read(arrays[name])) if name in arrays else None

    targets = np.flatnonzero(at_nodes(arrays["targets"])) if "targets" in arrays else None
    if "node_y" in arrays:
        y = optional("node_y", at_nodes if targets is None else row_reader(nodes[targets]))
    else:
        y = optional("y", row_reader(rows))
    return GraphBatch(
        x=torch.from_numpy(x),
        src=torch.from_numpy(src),
        dst=torch.from_numpy(dst),
        by_src=torch.from_numpy(by_src),
        pair=torch.from_numpy(pair),
        node_ptr=torch.from_numpy(node_ptr),
        edge_ptr=torch.from_numpy(edge_ptr),
        dst_ptr=torch.from_numpy(offsets(np.bincount(dst, minlength=total))),
        src_ptr=torch.from_numpy(offsets(np.bincount(src, minlength=total))),
        node_graph=torch.from_numpy(node_graph),
        edge_graph=torch.from_numpy(edge_graph),
        node_id=torch.from_numpy(_identifiers(rows, node_graph, node_ptr)),
        edge_id=torch.from_numpy(_identifiers(rows, edge_graph, edge_ptr)),
        by_caller=torch.from_numpy(by_caller),
        graph_row=torch.from_numpy(rows.copy()),
        undirected=torch.from_numpy(undirected),
        edge_attr=optional("edge_attr", at_edges),
        edge_weight=optional("edge_weight", at_edges),
        targets=None if targets is None else torch.from_numpy(targets),
        y=y,
        node_truth=optional("node_truth", at_nodes),
        edge_truth=optional("edge_truth", at_edges),
    )


def _identifiers(rows: Array, graph: Array, ptr: Array) -> NDArray[np.int64]:
    """Pack (graph in the store, position in the graph) into one number each."""
    position = np.arange(len(graph)) - ptr[graph]
    return (rows[graph] << 32) + position
