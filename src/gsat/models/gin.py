"""The Graph Isomorphism Network (GIN), or GINE on data with edge features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from gsat.core.registry import register_backbone
from gsat.graphs import GraphBatch
from gsat.models.backbone import BackboneSettings, Gate, GatedBackbone, withheld
from gsat.models.encoder import node_encoder
from gsat.ops import (
    Draws,
    EdgeTerm,
    ScalarTerm,
    gin_layer,
    gin_layers,
    scalar_term,
)


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

    @property
    def mlp(self) -> tuple[nn.Linear, nn.BatchNorm1d, nn.Linear]:
        """The parts of the MLP, for :func:`gsat.ops.gin_layers`."""
        return self.inner, self.norm, self.outer

    def gated(
        self,
        x: Tensor,
        batch: GraphBatch,
        weight: Tensor | None,
        term: EdgeTerm,
        keep: Tensor,
        baseline: Tensor,
        drop: float,
        draws: Draws | None,
    ) -> Tensor:
        """Compute the layer with gated messages."""
        passing = keep if weight is None else weight * keep
        more = withheld(keep, weight, batch) * baseline
        return gin_layer(x, batch, passing, term, *self.mlp, drop, draws, extra=more)

    def messages(self, x: Tensor, batch: GraphBatch, term: EdgeTerm) -> Tensor:
        """The message m of every edge, ``[E, hidden]``."""
        if term is None:
            return x[batch.src]
        if isinstance(term, ScalarTerm):
            term = term.attribute[:, None] * term.slope + term.offset
        return torch.relu(x[batch.src] + term)


class GINSettings(BackboneSettings):
    """``[backbone]`` of GIN."""

    hidden: PositiveInt = Field(64, le=2048, description="Width of the node embeddings.")
    layers: PositiveInt = Field(2, le=64, description="Number of layers.")
    dropout: float = Field(0.3, ge=0, lt=1, description="Dropout after every layer.")
    edge_features: bool = Field(True, description="Whether the data's edge attributes are used.")


@register_backbone("gin")
class GIN(GatedBackbone):
    """GIN: linear encoder, layers with ReLU and dropout, sum pooling and one linear layer.

    Example:
        >>> from gsat import GIN, Task
        >>> GIN(10, Task("binary"), hidden=32).hidden
        32
    """

    Settings: ClassVar[type[BackboneSettings]] = GINSettings
    results_version = 2
    in_kernels = True
    limits_attention = True

    def build(
        self,
        in_features: int,
        edge_features: int,
        categories: Sequence[int] | None,
        settings: GINSettings,
    ) -> None:
        """Make the layers; see :meth:`Backbone.build`."""
        hidden = settings.hidden
        self.hidden, self.message_size, self.dropout = hidden, hidden, settings.dropout
        self.encoder = node_encoder(in_features, hidden, categories)
        self.edge_encoder = nn.Linear(edge_features, hidden) if edge_features else None
        self.layers = nn.ModuleList(
            GINLayer(hidden, edge_features > 0) for _ in range(settings.layers)
        )
        self.head = nn.Linear(hidden, self.task.num_logits)

    def embed(
        self,
        batch: GraphBatch,
        attention: Tensor | None = None,
        draws: Draws | None = None,
        gate: Gate | None = None,
    ) -> Tensor:
        """Node embeddings ``[N, hidden]``; see :meth:`GatedBackbone.embed`."""
        attention, unattended = batch.weighted(attention), batch.weighted(None)
        x = self.encode(batch)
        layers = [layer for layer in self.layers if isinstance(layer, GINLayer)]
        terms = [self._edge_term(layer, batch) for layer in layers]
        sources = [draws.child("dropout", i) for i in range(len(layers))] if draws else None
        if gate is None:
            mlps, cut = [layer.mlp for layer in layers], self.attended_layers
            if cut is None or cut >= len(layers):
                return gin_layers(x, batch, attention, terms, mlps, self.dropout, sources)
            for weight, part in ((attention, slice(cut)), (unattended, slice(cut, None))):
                some = sources[part] if sources else None
                x = gin_layers(x, batch, weight, terms[part], mlps[part], self.dropout, some)
            return x
        for number, (layer, term) in enumerate(zip(layers, terms, strict=True)):
            if gated := gate(number, x, layer.messages(x, batch, term)):
                own = sources[number] if sources else None
                x = layer.gated(x, batch, attention, term, *gated, self.dropout, own)
            else:
                source = sources[number : number + 1] if sources else None
                x = gin_layers(x, batch, attention, [term], [layer.mlp], self.dropout, source)
        return x

    def _edge_term(self, layer: GINLayer, batch: GraphBatch) -> EdgeTerm:
        if self.edge_encoder is None or (batch.edge_attr is None and batch.num_edges == 0):
            return None
        assert layer.edge is not None
        attribute = self.edge_attributes(batch)
        if attribute.shape[1] == 1:
            return scalar_term(attribute[:, 0], self.edge_encoder, layer.edge)
        return layer.edge(self.edge_encoder(attribute))
