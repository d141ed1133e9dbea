"""GSAT written again with PyG's own layers: the yardstick of the tests; and graphs to try it on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing, global_add_pool
from torch_geometric.nn.norm import InstanceNorm

from gsat.datasets.load import Dataset
from gsat.graphs import GraphBatch, GraphStore
from gsat.gsat import GSAT
from gsat.models import GIN
from gsat.ops import Draws
from gsat.tasks import Task

# One task of each kind.
TASKS = [
    Task("binary"),
    Task("multiclass", 4),
    Task("multilabel", 3, "roc_auc"),
    Task("regression", 1, "mae", centre=2.0, scale=3.0),
]


def random_graph(
    rng: np.random.Generator,
    nodes: int,
    edges: int,
    *,
    directed: bool = False,
    features: int = 4,
    edge_features: int = 0,
) -> Data:
    """``edges`` different pairs of nodes (both directions of each unless ``directed``), in random
    order; normal ``x`` [N, F], and ``edge_attr`` [E, D], equal on both directions of a pair."""
    low, high = np.triu_indices(nodes, k=1)
    chosen = rng.permutation(len(low))[:edges]
    pairs = rng.permuted(np.stack([low[chosen], high[chosen]], axis=1), axis=1)
    attributes = rng.normal(size=(len(pairs), edge_features)).astype(np.float32)
    if not directed:
        pairs = np.concatenate([pairs, pairs[:, ::-1]])
        attributes = np.concatenate([attributes, attributes])
    order = rng.permutation(len(pairs))
    data = Data(
        x=torch.from_numpy(rng.normal(size=(nodes, features)).astype(np.float32)),
        edge_index=torch.from_numpy(pairs[order].T.astype(np.int64).reshape(2, -1).copy()),
    )
    if edge_features:
        data.edge_attr = torch.from_numpy(attributes[order])
    return data


def random_graphs(seed: int, count: int = 8, *, awkward: bool = True, **kind: int) -> list[Data]:
    """Random graphs of 5 to 12 nodes; ``awkward`` adds one node, one edge, no edge and no node.

    ``kind``: as in :func:`random_graph`.
    """
    rng = np.random.default_rng(seed)
    sizes = [(int(rng.integers(5, 13)), int(rng.integers(4, 10))) for _ in range(count)]
    if awkward:
        sizes[1:1] = [(1, 0), (0, 0), (2, 1)]
        sizes.append((3, 0))
    return [random_graph(rng, nodes, edges, **kind) for nodes, edges in sizes]


def lived_in(network: Any) -> Any:
    """The same network as after some training: random batch norms, in evaluation mode."""
    generator = torch.Generator().manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d):
            for tensor in (module.running_mean, module.bias.data):
                tensor.copy_(torch.randn(tensor.shape, generator=generator) / 2)
            for tensor in (module.running_var, module.weight.data):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
    return network.eval()


def whole(store: GraphStore, task: Task) -> Dataset:
    """A data set in which every split has all graphs."""
    rows = np.arange(len(store))
    return Dataset("made", store, task, dict.fromkeys(("train", "valid", "test"), rows))


class WeightedGIN(MessagePassing):
    """PyG message passing with explicit messages per edge: ReLU(x_j + W_e e) · w, summed."""

    def __init__(self, mlp: nn.Module, edge: nn.Linear | None) -> None:
        super().__init__(aggr="add")
        self.mlp, self.edge = mlp, edge

    def forward(
        self, x: Tensor, edge_index: Tensor, weight: Tensor, edge_attr: Tensor | None
    ) -> Tensor:
        # propagate_type: (x: Tensor, weight: Tensor, edge_attr: OptTensor)
        out = self.propagate(edge_index, x=x, weight=weight, edge_attr=edge_attr)
        return self.mlp(out + x)

    def message(self, x_j: Tensor, weight: Tensor, edge_attr: Tensor | None) -> Tensor:
        if self.edge is not None:
            assert edge_attr is not None
            x_j = torch.relu(x_j + self.edge(edge_attr))
        return x_j * weight[:, None]


class ReferenceGSAT(nn.Module):
    """The published algorithm, sharing a GSAT's weights; draws as GSAT names them."""

    def __init__(self, model: GSAT) -> None:
        super().__init__()
        assert isinstance(model.backbone, GIN)
        self.gin, self.g = model.backbone, model.extractor
        self.convs = nn.ModuleList(
            WeightedGIN(nn.Sequential(layer.inner, layer.norm, nn.ReLU(), layer.outer), layer.edge)
            for layer in self.gin.layers
        )
        self.norm = InstanceNorm(1)

    def embed(self, batch: GraphBatch, weight: Tensor, draws: Draws | None = None) -> Tensor:
        x = self.gin.encoder(batch.x)
        attr = None if self.gin.edge_encoder is None else self.gin.edge_encoder(batch.edge_attr)
        for number, conv in enumerate(self.convs):
            x = torch.relu(conv(x, batch.edge_index, weight, attr))
            if draws:
                x = _dropout(x, batch.node_id, self.gin.dropout, draws.child("dropout", number))
        return x

    def attention_logits(self, h: Tensor, batch: GraphBatch, draws: Draws | None = None) -> Tensor:
        if self.g.on == "edge":
            z = torch.cat([h[batch.src], h[batch.dst]], dim=1)
            group, rows = batch.edge_graph, batch.edge_id
        else:
            z, group, rows = h, batch.node_graph, batch.node_id
        for number, layer in enumerate((self.g.first, self.g.second)):
            z = layer(z)
            norm = InstanceNorm(z.shape[1])
            z = torch.relu(norm(z, group, batch_size=batch.num_graphs))
            if draws:
                z = _dropout(z, rows, self.g.dropout, draws.child(number))
        return self.g.last(z)[:, 0]

    def forward(
        self, batch: GraphBatch, draws: Draws | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Logits [B, L], edge weights [E], p [E] or [N]."""
        ones = torch.ones(batch.num_edges, dtype=batch.x.dtype)
        h = self.embed(batch, ones, draws and draws.child("first run"))
        logits = self.attention_logits(h, batch, draws and draws.child("extractor"))
        p = alpha = torch.sigmoid(logits)
        if draws:
            rows = batch.edge_id if self.g.on == "edge" else batch.node_id
            u = draws.child("attention").uniform(rows).to(p.dtype)
            alpha = torch.sigmoid(logits + torch.log(u) - torch.log(1 - u))
        weight = self._weights(alpha, batch)
        h = self.embed(batch, weight, draws and draws.child("second run"))
        pooled = global_add_pool(h, batch.node_graph, batch.num_graphs)
        return self.gin.head(pooled), weight, p

    def _weights(self, p: Tensor, batch: GraphBatch) -> Tensor:
        if self.g.on == "node":
            return p[batch.src] * p[batch.dst]
        if not bool(batch.undirected.all()):
            return p
        # The reverse edge found by brute force on dense matrices.
        dense = torch.zeros(batch.num_nodes, batch.num_nodes, dtype=p.dtype)
        dense[batch.src, batch.dst] = p
        return ((dense + dense.T) / 2)[batch.src, batch.dst]


def _dropout(x: Tensor, rows: Tensor, drop: float, draws: Draws) -> Tensor:
    return x * draws.keep(rows, x.shape[1], drop) / (1 - drop)
