"""GSAT as a competent PyG user would write it today: the yardstick of the benchmarks and the tests.

PyG's message passing, ``InstanceNorm``, ``DataLoader`` and pooling, ``F.dropout``; no loop over
graphs, no progress bar. It shares nothing with ``gsat`` but the shapes of the weights.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing, global_add_pool, global_mean_pool
from torch_geometric.nn.norm import InstanceNorm
from torch_geometric.utils import is_undirected, scatter, sort_edge_index

from gsat.gsat import GSAT
from gsat.models import GIN, PNA


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


class WeightedPNAConv(MessagePassing):
    """PNA's aggregations of weighted messages concat(x_u, x_v, e_uv), and a linear layer."""

    def __init__(self, hidden: int, parts: int, aggregators: Sequence[str]) -> None:
        super().__init__(aggr=None)
        self.aggregators = aggregators
        self.lin = nn.Linear(len(aggregators) * parts * hidden, hidden)

    def forward(
        self, x: Tensor, edge_index: Tensor, weight: Tensor | None, edge_attr: Tensor | None
    ) -> Tensor:
        # propagate_type: (x: Tensor, weight: OptTensor, edge_attr: OptTensor)
        return self.lin(self.propagate(edge_index, x=x, weight=weight, edge_attr=edge_attr))

    def message(
        self, x_i: Tensor, x_j: Tensor, weight: Tensor | None, edge_attr: Tensor | None
    ) -> Tensor:
        message = torch.cat([x_j, x_i] if edge_attr is None else [x_j, x_i, edge_attr], dim=1)
        return message if weight is None else message * weight[:, None]

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int | None = None) -> Tensor:
        out = []
        for name in self.aggregators:
            if name == "std":
                mean = scatter(inputs, index, 0, dim_size, "mean")
                squares = scatter(inputs * inputs, index, 0, dim_size, "mean")
                out.append((torch.relu(squares - mean * mean) + 1e-5).sqrt())
            else:
                out.append(scatter(inputs, index, 0, dim_size, name))
        return torch.cat(out, dim=1)


class PlainPNA(nn.Module):
    """The other backbone."""

    def __init__(self, like: PNA) -> None:
        super().__init__()
        edges, h = like.edge_encoder, like.hidden
        self.encoder = nn.Linear(like.encoder.in_features, h)
        self.edge_encoder = nn.Linear(edges.in_features, h) if edges else None
        parts = 3 if edges else 2
        self.convs = nn.ModuleList(WeightedPNAConv(h, parts, like.aggregators) for _ in like.layers)
        self.norms = nn.ModuleList(nn.BatchNorm1d(h) for _ in like.layers)
        self.head = copy.deepcopy(like.head)
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
        edge_attr = None if self.edge_encoder is None else self.edge_encoder(edge_attr)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + norm(conv(x, edge_index, weight, edge_attr)).relu()
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
        return self.head(
            global_mean_pool(self.embed(x, edge_index, edge_attr, weight), batch, size)
        )


class Said(NamedTuple):
    """Logits [B, L], edge weights [E], sampled attention and p ([E] or [N])."""

    logits: Tensor
    weight: Tensor
    alpha: Tensor
    p: Tensor


class PlainGSAT(nn.Module):
    """The model, with the shapes and the weights of a :class:`gsat.GSAT` on GIN or PNA."""

    def __init__(self, model: GSAT) -> None:
        super().__init__()
        extractor, like = model.extractor, model.backbone
        assert isinstance(like, GIN | PNA)
        self.backbone = PlainGIN(like) if isinstance(like, GIN) else PlainPNA(like)
        self.lin1 = nn.Linear(extractor.first.in_features, extractor.first.out_features)
        self.lin2 = nn.Linear(extractor.second.in_features, extractor.second.out_features)
        self.lin3 = nn.Linear(extractor.last.in_features, 1)
        self.norm1 = InstanceNorm(self.lin1.out_features)
        self.norm2 = InstanceNorm(self.lin2.out_features)
        self.on, self.dropout = extractor.on, extractor.dropout
        self.noisy = model.options.sampling != "none"
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
        like, g = model.backbone, model.extractor
        assert isinstance(like, GIN | PNA)
        pairs: list[tuple[nn.Module | None, nn.Module | None]] = [
            (self.backbone.encoder, like.encoder),
            (self.backbone.edge_encoder, like.edge_encoder),
            (self.backbone.head, like.head),
            (self.lin1, g.first),
            (self.lin2, g.second),
            (self.lin3, g.last),
        ]
        for number, (conv, layer) in enumerate(zip(self.backbone.convs, like.layers, strict=True)):
            if isinstance(like, GIN):
                mlp = [(conv.nn[0], layer.inner), (conv.nn[1], layer.norm)]
                pairs += [*mlp, (conv.nn[3], layer.outer), (conv.lin, layer.edge)]
            else:
                pairs += [(self.backbone.norms[number], layer.norm), (conv.lin, layer.linear)]
        for mine, theirs in pairs:
            if mine is not None and theirs is not None:
                mine.load_state_dict(theirs.state_dict())
        if isinstance(like, PNA):
            # There the columns go by part of the message, then by aggregator.
            h, aggregators = like.hidden, len(like.aggregators)
            for conv in self.backbone.convs:
                weight = conv.lin.weight.data.view(h, -1, aggregators, h)
                conv.lin.weight.data = weight.transpose(1, 2).flatten(1).contiguous()


def information(alpha: Tensor, r: float) -> Tensor:
    """The information loss of the published code."""
    keep = alpha * torch.log(alpha / r + 1e-6)
    return (keep + (1 - alpha) * torch.log((1 - alpha) / (1 - r + 1e-6) + 1e-6)).mean()
