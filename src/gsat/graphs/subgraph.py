"""A part of each graph of a batch: some edges, and the nodes they touch."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gsat.graphs.batch import GraphBatch


def part_of(batch: GraphBatch, keep: Tensor) -> tuple[GraphBatch, Tensor]:
    """The batch with some of its edges and without the nodes that none of these touch.

    All graphs stay, some perhaps empty. Edges and nodes stay in their order, under their names for
    random draws; which nodes are asked for (``targets``) is left behind.

    Args:
        keep: [E] bool.

    Returns:
        The part, of N' nodes and E' edges, and its nodes in the batch [N'].
    """
    edges = keep.nonzero()[:, 0]
    touched = torch.zeros(batch.num_nodes, dtype=torch.bool, device=keep.device)
    touched[batch.src[edges]] = True
    touched[batch.dst[edges]] = True
    nodes = touched.nonzero()[:, 0]
    node_at, edge_at = touched.cumsum(0) - 1, keep.cumsum(0) - 1
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
        node_ptr=_ptr(node_graph, batch.num_graphs),
        edge_ptr=_ptr(edge_graph, batch.num_graphs),
        dst_ptr=_ptr(dst, len(nodes)),
        src_ptr=_ptr(src, len(nodes)),
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


def _ptr(group: Tensor, groups: int) -> Tensor:
    return torch.cat([group.new_zeros(1), torch.bincount(group, minlength=groups).cumsum(0)])
