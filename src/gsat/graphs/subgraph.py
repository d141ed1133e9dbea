"""Subgraphs of a batch, and the nodes and edges that can influence a node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gsat.graphs.batch import GraphBatch


def edge_subgraph(batch: GraphBatch, keep: Tensor) -> tuple[GraphBatch, Tensor]:
    """Keep the edges of a mask and their end nodes; see :func:`subgraph`."""
    touched = torch.zeros(batch.num_nodes, dtype=torch.bool, device=keep.device)
    touched[batch.src[keep]] = True
    touched[batch.dst[keep]] = True
    return subgraph(batch, touched, keep)


def node_subgraph(batch: GraphBatch, keep: Tensor) -> tuple[GraphBatch, Tensor]:
    """Keep the nodes of a mask and the edges between them; see :func:`subgraph`."""
    return subgraph(batch, keep, keep[batch.src] & keep[batch.dst])


def subgraph(
    batch: GraphBatch, keep_nodes: Tensor, keep_edges: Tensor
) -> tuple[GraphBatch, Tensor]:
    """Keep the nodes and edges of two masks; returns the subgraphs and the kept nodes.

    All graphs stay, possibly empty. Nodes and edges keep their order and their identifiers for
    random draws; the selection of nodes to predict (``targets``) is dropped.
    """
    nodes, edges = keep_nodes.nonzero()[:, 0], keep_edges.nonzero()[:, 0]
    new_node, new_edge = keep_nodes.cumsum(0) - 1, keep_edges.cumsum(0) - 1
    src, dst = new_node[batch.src[edges]], new_node[batch.dst[edges]]
    pair, itself = batch.pair[edges], torch.arange(len(edges), device=keep_edges.device)
    node_graph, edge_graph = batch.node_graph[nodes], batch.edge_graph[edges]
    rows = {"x": nodes, "node_id": nodes, "node_truth": nodes, "edge_id": edges,
            "edge_attr": edges, "edge_weight": edges, "edge_truth": edges}  # fmt: skip
    selected: dict[str, Any] = {
        name: None if (values := getattr(batch, name)) is None else values[at]
        for name, at in rows.items()
    }
    part = replace(
        batch,
        src=src,
        dst=dst,
        by_src=new_edge[batch.by_src[keep_edges[batch.by_src]]],
        pair=torch.where(keep_edges[pair], new_edge[pair], itself),
        node_ptr=_pointer(node_graph, batch.num_graphs),
        edge_ptr=_pointer(edge_graph, batch.num_graphs),
        dst_ptr=_pointer(dst, len(nodes)),
        src_ptr=_pointer(src, len(nodes)),
        node_graph=node_graph,
        edge_graph=edge_graph,
        by_caller=new_edge[batch.by_caller[keep_edges[batch.by_caller]]],
        targets=None,
        **selected,
    )
    return part, nodes


def k_hop_nodes(edge_index: Tensor, nodes: Tensor, hops: int, num_nodes: int) -> Tensor:
    """Nodes whose messages reach each given node within ``hops`` steps, a mask ``[N, nodes]``."""
    src, dst = edge_index
    nodes = nodes.to(edge_index.device)
    reached = torch.zeros(num_nodes, len(nodes), device=edge_index.device)
    reached[nodes, torch.arange(len(nodes), device=edge_index.device)] = 1.0
    for _ in range(hops):
        reached = reached.index_add(0, src, reached[dst]).clamp_(max=1.0)
    return reached > 0


def k_hop_edges(edge_index: Tensor, nodes: Tensor, hops: int, num_nodes: int) -> Tensor:
    """Edges of each node's computation graph, a mask ``[nodes, E]``."""
    reached = k_hop_nodes(edge_index, nodes, hops, num_nodes).T
    return reached[:, edge_index[0]] & reached[:, edge_index[1]]


def _pointer(group: Tensor, groups: int) -> Tensor:
    return torch.cat([group.new_zeros(1), torch.bincount(group, minlength=groups).cumsum(0)])
