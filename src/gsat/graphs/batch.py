"""`GraphBatch`: some graphs of a store side by side, gathered without a Python loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.graphs.sharded_array import reader
from gsat.graphs.store import ranges

if TYPE_CHECKING:
    from gsat.graphs.sharded_array import Array, Column
    from gsat.graphs.store import GraphStore


@dataclass(frozen=True)
class GraphBatch:
    """B graphs as one block-diagonal graph of N nodes and E edges.

    Edges are sorted by destination, so ``dst_ptr[v]:dst_ptr[v + 1]`` are the edges into node v;
    ``by_src[src_ptr[u]:src_ptr[u + 1]]`` are the edges out of node u.

    Attributes:
        x: [N, F] node features. edge_attr: [E, D] or None. edge_weight: [E] or None, a factor of
            each edge's message that comes with the data; see :meth:`weighted`.
        src, dst: [E] long. by_src: [E] long, the edges sorted by source.
        pair: [E] long, the edge whose attention is averaged with this one's: the reverse edge on
            an undirected graph, the edge itself on a directed one.
        node_ptr, edge_ptr: [B + 1]. dst_ptr, src_ptr: [N + 1].
        node_graph: [N], edge_graph: [E], the graph each belongs to, counted within the batch.
        node_id, edge_id: [N], [E] long; names that stay the same in any batch, for random draws.
        by_caller: [E] long, the edges as the caller listed them, graph after graph.
        graph_row: [B] long, rows of the store. undirected: [B] bool.
        targets: [M] long, the nodes whose answers are asked for at node level; None for all.
        y: [B] or [B, T], or at node level [M] or [M, T]; node_truth: [N]; edge_truth: [E]; each
            None when the store has none.
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
        """B."""
        return len(self.graph_row)

    @property
    def num_nodes(self) -> int:
        """N."""
        return len(self.x)

    @property
    def num_edges(self) -> int:
        """E."""
        return len(self.src)

    @property
    def edge_index(self) -> Tensor:
        """[2, E], sources and destinations, in stored order."""
        return torch.stack([self.src, self.dst])

    def weighted(self, attention: Tensor | None) -> Tensor | None:
        """What messages are multiplied with [E]: attention times the data's own edge weights.

        None, for all ones, where there is neither.
        """
        if attention is None or self.edge_weight is None:
            return self.edge_weight if attention is None else attention
        return attention * self.edge_weight

    def at_targets(self, values: Tensor) -> Tensor:
        """Values of all nodes [N, …] to those of the nodes asked for [M, …]."""
        return values if self.targets is None else values[self.targets]

    def to(self, device: torch.device | str) -> GraphBatch:
        """The batch on another device."""
        if self.x.device == torch.device(device):
            return self
        moved = {
            f.name: value.to(device)
            for f in fields(self)
            if (value := getattr(self, f.name)) is not None
        }
        return replace(self, **moved)


def gather(store: GraphStore, rows: NDArray[np.int64]) -> GraphBatch:
    """The graphs in ``rows`` of the store's arrays, as one batch."""
    arrays = store.arrays
    node_first, edge_first = arrays["node_ptr"][rows], arrays["edge_ptr"][rows]
    node_count = arrays["node_ptr"][rows + 1] - node_first
    edge_count = arrays["edge_ptr"][rows + 1] - edge_first
    nodes, edges = ranges(node_first, node_count), ranges(edge_first, edge_count)
    at_nodes, at_edges = reader(nodes), reader(edges)
    node_ptr, edge_ptr = _offsets(node_count), _offsets(edge_count)
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
        y = optional("node_y", at_nodes if targets is None else reader(nodes[targets]))
    else:
        y = optional("y", reader(rows))
    return GraphBatch(
        x=torch.from_numpy(x),
        src=torch.from_numpy(src),
        dst=torch.from_numpy(dst),
        by_src=torch.from_numpy(by_src),
        pair=torch.from_numpy(pair),
        node_ptr=torch.from_numpy(node_ptr),
        edge_ptr=torch.from_numpy(edge_ptr),
        dst_ptr=torch.from_numpy(_offsets(np.bincount(dst, minlength=total))),
        src_ptr=torch.from_numpy(_offsets(np.bincount(src, minlength=total))),
        node_graph=torch.from_numpy(node_graph),
        edge_graph=torch.from_numpy(edge_graph),
        node_id=torch.from_numpy(_names(rows, node_graph, node_ptr)),
        edge_id=torch.from_numpy(_names(rows, edge_graph, edge_ptr)),
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


def _offsets(counts: Array) -> NDArray[np.int64]:
    out = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=out[1:])
    return out


def _names(rows: Array, graph: Array, ptr: Array) -> NDArray[np.int64]:
    # (graph in the store, position in the graph) in one number.
    position = np.arange(len(graph)) - ptr[graph]
    return (rows[graph] << 32) + position
