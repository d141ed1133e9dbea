"""GSAT written again with PyG's own layers, as a competent user would: the yardstick of the tests."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing, global_add_pool
from torch_geometric.nn.norm import InstanceNorm

from gsat.gsat import GSAT
from gsat.graphs import GraphBatch
from gsat.models import GIN


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
    """The published algorithm, evaluation mode or without dropout, sharing a GSAT's weights."""

    def __init__(self, model: GSAT) -> None:
        super().__init__()
        assert isinstance(model.backbone, GIN)
        self.gin, self.g = model.backbone, model.extractor
        self.convs = nn.ModuleList(WeightedGIN(layer.mlp, layer.edge) for layer in self.gin.layers)
        self.norm = InstanceNorm(1)

    def embed(self, batch: GraphBatch, weight: Tensor) -> Tensor:
        x = self.gin.encoder(batch.x)
        attr = None if self.gin.edge_encoder is None else self.gin.edge_encoder(batch.edge_attr)
        for conv in self.convs:
            x = torch.relu(conv(x, batch.edge_index, weight, attr))
        return x

    def attention_logits(self, h: Tensor, batch: GraphBatch) -> Tensor:
        if self.g.on == "edge":
            z = torch.cat([h[batch.src], h[batch.dst]], dim=1)
            group = batch.edge_graph
        else:
            z, group = h, batch.node_graph
        for layer in (self.g.first, self.g.second):
            z = layer(z)
            norm = InstanceNorm(z.shape[1])
            z = torch.relu(norm(z, group, batch_size=batch.num_graphs))
        return self.g.last(z)[:, 0]

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Logits [B, L], edge weights [E], p [E] or [N]."""
        ones = torch.ones(batch.num_edges, dtype=batch.x.dtype)
        p = torch.sigmoid(self.attention_logits(self.embed(batch, ones), batch))
        weight = self._weights(p, batch)
        pooled = global_add_pool(self.embed(batch, weight), batch.node_graph, batch.num_graphs)
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
