"""Computation graphs: whose messages reach a node in some rounds of message passing."""

from __future__ import annotations

import torch
from torch import Tensor


def within(edge_index: Tensor, nodes: Tensor, hops: int, num_nodes: int) -> Tensor:
    """Which nodes' messages arrive at a node in at most ``hops`` steps, itself included.

    Args:
        edge_index: [2, E]; messages flow from the first row to the second. nodes: [M].

    Returns:
        [num_nodes, M] bool.
    """
    src, dst = edge_index
    nodes = nodes.to(edge_index.device)
    reached = torch.zeros(num_nodes, len(nodes), device=edge_index.device)
    reached[nodes, torch.arange(len(nodes), device=edge_index.device)] = 1.0
    for _ in range(hops):
        reached = reached.index_add(0, src, reached[dst]).clamp_(max=1.0)
    return reached > 0


def edges_within(edge_index: Tensor, nodes: Tensor, hops: int, num_nodes: int) -> Tensor:
    """The edges of each node's computation graph: those among the nodes of :func:`within`.

    Returns:
        [M, E] bool.
    """
    reached = within(edge_index, nodes, hops, num_nodes).T
    return reached[:, edge_index[0]] & reached[:, edge_index[1]]
