"""GSAT as a competent PyG user would write it today: the yardstick of the benchmarks and the tests.

PyG's message passing, ``InstanceNorm``, ``DataLoader`` and pooling, ``F.dropout``; no loop over
graphs, no progress bar. It shares nothing with ``gsat`` but the shapes of the weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing, global_add_pool
from torch_geometric.nn.norm import InstanceNorm
from torch_geometric.utils import is_undirected, sort_edge_index

from gsat.gsat import GSAT
from gsat.models import GIN


class WeightedGINConv(MessagePassing):
    """GIN or GINE with a weight on every message."""

    def __init__(self, hidden: int, edge_features: bool) -> None:
        super().__init__(aggr="add")
        self.nn = nn.Sequential(
            nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, hidden)
        )
        self.lin = nn.Linear(hidden, hidden) if edge_features else None

    def forward(
        self, x: Tensor, edge_index: Tensor, weight: Tensor | None, edge_attr: Tensor | None
    ) -> Tensor:
        # propagate_type: (x: Tensor, weight: OptTensor, edge_attr: OptTensor)
        out = self.propagate(edge_index, x=x, weight=weight, edge_attr=edge_attr)
        return self.nn(out + x)

    def message(self, x_j: Tensor, weight: Tensor | None, edge_attr: Tensor | None) -> Tensor:
        if self.lin is not None and edge_attr is not None:
            x_j = (x_j + self.lin(edge_attr)).relu()
        return x_j if weight is None else x_j * weight[:, None]


class PlainGIN(nn.Module):
    """The backbone."""

    def __init__(self, like: GIN) -> None:
        super().__init__()
        edges = like.edge_encoder
        self.encoder = nn.Linear(like.encoder.in_features, like.hidden)
        self.edge_encoder = nn.Linear(edges.in_features, like.hidden) if edges else None
        self.convs = nn.ModuleList(
            WeightedGINConv(like.hidden, edges is not None) for _ in like.layers
        )
        self.head = nn.Linear(like.hidden, like.task.num_logits)
        self.dropout = like.dropout

    def embed(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """Node embeddings [N, h]."""
        x = self.encoder(x)
        if self.edge_encoder is not None and edge_attr is not None:
            edge_attr = self.edge_encoder(edge_attr)
        for conv in self.convs:
            x = conv(x, edge_index, weight, edge_attr).relu()
            x = F.dropout(x, self.dropout, self.training)
        return x

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        weight: Tensor | None = None,
        size: int | None = None,
    ) -> Tensor:
        """Logits [B, L]."""
        h = self.embed(x, edge_index, edge_attr, weight)
        if batch is None:
            batch = torch.zeros(len(x), dtype=torch.long)
        return self.head(global_add_pool(h, batch, size))


class Said(NamedTuple):
    """Logits [B, L], edge weights [E], sampled attention and p ([E] or [N])."""

    logits: Tensor
    weight: Tensor
    alpha: Tensor
    p: Tensor


class PlainGSAT(nn.Module):
    """The model, with the shapes and the weights of a :class:`gsat.GSAT` on GIN."""

    def __init__(self, model: GSAT) -> None:
        super().__init__()
        assert isinstance(model.backbone, GIN)
        extractor = model.extractor
        self.backbone = PlainGIN(model.backbone)
        self.lin1 = nn.Linear(extractor.first.in_features, extractor.first.out_features)
        self.lin2 = nn.Linear(extractor.second.in_features, extractor.second.out_features)
        self.lin3 = nn.Linear(extractor.last.in_features, 1)
        self.norm1 = InstanceNorm(self.lin1.out_features)
        self.norm2 = InstanceNorm(self.lin2.out_features)
        self.on, self.dropout = extractor.on, extractor.dropout
        self.noisy = model.sampling != "none"
        self._copy(model)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor,
        edge_attr: Tensor | None = None,
        size: int | None = None,
    ) -> Said:
        """Both runs; noise and dropout in training mode."""
        h = self.backbone.embed(x, edge_index, edge_attr)
        src, dst = edge_index
        z, group = (
            (torch.cat([h[src], h[dst]], dim=1), batch[src]) if self.on == "edge" else (h, batch)
        )
        for linear, norm in ((self.lin1, self.norm1), (self.lin2, self.norm2)):
            z = norm(linear(z), group, batch_size=size).relu()
            z = F.dropout(z, self.dropout, self.training)
        logits = self.lin3(z)[:, 0]
        p = alpha = logits.sigmoid()
        if self.training and self.noisy:
            u = torch.empty_like(logits).uniform_(1e-10, 1 - 1e-7)
            alpha = (logits + u.log() - (1 - u).log()).sigmoid()
        weight = self._weights(alpha, edge_index)
        return Said(self.backbone(x, edge_index, batch, edge_attr, weight, size), weight, alpha, p)

    def _weights(self, alpha: Tensor, edge_index: Tensor) -> Tensor:
        if self.on == "node":
            return alpha[edge_index[0]] * alpha[edge_index[1]]
        if not is_undirected(edge_index):
            return alpha
        places = torch.arange(edge_index.size(1))
        _, forward = sort_edge_index(edge_index, places)
        _, backward = sort_edge_index(edge_index.flip(0), places)
        reverse = torch.empty_like(places)
        reverse[forward] = backward
        return (alpha + alpha[reverse]) / 2

    def _copy(self, model: GSAT) -> None:
        gin, g = model.backbone, model.extractor
        assert isinstance(gin, GIN)
        pairs = [
            (self.backbone.encoder, gin.encoder),
            (self.backbone.edge_encoder, gin.edge_encoder),
            (self.backbone.head, gin.head),
            (self.lin1, g.first),
            (self.lin2, g.second),
            (self.lin3, g.last),
        ]
        for conv, layer in zip(self.backbone.convs, gin.layers, strict=True):
            pairs += [
                (conv.nn[0], layer.inner),
                (conv.nn[1], layer.norm),
                (conv.nn[3], layer.outer),
                (conv.lin, layer.edge),
            ]
        for mine, theirs in pairs:
            if mine is not None:
                mine.load_state_dict(theirs.state_dict())


def information(alpha: Tensor, r: float) -> Tensor:
    """The information loss of the published code."""
    keep = alpha * torch.log(alpha / r + 1e-6)
    return (keep + (1 - alpha) * torch.log((1 - alpha) / (1 - r + 1e-6) + 1e-6)).mean()
