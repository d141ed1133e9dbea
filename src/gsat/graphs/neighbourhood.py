"""Computation graphs: the nodes whose messages reach a node in some rounds of message passing."""

from __future__ import annotations

import torch
from torch import Tensor


def k_hop_nodes(edge_index: Tensor, nodes: Tensor, hops: int, num_nodes: int) -> Tensor:
    """Find the nodes whose messages arrive at given nodes in at most ``hops`` steps.

    Args:
        edge_index: Edges, ``[2, E]``; messages flow from the first row to the second.
        nodes: The nodes at which messages arrive, ``[M]``.
        hops: Rounds of message passing.
        num_nodes: Nodes of the graph, ``N``.

    Returns:
        Which nodes reach which, ``[N, M]`` bool; a node reaches itself.

    Example:
        >>> chain = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> k_hop_nodes(chain, torch.tensor([3]), hops=2, num_nodes=4)[:, 0].tolist()
        [False, True, True, True]
    """
    src, dst = edge_index
    nodes = nodes.to(edge_index.device)
    reached = torch.zeros(num_nodes, len(nodes), device=edge_index.device)
    reached[nodes, torch.arange(len(nodes), device=edge_index.device)] = 1.0
    for _ in range(hops):
        reached = reached.index_add(0, src, reached[dst]).clamp_(max=1.0)
    return reached > 0


def k_hop_edges(edge_index: Tensor, nodes: Tensor, hops: int, num_nodes: int) -> Tensor:
    """Find the edges of each node's computation graph: those between nodes that reach it.

    Args:
        edge_index: Edges, ``[2, E]``; messages flow from the first row to the second.
        nodes: The nodes at which messages arrive, ``[M]``.
        hops: Rounds of message passing.
        num_nodes: Nodes of the graph.

    Returns:
        Which edges belong to which node's computation graph, ``[M, E]`` bool.
    """
    reached = k_hop_nodes(edge_index, nodes, hops, num_nodes).T
    return reached[:, edge_index[0]] & reached[:, edge_index[1]]
