"""The Graph Isomorphism Network, with edge features when the data has them (then it is GINE)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gsat.errors import DataError
from gsat.graphs import GraphBatch
from gsat.models.backbone import Gate, GatedBackbone, check_dropout, seeded, withheld
from gsat.models.encoder import node_encoder
from gsat.ops import (
    Draws,
    EdgeTerm,
    ScalarTerm,
    gin_layer,
    scalar_term,
)
from gsat.tasks import Task


class GINLayer(nn.Module):
    """x'_v = MLP(x_v + Σ_{u→v} w_uv · m_uv), with m = x_u, or ReLU(x_u + W_e e_uv).

    The MLP is ``inner`` linear, batch norm, ReLU, ``outer`` linear.
    """

    def __init__(self, hidden: int, edge_features: bool) -> None:
        super().__init__()
        self.edge = nn.Linear(hidden, hidden) if edge_features else None
        self.inner = nn.Linear(hidden, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.outer = nn.Linear(hidden, hidden)

    def forward(
        self,
        x: Tensor,
        batch: GraphBatch,
        attention: Tensor | None,
        term: EdgeTerm,
        dropout: float = 0.0,
        draws: Draws | None = None,
    ) -> Tensor:
        """[N, hidden] to [N, hidden], with the ReLU and the dropout that follow the layer."""
        mlp = (self.inner, self.norm, self.outer)
        return gin_layer(x, batch, attention, term, *mlp, dropout, draws)

    def gated(
        self,
        x: Tensor,
        batch: GraphBatch,
        weight: Tensor | None,
        term: EdgeTerm,
        keep: Tensor,
        baseline: Tensor,
    ) -> Tensor:
        """The same without dropout, where of each message the share ``keep`` [E] passes and
        ``baseline`` [hidden] stands for the rest."""
        passing = keep if weight is None else weight * keep
        more = withheld(keep, weight, batch) * baseline
        mlp = (self.inner, self.norm, self.outer)
        return gin_layer(x, batch, passing, term, *mlp, extra=more)

    def messages(self, x: Tensor, batch: GraphBatch, term: EdgeTerm) -> Tensor:
        """m of every edge [E, hidden]."""
        if term is None:
            return x[batch.src]
        if isinstance(term, ScalarTerm):
            term = term.attribute[:, None] * term.slope + term.offset
        return torch.relu(x[batch.src] + term)


class GIN(GatedBackbone):
    """GIN: linear encoder, ``layers`` of :class:`GINLayer` with ReLU and dropout, sum pooling and
    one linear layer.

    Args:
        in_features: columns of ``x``. edge_features: columns of ``edge_attr``, 0 to ignore it.
        task: what the logits are for. hidden: width. layers: depth. dropout: after every layer.
        categories: how many categories each column of ``x`` has, if columns are categories.
        seed: decides the initial weights.
    """

    name = "gin"
    in_kernels = True

    def __init__(
        self,
        in_features: int,
        task: Task,
        *,
        edge_features: int = 0,
        hidden: int = 64,
        layers: int = 2,
        dropout: float = 0.3,
        categories: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_dropout(dropout)
        self.hidden, self.task, self.dropout = hidden, task, dropout
        self.message_size = hidden
        self.config = {
            "in_features": in_features,
            "categories": None if categories is None else list(categories),
            "task": task.as_dict(),
            "edge_features": edge_features,
            "hidden": hidden,
            "layers": layers,
            "dropout": dropout,
        }
        with seeded(seed, "gin"):
            self.encoder = node_encoder(in_features, hidden, categories)
            self.edge_encoder = nn.Linear(edge_features, hidden) if edge_features else None
            self.layers = nn.ModuleList(GINLayer(hidden, edge_features > 0) for _ in range(layers))
            self.head = nn.Linear(hidden, task.num_logits)

    def embed(
        self,
        batch: GraphBatch,
        attention: Tensor | None = None,
        draws: Draws | None = None,
        gate: Gate | None = None,
    ) -> Tensor:
        """Node embeddings [N, hidden]; see :meth:`GatedBackbone.embed`."""
        attention = batch.weighted(attention)
        x = self.encode(batch)
        for number, layer in enumerate(self.layers):
            term = self._edge_term(layer, batch)
            assert isinstance(layer, GINLayer)
            if gate and (gated := gate(number, x, layer.messages(x, batch, term))):
                x = layer.gated(x, batch, attention, term, *gated)
                continue
            source = draws.child("dropout", number) if draws else None
            x = layer(x, batch, attention, term, self.dropout, source)
        return x

    def read_out(self, embeddings: Tensor, batch: GraphBatch) -> Tensor:
        """Logits by one linear layer, after sum pooling or of single nodes."""
        return self.head(self.pooled(embeddings, batch, "sum"))

    def _edge_term(self, layer: nn.Module, batch: GraphBatch) -> EdgeTerm:
        if self.edge_encoder is None:
            return None
        if batch.edge_attr is None:
            if batch.num_edges:
                raise DataError("this GIN needs edge features and the graphs have none")
            return None
        assert isinstance(layer, GINLayer)
        assert layer.edge is not None
        attribute = batch.edge_attr.to(self.encoder.weight.dtype)
        if attribute.shape[1] == 1:
            return scalar_term(attribute[:, 0], self.edge_encoder, layer.edge)
        return layer.edge(self.edge_encoder(attribute))
