"""DIR (Wu et al., ICLR 2022): predict from a causal part of each graph, independent of the rest.

A generator scores edges. The highest-scored edges of a graph are its causal part, the others its
complement; one predictor reads both. Interventions gate the logits of a causal part by the
complements of all graphs of the batch in turn. The risk must be low, and equal, under all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from gsat.attention import average_directions
from gsat.core.errors import GSATError
from gsat.core.registry import register_method
from gsat.core.settings import ADDED_LATER, validated
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.subgraph import edge_subgraph
from gsat.methods.base import Context, Losses, Method, MethodSettings, Phase
from gsat.models import Backbone, InterpretableModel, LEConvNet, ModelOutput, seeded
from gsat.models.leconv import LEConvLayer, total_weight
from gsat.ops import Draws, relu_dropout, segment_topk_mask

Features = Literal["embeddings", "raw"]


class DIRSettings(MethodSettings):
    """``[method.dir]``."""

    ratio: float = Field(0.5, gt=0, lt=1, description="Share of edges that are causal.")
    alpha: float = Field(
        1e-4, ge=0, description="Weight of the interventions; multiplied by epoch^1.6."
    )
    step: Literal["batch", "epoch"] = Field(
        "batch",
        description="Whether to step after every batch, or once an epoch on accumulated gradients "
        "(published code, on Spurious-Motif).",
    )
    features: Features = Field(
        "embeddings",
        description="Node features of a part: the generator's embeddings or the raw ones.",
    )
    variance: Literal["risk", "graph"] = Field(
        "risk",
        description="Variance of the risk of each complement, times B² for a batch of B graphs, or "
        "of each graph's loss over the complements (published code, on Graph-SST2).",
    )
    statistics: Literal["causal", "both"] = Field(
        "causal",
        description="Parts that contribute to the predictor's batch norm statistics: 'causal', "
        "those that evaluation uses, or 'both' (published code).",
    )
    predictor_hidden: PositiveInt | None = Field(
        None, le=2048, description="Width of the predictor; absent: the backbone's."
    )
    extra_linear: bool = Field(
        False,
        description="Whether the complement's logits pass one more linear layer, which the gates "
        "do not use (published code, on Spurious-Motif).",
    )
    selectable_from: NonNegativeInt = Field(
        0,
        json_schema_extra=ADDED_LATER,
        description="First epoch that may be selected as the best.",
    )
    patience: NonNegativeInt = Field(
        0,
        json_schema_extra=ADDED_LATER,
        description="Training ends after this many epochs without a better one; 0: never.",
    )


DEFAULTS = DIRSettings.model_validate({})


class LEConvGenerator(LEConvNet):
    """The generator of the published network: LEConv on raw features, without a final ReLU."""

    def __init__(self, *args: Any, seed: int = 0, **settings: Any) -> None:
        super().__init__(*args, seed=seed, **settings)
        self.encoder = nn.Identity()  # type: ignore[assignment]
        with seeded(seed, "generator"):
            self.layers[0] = LEConvLayer(self.config["in_features"], self.hidden)

    def embed(  # type: ignore[override]  # it has no gates
        self, batch: GraphBatch, attention: Tensor | None = None, draws: Draws | None = None
    ) -> Tensor:
        """Node embeddings [N, hidden]; see :meth:`Backbone.embed`."""
        *inner, last = self.layers
        assert isinstance(last, LEConvLayer)
        x = batch.x.to(last.own.weight.dtype)
        weight = self.weights(batch, attention)
        total = total_weight(x, batch, weight)
        for layer in inner:
            x = relu_dropout(layer(x, batch, weight, total), batch.node_id, 0.0, None)
        return last(x, batch, weight, total)


class DIR(InterpretableModel):
    """Two networks of one type: a generator scores edges, a predictor reads parts of graphs."""

    predicts_by_backbone = False  # it only embeds parts of graphs
    method = "dir"

    def __init__(
        self,
        backbone: Backbone,
        *,
        ratio: float = DEFAULTS.ratio,
        features: Features = DEFAULTS.features,
        predictor_hidden: int | None = DEFAULTS.predictor_hidden,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if backbone.task.level == "node":
            raise GSATError("DIR splits graphs and needs labels of graphs, not of nodes")
        self.settings = {
            "ratio": ratio,
            "features": features,
            "predictor_hidden": predictor_hidden,
        }
        validated(DIRSettings, self.settings, owner="DIR")
        self._given = backbone.description
        described, task = {**backbone.config, "task": backbone.task}, backbone.task
        own_seed = Draws(seed, "dir").torch_seed()
        if isinstance(backbone, LEConvNet):
            self.generator: Backbone = LEConvGenerator(**described, seed=seed)
        else:
            self.generator = backbone
        described["hidden"] = predictor_hidden or backbone.hidden
        if features == "embeddings":
            described |= {"in_features": backbone.hidden, "categories": None}
        self.backbone = type(backbone)(**described, seed=own_seed)
        for name, buffer in backbone.named_buffers(recurse=False):
            self.backbone.get_buffer(name).copy_(buffer)
        # DIR has other heads, which read the inputs of the networks' heads.
        self.generator.head, self.backbone.head = nn.Identity(), nn.Identity()
        h, width = backbone.hidden, self.backbone.hidden
        with seeded(own_seed, "heads"):
            self.scorer = nn.Sequential(nn.Linear(2 * h, 4 * h), nn.ReLU(), nn.Linear(4 * h, 1))
            self.causal = head(width, task.num_logits)
        self.ratio, self.features = ratio, features
        self.task, self.on, self.r = task, "edge", None

    def score(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Node embeddings z ``[N, h]`` and edge scores s ``[E]``; higher ones are more causal."""
        z = self.generator.embed(batch)
        first, relu, last = self.scorer
        assert isinstance(first, nn.Linear)
        # W concat(z_u, z_v) = W_u z_u + W_v z_v: two products over nodes, not one over edges.
        sources, targets = first.weight.chunk(2, dim=1)
        u, v = z @ sources.T, torch.addmm(first.bias, z, targets.T)
        return z, last(relu(u.index_select(0, batch.src) + v.index_select(0, batch.dst)))[:, 0]

    def causal_edges(self, scores: Tensor, batch: GraphBatch) -> Tensor:
        """Mark the causal edges, ``[E]``: the int(ratio · E) highest-scored ones of each graph.

        At least one edge is causal and, in a graph of two or more, at least one is not.
        """
        edges = batch.edge_ptr.diff()
        count = (self.ratio * edges.double()).long()
        count = torch.minimum(count.clamp(min=1), (edges - 1).clamp(min=1)).minimum(edges)
        return segment_topk_mask(scores, batch.edge_ptr, count)

    def represent(
        self,
        batch: GraphBatch,
        z: Tensor,
        keep: Tensor,
        weight: Tensor,
        draws: Draws | None = None,
    ) -> Tensor:
        """Embed a part of each graph by the predictor, ``[B, h]``."""
        part, nodes = edge_subgraph(batch, keep)
        if self.features == "embeddings":
            part = replace(part, x=z.index_select(0, nodes))
        if part.num_edges == 0:  # batch norm fails without rows
            return z.new_zeros(batch.num_graphs, self.backbone.hidden)
        return self.backbone(part, weight[keep], draws)

    def embed(self, batch: GraphBatch) -> Tensor:
        """Embed the nodes of whole graphs by the generator, ``[N, h]``."""
        return self.generator.embed(batch)

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Predict from the causal parts.

        The score of an edge is sigmoid(s), with s averaged over both directions on undirected
        graphs.
        """
        z, s = self.score(batch)
        weight = torch.sigmoid(s)
        h = self.represent(batch, z, self.causal_edges(s, batch), weight, draws)
        shown = torch.sigmoid(average_directions(s, batch))
        return ModelOutput(self.causal(h), shown, weight, weight)

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {"backbone": self._given, **self.settings}

    def check_fits(self, store: GraphStore) -> None:
        """Raise a :class:`DataError` if graphs have other features than the model takes."""
        self.generator.check_fits(store)


def head(width: int, logits: int) -> nn.Sequential:
    """Two linear layers, width → 2 · width → logits."""
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, logits))


@register_method("dir")
class DIRMethod(Method):
    """Discovering Invariant Rationales."""

    title = "DIR"
    summary = "split graphs into a causal part and a rest, and swap the rests"
    paper = (
        "Wu et al., Discovering Invariant Rationales for Graph Neural Networks, ICLR "
        "2022 (arXiv:2201.12872)"
    )
    Settings = DIRSettings
    Model = DIR
    model: DIR
    settings: DIRSettings

    def set_up(self) -> None:
        """Make the networks of the complement, which only training needs."""
        logits = self.model.task.num_logits
        extra = self.settings.extra_linear
        with seeded(self.seed, "complement"):
            self.complement = head(self.model.backbone.hidden, logits)
            self.extra = nn.Linear(logits, logits) if extra else nn.Identity()

    def phases(self) -> tuple[Phase, ...]:
        """One phase, which may end early."""
        epochs, patience = self.training.epochs, self.settings.patience or None
        first = min(self.settings.selectable_from, epochs - 1)
        return (Phase("train", epochs, selectable_from=first, patience=patience),)

    def parameters(self) -> Iterable[nn.Parameter]:
        """The weights of all networks.

        The published code has two Adams. They share no weights, so one is equivalent.
        """
        return [w for network in self.networks().values() for w in network.parameters()]

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take a step on all losses, or accumulate their gradients until the end of the epoch."""
        parts = self.losses(batch, context)
        gathers = self.settings.step == "epoch"
        if not gathers or context.step == 0:
            self.optimiser.zero_grad(set_to_none=True)
        (parts["total"] / (context.steps if gathers else 1)).backward()
        if not gathers or context.step == context.steps - 1:
            self.optimiser.step()
        return parts

    def losses(self, batch: GraphBatch, context: Context) -> Losses:
        """All losses of a batch."""
        assert batch.y is not None
        model, task = self.model, self.model.task
        z, s = model.score(batch)
        causal = model.causal_edges(s, batch)
        drawn = context.draws.child
        h = model.represent(batch, z, causal, torch.sigmoid(s), drawn("causal"))
        with torch.no_grad(), self._statistics():  # complements train only their own head
            rest = model.represent(batch, z, ~causal, torch.sigmoid(-s), drawn("complement"))
        answers, gates = model.causal(h), self.complement(rest)
        intervened = answers * torch.sigmoid(gates.detach())[:, None]  # [complement, graph, logit]
        risks = task.losses(intervened, batch.y)
        if len(risks) < 2 or not risks.numel():
            variance = risks.sum() * 0.0
        elif self.settings.variance == "risk":
            variance = len(risks) ** 2 * risks.mean(dim=1).var()
        else:
            variance = risks.var(dim=0).mean()
        risk = risks.mean() if risks.numel() else variance
        parts = {
            "loss": task.loss(answers, batch.y),
            "risk": risk,
            "variance": variance,
            "complement": task.loss(self.extra(gates), batch.y),
        }
        alpha = self.settings.alpha * context.epoch**1.6
        parts["total"] = parts["loss"] + alpha * (risk + variance) + parts["complement"]
        return parts

    @contextmanager
    def _statistics(self) -> Iterator[None]:
        """Restore the predictor's batch norm statistics, unless both parts contribute."""
        kept = list(self.model.backbone.buffers()) if self.settings.statistics == "causal" else []
        before = [buffer.clone() for buffer in kept]
        yield
        for buffer, values in zip(kept, before, strict=True):
            buffer.copy_(values)

    def networks(self) -> dict[str, nn.Module]:
        """The model and the networks of the complement."""
        return {"model": self.model, "complement": self.complement, "extra": self.extra}
