"""Principal Neighbourhood Aggregation, as published with GSAT: several aggregations side by side.

    m_uv = w_uv · concat(x_v, x_u, e_uv)
    x'_v = Dropout(x_v + ReLU(BatchNorm(W concat_a(aggregate_a m_uv) + b)))

No message is ever computed: W is split into a block per part of the message and aggregator. The
centre's part needs statistics of the weights alone; so does an edge attribute that is the same on
all edges. Without attention these parts of mean, min and max are equal and that of std is a
constant, so that five blocks of W collapse to two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
from pydantic import Field, PositiveInt, field_validator
from torch import Tensor, nn

from gsat.datasets.load import Dataset
from gsat.errors import DataError
from gsat.graphs import GraphBatch
from gsat.models.backbone import BackboneSettings, Gate, GatedBackbone
from gsat.models.encoder import node_encoder
from gsat.ops import (
    AGGREGATORS,
    STD_EPS,
    Aggregator,
    Draws,
    add_dropout,
    batch_norm_relu,
    multi_aggregate,
    multi_aggregate_edges,
    multi_aggregate_target,
    weight_statistics,
)
from gsat.registry import register_backbone
from gsat.tasks import Task

Scaler = Literal["identity", "amplification", "attenuation"]


class _Run(NamedTuple):
    """What all layers share in one run over a batch.

    Attributes:
        batch: The graphs.
        attention: Weights of the messages, ``[E]``, or None.
        statistics: Their statistics at each node, ``[N, 5]``, or None.
        counts: Whether an edge arrives, and how many, ``[N, 2]``.
        edge: Aggregated edge attributes, ``[N, A, h]``; None without them or where all are equal.
        constant: The edge attribute of all edges, ``[1, h]``; None where they differ.
        spread: The std of the constant part under attention, ``[N, h]``, or None.
        scale: How degrees scale the aggregations, ``[N, S, 1]``, or None.
    """

    batch: GraphBatch
    attention: Tensor | None
    statistics: Tensor | None
    counts: Tensor
    edge: Tensor | None
    constant: Tensor | None
    spread: Tensor | None
    scale: Tensor | None


class PNALayer(nn.Module):
    """One layer, as defined above.

    The columns of ``linear`` are ordered by scaler, part of the message (source, centre, edge),
    aggregator and channel.

    Args:
        hidden: Width of input and output, h.
        parts: Number of parts of a message, 2 or, with edge attributes, 3.
        aggregators: The aggregations.
        scalers: Number of scalers, S; 1 without any.
    """

    def __init__(
        self, hidden: int, parts: int, aggregators: Sequence[Aggregator], scalers: int
    ) -> None:
        super().__init__()
        self.hidden, self.parts, self.scalers = hidden, parts, scalers
        self.aggregators = tuple(aggregators)
        self.linear = nn.Linear(scalers * parts * len(self.aggregators) * hidden, hidden)
        self.norm = nn.BatchNorm1d(hidden)

    def forward(
        self, x: Tensor, run: _Run, dropout: float = 0.0, draws: Draws | None = None
    ) -> Tensor:
        """Run the layer.

        Args:
            x: Node embeddings, ``[N, hidden]``.
            run: What all layers share.
            dropout: Share of channels that is dropped. (default: ``0.0``)
            draws: The source of dropout masks. (default: no dropout)

        Returns:
            ``[N, hidden]``.
        """
        source, centre, *edge = self._blocks()
        z = multi_aggregate(x, run.batch, run.attention, self.aggregators).flatten(1)
        z = z @ source.flatten(1).T
        offset = z.new_zeros(())
        if run.statistics is None:
            level, total, offset = self._collapsed(centre)
            arrives, degree = run.counts.split(1, dim=1)
            z = torch.addmm(z, x * arrives, level.T)
            if "sum" in self.aggregators:
                z = torch.addmm(z, x * degree, total.T)
        else:
            own = multi_aggregate_target(x, run.statistics, self.aggregators)
            z = torch.addmm(z, own.flatten(1), centre.flatten(1).T)
        if run.edge is not None:
            z = torch.addmm(z, run.edge.flatten(1), edge[0].flatten(1).T)
        elif run.constant is not None:
            z, more = self._constant_edges(z, run, edge[0])
            offset = offset + more
        if run.scale is None:
            # The batch norm subtracts a constant again; only its running mean depends on it.
            bias = self.linear.bias + offset
        else:
            bias = self.linear.bias
            z = ((z + offset).unflatten(1, (self.scalers, self.hidden)) * run.scale).sum(1)
        return add_dropout(
            x, batch_norm_relu(z, bias, self.norm), run.batch.node_id, dropout, draws
        )

    def gated(
        self, x: Tensor, run: _Run, messages: Tensor, keep: Tensor, baseline: Tensor
    ) -> Tensor:
        """Run the layer without dropout, with gated messages.

        Args:
            x: Node embeddings, ``[N, hidden]``.
            run: What all layers share.
            messages: ``[E, d]``.
            keep: The share of each message that passes, ``[E]``.
            baseline: What stands for the rest, ``[d]``.

        Returns:
            ``[N, hidden]``.
        """
        passing = keep[:, None] * messages + (1 - keep)[:, None] * baseline
        z = x.new_zeros(())
        for part, block in zip(passing.split(self.hidden, dim=1), self._blocks(), strict=True):
            seen = multi_aggregate_edges(part, run.batch, run.attention, self.aggregators)
            z = z + seen.flatten(1) @ block.flatten(1).T
        if run.scale is not None:
            z = (z.unflatten(1, (self.scalers, self.hidden)) * run.scale).sum(1)
        return x + batch_norm_relu(z, self.linear.bias, self.norm)

    def _blocks(self) -> tuple[Tensor, ...]:
        """Per part of the message, W as [S · hidden, A, hidden]."""
        shape = (self.hidden, self.scalers, self.parts, len(self.aggregators), self.hidden)
        blocks = self.linear.weight.view(shape).permute(2, 1, 0, 3, 4).unbind(0)
        return tuple(block.flatten(0, 1) for block in blocks)

    def _named(self, block: Tensor) -> dict[str, Tensor]:
        """A part's W by aggregator, [S · hidden, hidden] each, 0 for those that are not used."""
        zero = block.new_zeros(len(block), self.hidden)
        named: dict[str, Tensor] = dict.fromkeys(AGGREGATORS, zero)
        return named | dict(zip(self.aggregators, block.unbind(1), strict=True))

    def _collapsed(self, block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """With weights of one: what multiplies x where an edge arrives, what multiplies degree · x
        [S · hidden, hidden], and a constant [S · hidden]."""
        w = self._named(block)
        return w["mean"] + w["min"] + w["max"], w["sum"], STD_EPS**0.5 * w["std"].sum(1)

    def _constant_edges(self, z: Tensor, run: _Run, block: Tensor) -> tuple[Tensor, Tensor]:
        """z plus the edges' part, by products of rank two or four; and a constant left over."""
        e = run.constant
        assert e is not None
        if run.statistics is None:
            level, total, offset = self._collapsed(block)
            return torch.addmm(z, run.counts, torch.cat([e @ level.T, e @ total.T])), offset
        w = self._named(block)
        up, down = e.clamp(min=0), e.clamp(max=0)  # a negative e turns min and max around
        vectors = [
            e @ w["mean"].T,
            up @ w["min"].T + down @ w["max"].T,
            up @ w["max"].T + down @ w["min"].T,
            e @ w["sum"].T,
        ]
        z = torch.addmm(z, run.statistics[:, [0, 1, 2, 4]], torch.cat(vectors))
        if run.spread is not None:
            z = torch.addmm(z, run.spread, w["std"].T)
        return z, z.new_zeros(())


class PNASettings(BackboneSettings):
    """``[backbone]`` of PNA."""

    hidden: PositiveInt = Field(80, description="Width of the node embeddings.")
    layers: PositiveInt = Field(4, description="Number of layers.")
    dropout: float = Field(0.3, ge=0, lt=1, description="Dropout after every layer.")
    edge_features: bool = Field(True, description="Whether the data's edge attributes are used.")
    aggregators: list[Aggregator] = Field(
        list(AGGREGATORS), min_length=1, description="Aggregations that stand side by side."
    )
    scalers: list[Scaler] = Field(
        [], description="How degrees scale the aggregations; none, as published with GSAT."
    )

    @field_validator("aggregators", "scalers")
    @classmethod
    def _different(cls, names: list[str]) -> list[str]:
        if len(set(names)) < len(names):
            raise ValueError(f"each one can be given once, not {names}")
        return names


@register_backbone("pna")
class PNA(GatedBackbone):
    """PNA: linear encoders, PNA layers, mean pooling and a head of three linear layers.

    With scalers, ``mean_log_degree`` is the mean of log(degree + 1) over the training nodes, which
    :meth:`for_data` computes; without, it is not used. (default: ``1.0``)
    """

    Settings: ClassVar[type[BackboneSettings]] = PNASettings
    results_version = 2
    mean_log_degree: Tensor

    def __init__(
        self, in_features: int, task: Task, *, mean_log_degree: float = 1.0, **settings: Any
    ) -> None:
        """Make the network.

        Args:
            in_features: Number of node features, the columns of ``x``.
            task: What the logits are for.
            mean_log_degree: Mean of log(degree + 1) over the training nodes; only scalers use it.
                (default: ``1.0``)
            **settings: The other arguments of :class:`Backbone`, and the settings by name.
        """
        super().__init__(in_features, task, **settings)
        if self.scalers:
            # Saved with the weights, not in the config: the model keeps it on any data.
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
            PNALayer(hidden, parts, self.aggregators, max(len(self.scalers), 1))
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
        x = self.encode(batch)
        run = self._run(batch, batch.weighted(attention))
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, PNALayer)
            if gate:
                messages = self._messages(x, batch)
                if gated := gate(number, x, messages):
                    x = layer.gated(x, run, messages, *gated)
                    continue
            source = draws.child("dropout", number) if draws else None
            x = layer(x, run, self.dropout, source)
        return x

    def read_out(self, embeddings: Tensor, batch: GraphBatch) -> Tensor:
        """Logits by the head, of mean-pooled graphs or of nodes."""
        return self.head(self.pooled(embeddings, batch, "mean"))

    def _run(self, batch: GraphBatch, attention: Tensor | None) -> _Run:
        degree = batch.dst_ptr.diff().to(self.encoder.weight.dtype)
        statistics = None if attention is None else weight_statistics(attention, batch)
        edge = constant = spread = None
        attribute = self._edge_attribute(batch)
        if attribute is not None:
            assert self.edge_encoder is not None
            if bool((attribute == attribute[:1]).all()):
                constant = self.edge_encoder(attribute[:1])
                if statistics is not None and "std" in self.aggregators:
                    spread = multi_aggregate_target(constant, statistics, ("std",))[:, 0]
            else:
                encoded = self.edge_encoder(attribute)
                edge = multi_aggregate_edges(encoded, batch, attention, self.aggregators)
        return _Run(
            batch,
            attention,
            statistics,
            torch.stack([(degree > 0).to(degree.dtype), degree], dim=1),
            edge,
            constant,
            spread,
            self._scale(degree) if self.scalers else None,
        )

    def _messages(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """[E, d], the parts in the order of the layers' columns: source, centre, edge."""
        parts = [x[batch.src], x[batch.dst]]
        attribute = self._edge_attribute(batch)
        if attribute is not None:
            assert self.edge_encoder is not None
            parts.append(self.edge_encoder(attribute[: batch.num_edges]))
        return torch.cat(parts, dim=1)

    def _edge_attribute(self, batch: GraphBatch) -> Tensor | None:
        """[E, D], or a row of zeros, which no edge reads, for graphs without edges."""
        if self.edge_encoder is None:
            return None
        if batch.num_edges == 0:
            return self.encoder.weight.new_zeros(1, self.edge_encoder.in_features)
        if batch.edge_attr is None:
            raise DataError("this PNA needs edge features and the graphs have none")
        return batch.edge_attr.to(self.encoder.weight.dtype)

    def _scale(self, degree: Tensor) -> Tensor:
        """[N, S, 1] from in-degrees [N]; a node without neighbours is attenuated as with one."""
        mean = self.mean_log_degree
        scales = {
            "identity": torch.ones_like(degree),
            "amplification": torch.log1p(degree) / mean,
            "attenuation": mean / torch.log1p(degree.clamp(min=1)),
        }
        return torch.stack([scales[name] for name in self.scalers], dim=1)[:, :, None]
