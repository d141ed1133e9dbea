"""Principal Neighbourhood Aggregation, as published with GSAT: several aggregations side by side.

    m_uv = w_uv · concat(x_v, x_u, e_uv)
    x'_v = Dropout(x_v + ReLU(BatchNorm(W concat_a(aggregate_a m_uv) + b)))

No message is ever made: W is taken apart into a block per part of the message and aggregator. The
centre's part needs statistics of the weights alone; so does an edge attribute that is the same on
all edges. Without attention these parts of mean, min and max are equal and that of std is a
constant, so that five blocks of W collapse to two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, get_args

import torch
from torch import Tensor, nn

from gsat.errors import DataError, GSATError
from gsat.graphs import GraphBatch
from gsat.models.backbone import Gate, GatedBackbone, check_dropout, seeded
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
from gsat.tasks import Task

if TYPE_CHECKING:
    from gsat.datasets.load import Dataset

Scaler = Literal["identity", "amplification", "attenuation"]


class _Run(NamedTuple):
    """What all layers share in one run over a batch.

    Attributes:
        attention: [E] or None. statistics: [N, 5] of it, or None.
        counts: [N, 2], whether an edge arrives, and how many.
        edge: aggregated edge attributes [N, A, h]; None without them or where they are constant.
        constant: the edge attribute of all edges, [1, h]; None where they differ.
        spread: [N, h], the std of the constant part under attention, or None.
        scale: [N, S, 1] or None.
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
    """One layer; see the module's own words. The columns of ``linear`` are ordered by scaler, part
    of the message (source, centre, edge), aggregator and channel."""

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
        """[N, hidden] to [N, hidden]."""
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
            # The batch norm takes a constant away again; only its running mean has to know.
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
        """The same without dropout, where of each message [E, d] the share ``keep`` [E] passes and
        ``baseline`` [d] stands for the rest."""
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
        """A part's W by aggregator, [S · hidden, hidden] each, 0 for those that are not asked."""
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


class PNA(GatedBackbone):
    """PNA: linear encoders, ``layers`` of :class:`PNALayer`, mean pooling and a head of three
    linear layers.

    Args:
        in_features: columns of ``x``. edge_features: columns of ``edge_attr``, 0 to ignore it.
        task: what the logits are for. hidden: width. layers: depth. dropout: after every layer.
        aggregators: some of ``mean``, ``min``, ``max``, ``std``, ``sum``.
        scalers: some of ``identity``, ``amplification``, ``attenuation``; none (as published with
            GSAT) leaves the aggregations as they are.
        mean_log_degree: mean of log(degree + 1) over the training nodes, for the scalers.
        categories: how many categories each column of ``x`` has, if columns are categories.
        seed: decides the initial weights.
    """

    name = "pna"
    mean_log_degree: Tensor

    def __init__(
        self,
        in_features: int,
        task: Task,
        *,
        edge_features: int = 0,
        hidden: int = 80,
        layers: int = 4,
        dropout: float = 0.3,
        aggregators: Sequence[Aggregator] = AGGREGATORS,
        scalers: Sequence[Scaler] = (),
        mean_log_degree: float = 1.0,
        categories: Sequence[int] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_dropout(dropout)
        _check_names("aggregators", aggregators, AGGREGATORS, at_least=1)
        _check_names("scalers", scalers, get_args(Scaler), at_least=0)
        self.hidden, self.task, self.dropout = hidden, task, dropout
        self.aggregators, self.scalers = tuple(aggregators), tuple(scalers)
        self.config = {
            "in_features": in_features,
            "categories": None if categories is None else list(categories),
            "task": task.as_dict(),
            "edge_features": edge_features,
            "hidden": hidden,
            "layers": layers,
            "dropout": dropout,
            "aggregators": list(aggregators),
            "scalers": list(scalers),
        }
        parts = 3 if edge_features else 2
        self.message_size = parts * hidden
        with seeded(seed, "pna"):
            self.encoder = node_encoder(in_features, hidden, categories)
            self.edge_encoder = nn.Linear(edge_features, hidden) if edge_features else None
            self.layers = nn.ModuleList(
                PNALayer(hidden, parts, self.aggregators, max(len(self.scalers), 1))
                for _ in range(layers)
            )
            half, quarter = max(hidden // 2, 1), max(hidden // 4, 1)
            self.head = nn.Sequential(
                nn.Linear(hidden, half), nn.ReLU(),
                nn.Linear(half, quarter), nn.ReLU(),
                nn.Linear(quarter, task.num_logits),
            )  # fmt: skip
        if self.scalers:
            # Saved with the weights, not in the config: the model keeps it on any data.
            self.register_buffer("mean_log_degree", torch.tensor(mean_log_degree))

    @classmethod
    def for_data(
        cls, data: Dataset, *, seed: int = 0, edge_features: bool = True, **settings: Any
    ) -> Self:
        """See :meth:`Backbone.for_data`; the scalers learn the degrees of the training nodes."""
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
        """Node embeddings [N, hidden]; see :meth:`GatedBackbone.embed`."""
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
        """Logits by the head, after mean pooling or of single nodes."""
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


def _check_names(what: str, given: Sequence[str], known: Sequence[str], at_least: int) -> None:
    if set(given) - set(known) or len(set(given)) < max(len(given), at_least):
        raise GSATError(f"{what} are different ones of {', '.join(known)}, not {list(given)}")
