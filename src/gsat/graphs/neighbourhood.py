"""Computation graphs: the nodes whose messages reach a node in some rounds of message passing."""

from __future__ import annotations

import torch
from torch import Tensor


def k_hop_nodes(edge_index: Tensor, nodes: Tensor, hops: int, num_nodes: int) -> Tensor:
    """Find the nodes whose messages arrive at given nodes in at most ``hops`` steps."""
    src, dst = edge_index
    nodes = nodes.to(edge_index.device)
    reached = torch.zeros(num_nodes, len(nodes), device=edge_index.device)
    reached[nodes, torch.arange(len(nodes), device=edge_index.device)] = 1.0
    for _ in range(hops):
        reached = reached.index_add(0, src, reached[dst]).clamp_(max=1.0)
    return reached > 0


def k_hop_edges(edge_index: Tensor, nodes: Tensor, hops: int, num_nodes: int) -> Tensor:
    """Find the edges of each node's computation graph: those between nodes that reach it."""
    reached = k_hop_nodes(edge_index, nodes, hops, num_nodes).T
    return reached[:, edge_index[0]] & reached[:, edge_index[1]]
