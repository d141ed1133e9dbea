"""A network whose answer hangs on one known edge, as a PyG module and as a GIN of ours.

Nodes are marked: one is a source, one a target. A node that is one of them and next to the other
shows it; the answer is 1 where two do, that is, where source and target are joined.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing, global_add_pool

import gsat
from gsat.tasks import Task

BINARY = Task("binary")
SHARPNESS = 6.0


class Shows(MessagePassing):
    """x [N, 2] to (whether a node shows it, and the sums it is seen from) [N, 3]."""

    def __init__(self) -> None:
        super().__init__(aggr="add")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        seen = x + self.propagate(edge_index, x=x)
        return torch.cat([torch.relu(seen.sum(dim=1, keepdim=True) - 1), seen], dim=1)

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


class Planted(nn.Module):
    """The PyG module; it gives logits of graphs [B, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = Shows()
        self.sharpness = nn.Parameter(torch.tensor(SHARPNESS))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        if batch is None:
            batch = torch.zeros(len(x), dtype=torch.long)
        shown = self.conv(x, edge_index)[:, :1]
        return self.sharpness * (global_add_pool(shown, batch) - 1)


def planted_gin() -> gsat.GIN:
    """The same network, as one layer of GIN with weights set by hand."""
    gin = gsat.GIN(2, BINARY, hidden=4, layers=1, dropout=0.0).eval()
    layer = gin.layers[0]
    with torch.no_grad():
        for parameter in gin.parameters():
            parameter.zero_()
        gin.encoder.weight[:2] = torch.eye(2)
        layer.inner.weight[:3, :2] = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
        layer.inner.bias[0] = -1.0
        layer.norm.weight.fill_((1 + layer.norm.eps) ** 0.5)
        layer.outer.weight.copy_(torch.eye(4))
        gin.head.weight[0, 0] = SHARPNESS
        gin.head.bias.fill_(-SHARPNESS)
    return gin


def planted_graphs(count: int, joined: bool | None = None, seed: int = 0) -> list[Data]:
    """Rings of 8 to 12 nodes, where source and target are neighbours or (where not ``joined``; None
    for both kinds in turn) far from each other. ``edge_truth`` marks the edge between them."""
    rng = np.random.default_rng(seed)
    graphs = []
    for number in range(count):
        together = number % 2 == 0 if joined is None else joined
        nodes = int(rng.integers(8, 13))
        names = rng.permutation(nodes)
        ring = np.stack([names, np.roll(names, -1)])
        edges = np.concatenate([ring, ring[::-1]], axis=1)[:, rng.permutation(2 * nodes)]
        source, target = names[0], names[1 if together else 4]
        x = np.zeros((nodes, 2), dtype=np.float32)
        x[source, 0] = x[target, 1] = 1
        truth = np.isin(edges, [source, target]).all(axis=0)
        graphs.append(
            Data(
                x=torch.from_numpy(x),
                edge_index=torch.from_numpy(edges.copy()),
                edge_truth=torch.from_numpy(truth).float(),
                y=torch.tensor([[float(together)]]),
            )
        )
    return graphs
