"""Subgraphs of the graphs of a batch: some edges and the nodes they touch, or some nodes."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gsat.graphs.batch import GraphBatch


def edge_subgraph(batch: GraphBatch, keep: Tensor) -> tuple[GraphBatch, Tensor]:
    """Keep some edges of a batch and the nodes they touch.

    All graphs stay, though some may be empty. Edges and nodes keep their order and their
    identifiers for random draws; the selection of nodes to predict (``targets``) is dropped.
    """
    touched = torch.zeros(batch.num_nodes, dtype=torch.bool, device=keep.device)
    touched[batch.src[keep]] = True
    touched[batch.dst[keep]] = True
    return subgraph(batch, touched, keep)


def node_subgraph(batch: GraphBatch, keep: Tensor) -> tuple[GraphBatch, Tensor]:
    """Keep some nodes of a batch and the edges between them.

    What :func:`edge_subgraph` says of the graphs, of order and of identifiers holds here, too.
    """
    return subgraph(batch, keep, keep[batch.src] & keep[batch.dst])


def subgraph(batch: GraphBatch, kept: Tensor, keep: Tensor) -> tuple[GraphBatch, Tensor]:
    """Keep some nodes of a batch and some of the edges between them.

    What :func:`edge_subgraph` says of the graphs, of order and of identifiers holds here, too.
    """
    edges, nodes = keep.nonzero()[:, 0], kept.nonzero()[:, 0]
    node_at, edge_at = kept.cumsum(0) - 1, keep.cumsum(0) - 1
    src, dst = node_at[batch.src[edges]], node_at[batch.dst[edges]]
    pair = batch.pair[edges]
    node_graph, edge_graph = batch.node_graph[nodes], batch.edge_graph[edges]

    def at(values: Tensor | None, rows: Tensor) -> Tensor | None:
        return None if values is None else values[rows]

    part = replace(
        batch,
        x=batch.x[nodes],
        src=src,
        dst=dst,
        by_src=edge_at[batch.by_src[keep[batch.by_src]]],
        pair=torch.where(keep[pair], edge_at[pair], torch.arange(len(edges), device=keep.device)),
        node_ptr=_pointer(node_graph, batch.num_graphs),
        edge_ptr=_pointer(edge_graph, batch.num_graphs),
        dst_ptr=_pointer(dst, len(nodes)),
        src_ptr=_pointer(src, len(nodes)),
        node_graph=node_graph,
        edge_graph=edge_graph,
        node_id=batch.node_id[nodes],
        edge_id=batch.edge_id[edges],
        by_caller=edge_at[batch.by_caller[keep[batch.by_caller]]],
        edge_attr=at(batch.edge_attr, edges),
        edge_weight=at(batch.edge_weight, edges),
        targets=None,
        node_truth=at(batch.node_truth, nodes),
        edge_truth=at(batch.edge_truth, edges),
    )
    return part, nodes


def _pointer(group: Tensor, groups: int) -> Tensor:
    return torch.cat([group.new_zeros(1), torch.bincount(group, minlength=groups).cumsum(0)])
