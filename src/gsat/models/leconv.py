"""The network of DIR on Spurious-Motif: two LEConv layers.

    x'_v = ReLU(W₃ x_v + b₃ + Σ_{u→v} w_uv · a_uv · (W₁ x_u + b₁ − W₂ x_v))

a_uv is a scalar edge attribute, 1 for data without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field, PositiveInt
from torch import Tensor, nn

from gsat.core.errors import DataError
from gsat.core.registry import register_backbone
from gsat.graphs import GraphBatch
from gsat.models.backbone import BackboneSettings, Gate, GatedBackbone, withheld
from gsat.models.encoder import node_encoder
from gsat.ops import Draws, aggregate, relu_dropout


class LEConvLayer(nn.Module):
    """One layer, as defined above; ``source``, ``centre`` and ``own`` are W₁, W₂, W₃."""

    def __init__(self, in_features: int, hidden: int) -> None:
        super().__init__()
        self.source = nn.Linear(in_features, hidden)
        self.centre = nn.Linear(in_features, hidden, bias=False)
        self.own = nn.Linear(in_features, hidden)

    def forward(self, x: Tensor, batch: GraphBatch, weight: Tensor | None, total: Tensor) -> Tensor:
        """Compute the layer before its ReLU, ``[N, hidden]``."""
        arrived = aggregate(self.source(x), batch, weight)
        return self.own(x) + arrived - total * self.centre(x)

    def gated(
        self,
        x: Tensor,
        batch: GraphBatch,
        weight: Tensor | None,
        total: Tensor,
        keep: Tensor,
        baseline: Tensor,
    ) -> Tensor:
        """Compute the layer before its ReLU, ``[N, hidden]``, with gated messages."""
        lost = withheld(keep, weight, batch)
        passing = keep if weight is None else weight * keep
        arrived = aggregate(self.source(x), batch, passing)
        return self.own(x) + arrived - (total - lost) * self.centre(x) + lost * baseline

    def messages(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """The message W₁ x_u + b₁ − W₂ x_v of every edge, ``[E, hidden]``."""
        return self.source(x)[batch.src] - self.centre(x)[batch.dst]


def total_weight(x: Tensor, batch: GraphBatch, weight: Tensor | None) -> Tensor:
    """The sum of the weights of the incoming edges of each node, ``[N, 1]``."""
    ones = x.new_ones(batch.num_edges) if weight is None else weight
    return x.new_zeros(len(x)).index_add(0, batch.dst, ones)[:, None]


class LEConvSettings(BackboneSettings):
    """``[backbone]`` of the LEConv network."""

    hidden: PositiveInt = Field(32, le=2048, description="Width of the node embeddings.")
    layers: PositiveInt = Field(2, le=64, description="Number of layers.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout after every layer.")
    edge_features: bool = Field(True, description="Whether a scalar edge attribute is used.")


@register_backbone("leconv")
class LEConvNet(GatedBackbone):
    """LEConv: linear encoder, LEConv layers, mean pooling and two linear layers."""

    Settings: ClassVar[type[BackboneSettings]] = LEConvSettings
    results_version = 2
    pooling = "mean"

    def build(
        self,
        in_features: int,
        edge_features: int,
        categories: Sequence[int] | None,
        settings: LEConvSettings,
    ) -> None:
        """Make the layers; see :meth:`Backbone.build`."""
        if edge_features > 1:
            raise DataError(
                f"an LEConv network weighs edges by one number each, and these have "
                f"{edge_features}; set edge_features=false or choose another backbone"
            )
        hidden = settings.hidden
        self.hidden, self.message_size, self.dropout = hidden, hidden, settings.dropout
        self.encoder = node_encoder(in_features, hidden, categories)
        self.layers = nn.ModuleList(LEConvLayer(hidden, hidden) for _ in range(settings.layers))
        self.head = nn.Sequential(
            nn.Linear(hidden, 2 * hidden), nn.ReLU(), nn.Linear(2 * hidden, self.task.num_logits)
        )

    def embed(
        self,
        batch: GraphBatch,
        attention: Tensor | None = None,
        draws: Draws | None = None,
        gate: Gate | None = None,
    ) -> Tensor:
        """Node embeddings ``[N, hidden]``; see :meth:`GatedBackbone.embed`."""
        x = self.encode(batch)
        weight = self.weights(batch, attention)
        total = total_weight(x, batch, weight)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, LEConvLayer)
            if gate and (gated := gate(number, x, layer.messages(x, batch))):
                z = layer.gated(x, batch, weight, total, *gated)
            else:
                z = layer(x, batch, weight, total)
            source = draws.child("dropout", number) if draws else None
            x = relu_dropout(z, batch.node_id, self.dropout, source)
        return x

    def weights(self, batch: GraphBatch, attention: Tensor | None) -> Tensor | None:
        """The product of attention, the data's edge weight and the edge attribute, ``[E]``.

        None stands for all ones.
        """
        attention = batch.weighted(attention)
        if not self.config["edge_features"] or batch.num_edges == 0:
            return attention
        attribute = self.edge_attributes(batch)[:, 0]
        return attribute if attention is None else attribute * attention
