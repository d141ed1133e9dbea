"""Principal Neighbourhood Aggregation (PNA), as published with GSAT.

    m_uv = w_uv · concat(x_v, x_u, e_uv)
    x'_v = Dropout(x_v + ReLU(BatchNorm(W concat_a(aggregate_a m_uv) + b)))

The costly part is :func:`gsat.ops.pna_layers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field, PositiveInt, field_validator
from torch import Tensor, nn

from gsat.core.registry import register_backbone
from gsat.datasets.load import Dataset
from gsat.graphs import GraphBatch
from gsat.models.backbone import BackboneSettings, Gate, GatedBackbone
from gsat.models.encoder import node_encoder
from gsat.ops import AGGREGATORS, Aggregator, Draws, pna_layer, pna_layers
from gsat.tasks import Task

Scaler = Literal["identity", "amplification", "attenuation"]


class PNALayer(nn.Module):
    """The weights of one layer: a linear layer and a batch norm.

    The columns of ``linear`` are ordered by scaler, part of the message (source, centre, edge),
    aggregator and channel.
    """

    def __init__(self, hidden: int, parts: int, aggregators: int, scalers: int) -> None:
        super().__init__()
        self.linear = nn.Linear(scalers * parts * aggregators * hidden, hidden)
        self.norm = nn.BatchNorm1d(hidden)

    @property
    def parts(self) -> tuple[nn.Linear, nn.BatchNorm1d]:
        """The linear layer and the batch norm, for :func:`gsat.ops.pna_layers`."""
        return self.linear, self.norm


class PNASettings(BackboneSettings):
    """``[backbone]`` of PNA."""

    hidden: PositiveInt = Field(80, le=2048, description="Width of the node embeddings.")
    layers: PositiveInt = Field(4, le=64, description="Number of layers.")
    dropout: float = Field(0.3, ge=0, lt=1, description="Dropout after every layer.")
    edge_features: bool = Field(True, description="Whether the data's edge attributes are used.")
    aggregators: list[Aggregator] = Field(
        list(AGGREGATORS), min_length=1, description="Aggregations, concatenated."
    )
    scalers: list[Scaler] = Field(
        [], description="Scalings of the aggregations by degree; none, as published with GSAT."
    )

    @field_validator("aggregators", "scalers")
    @classmethod
    def _different(cls, names: list[str]) -> list[str]:
        if len(set(names)) < len(names):
            raise ValueError(f"each name can be listed once, not {names}")
        return names


@register_backbone("pna")
class PNA(GatedBackbone):
    """PNA: linear encoders, PNA layers, mean pooling and a head of three linear layers.

    With scalers, ``mean_log_degree`` is the mean of log(degree + 1) over the training nodes, which
    :meth:`for_data` computes.
    """

    Settings: ClassVar[type[BackboneSettings]] = PNASettings
    results_version = 3
    pooling = "mean"
    in_kernels = True
    mean_log_degree: Tensor

    def __init__(
        self, in_features: int, task: Task, *, mean_log_degree: float = 1.0, **settings: Any
    ) -> None:
        """Make the network."""
        super().__init__(in_features, task, **settings)
        if self.scalers:
            # Saved with the weights, so that the model keeps it on other data.
            self.register_buffer("mean_log_degree", torch.tensor(mean_log_degree))

    def build(
        self,
        in_features: int,
        edge_features: int,
        categories: Sequence[int] | None,
        settings: PNASettings,
    ) -> None:
        """Make the layers; see :meth:`Backbone.build`."""
        hidden, parts = settings.hidden, 3 if edge_features else 2
        self.hidden, self.message_size, self.dropout = hidden, parts * hidden, settings.dropout
        self.aggregators, self.scalers = tuple(settings.aggregators), tuple(settings.scalers)
        self.encoder = node_encoder(in_features, hidden, categories)
        self.edge_encoder = nn.Linear(edge_features, hidden) if edge_features else None
        self.layers = nn.ModuleList(
            PNALayer(hidden, parts, len(self.aggregators), max(len(self.scalers), 1))
            for _ in range(settings.layers)
        )
        half, quarter = max(hidden // 2, 1), max(hidden // 4, 1)
        self.head = nn.Sequential(
            nn.Linear(hidden, half), nn.ReLU(),
            nn.Linear(half, quarter), nn.ReLU(),
            nn.Linear(quarter, self.task.num_logits),
        )  # fmt: skip

    @classmethod
    def for_data(
        cls, data: Dataset, *, seed: int = 0, edge_features: bool = True, **settings: Any
    ) -> Self:
        """See :meth:`Backbone.for_data`; scalers use the degrees of the training nodes."""
        if settings.get("scalers"):
            degrees = [b.dst_ptr.diff() for b in data.train.batches(1024)]
            logs = torch.log1p(torch.cat(degrees).double())
            settings = {"mean_log_degree": float(logs.mean()), **settings}
        return super().for_data(data, seed=seed, edge_features=edge_features, **settings)

    def embed(
        self,
        batch: GraphBatch,
        attention: Tensor | None = None,
        draws: Draws | None = None,
        gate: Gate | None = None,
    ) -> Tensor:
        """Node embeddings ``[N, hidden]``; see :meth:`GatedBackbone.embed`."""
        x, attention = self.encode(batch), batch.weighted(attention)
        edge = self._edge(batch)
        layers = [layer.parts for layer in self.layers if isinstance(layer, PNALayer)]
        sources = [draws.child("dropout", i) for i in range(len(layers))] if draws else None
        scale = self._scale(batch) if self.scalers else None
        if gate is None:
            return pna_layers(
                x, batch, attention, edge, layers, self.aggregators, scale, self.dropout, sources
            )
        for number, layer in enumerate(layers):
            messages = self._messages(x, batch, edge)
            if gated := gate(number, x, messages):
                keep, baseline = gated
                passing = keep[:, None] * messages + (1 - keep)[:, None] * baseline
                x = pna_layer(
                    x, passing, batch, attention, *layer, self.aggregators, scale, self.dropout,
                    sources[number] if sources else None,
                )  # fmt: skip
            else:
                source = sources[number : number + 1] if sources else None
                x = pna_layers(
                    x, batch, attention, edge, [layer], self.aggregators, scale, self.dropout,
                    source,
                )  # fmt: skip
        return x

    def _messages(self, x: Tensor, batch: GraphBatch, edge: Tensor | None) -> Tensor:
        """The messages [E, d]: source, centre and edge, in the order of the layers' columns."""
        more = [] if edge is None else [edge.expand(batch.num_edges, -1)]
        return torch.cat([x[batch.src], x[batch.dst], *more], dim=1)

    def _edge(self, batch: GraphBatch) -> Tensor | None:
        """Encoded edge attributes, [E, h], or [1, h] where all are equal."""
        if self.edge_encoder is None:
            return None
        if batch.num_edges:
            attribute = self.edge_attributes(batch)
        else:  # one row, which is not used
            attribute = self.encoder.weight.new_zeros(1, self.edge_encoder.in_features)
        equal = bool((attribute == attribute[:1]).all())
        return self.edge_encoder(attribute[:1] if equal else attribute)

    def _scale(self, batch: GraphBatch) -> Tensor:
        """The scales by in-degree, [N, S, 1]; attenuation treats degree 0 like 1."""
        degree, mean = batch.dst_ptr.diff().to(self.encoder.weight.dtype), self.mean_log_degree
        scales = {
            "identity": torch.ones_like(degree),
            "amplification": torch.log1p(degree) / mean,
            "attenuation": mean / torch.log1p(degree.clamp(min=1)),
        }
        return torch.stack([scales[name] for name in self.scalers], dim=1)[:, :, None]
