"""DIR (Wu et al., ICLR 2022): predict from a causal part of each graph, whatever stands beside it.

A generator scores edges. The highest of each graph are its causal part, the others its complement;
one predictor reads both. The answer from a causal part is gated by the complements of all graphs of
the batch in turn (the interventions), and has to be good, and equally good, under all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, Self

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gsat.attention import average_directions
from gsat.errors import GSATError
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.subgraph import part_of
from gsat.methods.base import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.models import BACKBONES, Backbone, InterpretableModel, LEConvNet, ModelOutput, seeded
from gsat.models.leconv import LEConvLayer, total_weight
from gsat.ops import Draws, segment_topk_mask

Features = Literal["embeddings", "raw"]


class LEConvGenerator(LEConvNet):
    """The generator of DIR's own network: LEConv layers on the raw features, no ReLU at the end."""

    def __init__(self, *args: Any, seed: int = 0, **settings: Any) -> None:
        super().__init__(*args, seed=seed, **settings)
        self.encoder = nn.Identity()  # type: ignore[assignment]
        with seeded(seed, "generator"):
            self.layers[0] = LEConvLayer(self.config["in_features"], self.hidden)

    # Nobody asks to see its messages.
    def embed(  # type: ignore[override]
        self, batch: GraphBatch, attention: Tensor | None = None, draws: Draws | None = None
    ) -> Tensor:
        """Node embeddings [N, hidden]; see :meth:`Backbone.embed`."""
        *inner, last = self.layers
        assert isinstance(last, LEConvLayer)
        x = batch.x.to(last.own.weight.dtype)
        weight = self.weights(batch, attention, x.dtype)
        total = total_weight(x, batch, weight)
        for layer in inner:
            x = layer(x, batch, weight, total)
        return last.linear(x, batch, weight, total)


class DIR(InterpretableModel):
    """Two networks of one kind: a generator that scores edges, and a predictor that reads parts.

    Args:
        backbone: the kind of both, and the generator itself.
        ratio: the share of edges that are causal, at least one of each graph and not all.
        features: what nodes of a part bring along, the generator's ``embeddings`` or ``raw`` ones.
        predictor_hidden: width of the predictor; None for the backbone's own.
        seed: decides the initial weights of all but the backbone.
    """

    predicts_by_backbone = False  # it embeds parts of graphs; other heads read them

    def __init__(
        self,
        backbone: Backbone,
        *,
        ratio: float = 0.5,
        features: Features = "embeddings",
        predictor_hidden: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if backbone.task.level == "node":
            raise GSATError("DIR takes graphs apart and needs labels of graphs, not of nodes")
        if not 0 < ratio < 1:
            raise GSATError(f"the causal ratio lies between 0 and 1, not at {ratio}")
        described, task = {**backbone.config, "task": backbone.task}, backbone.task
        self.config = {
            "backbone": {"name": backbone.name, **backbone.config},
            "ratio": ratio,
            "features": features,
            "predictor_hidden": predictor_hidden,
        }
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
        # Heads of their own: what a network says before its last layers is what is wanted.
        self.generator.head, self.backbone.head = nn.Identity(), nn.Identity()
        h, width = backbone.hidden, self.backbone.hidden
        with seeded(own_seed, "heads"):
            self.scorer = nn.Sequential(nn.Linear(2 * h, 4 * h), nn.ReLU(), nn.Linear(4 * h, 1))
            self.causal = head(width, task.num_logits)
        self.ratio, self.features = ratio, features
        self.task, self.on, self.r = task, "edge", None

    def score(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Node embeddings z [N, h] and edge scores s [E], the higher the more causal."""
        z = self.generator.embed(batch)
        first, relu, last = self.scorer
        assert isinstance(first, nn.Linear)
        # A linear layer on concat(z_u, z_v) is one on z_u plus one on z_v: on nodes, not on edges.
        sources, targets = first.weight.chunk(2, dim=1)
        u, v = z @ sources.T, torch.addmm(first.bias, z, targets.T)
        return z, last(relu(u.index_select(0, batch.src) + v.index_select(0, batch.dst)))[:, 0]

    def causal_edges(self, scores: Tensor, batch: GraphBatch) -> Tensor:
        """Which edges are causal, [E] bool: of E edges of a graph the int(ratio · E) highest, at
        least one and, where there are two, not all."""
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
        """What the predictor reads in a part of each graph, [B, width]; zeros where it is empty.

        Args:
            z: [N, h]. keep: [E] bool, the edges of the part. weight: [E], of their messages.
            draws: the source of dropout masks; None for no dropout.
        """
        part, nodes = part_of(batch, keep)
        if self.features == "embeddings":
            part = replace(part, x=z.index_select(0, nodes))
        if part.num_edges == 0:  # of nothing there is no batch norm, either
            return z.new_zeros(batch.num_graphs, self.backbone.hidden)
        return self.backbone(part, weight[keep], draws)

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Logits from the causal parts. The score of an edge is sigmoid(s), with s averaged over
        both directions on undirected graphs."""
        z, s = self.score(batch)
        weight = torch.sigmoid(s)
        h = self.represent(batch, z, self.causal_edges(s, batch), weight, draws)
        shown = torch.sigmoid(average_directions(s, batch))
        return ModelOutput(self.causal(h), shown, weight, weight)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DIR:
        """The model :attr:`config` describes, with fresh weights."""
        settings = dict(config)
        described = dict(settings.pop("backbone"))
        return cls(BACKBONES[described.pop("name")].from_config(described), **settings)

    def check_fits(self, store: GraphStore) -> None:
        """Raise a :class:`DataError` when the graphs have other features than the model knows."""
        self.generator.check_fits(store)


def head(width: int, logits: int) -> nn.Sequential:
    """Two linear layers, width → 2 · width → logits."""
    return nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, logits))


class DIRSettings(MethodSettings):
    """``[method.dir]``.

    Attributes:
        ratio: share of edges that are causal.
        alpha: weight of the interventions; times epoch^1.6.
        step: after every ``batch``, or one ``epoch`` long gradients are gathered for one step
            (published code, on Spurious-Motif).
        features: of the nodes of a part: the generator's ``embeddings`` or ``raw``.
        variance: of the ``risk`` of each complement, times B² for a batch of B graphs; or of the
            loss of each ``graph`` over the complements (published code on Graph-SST2).
        statistics: of the predictor's batch norms, for evaluation: of ``causal`` parts, which it
            reads then, or of ``both`` parts (any shared network in training mode).
        predictor_hidden: width of the predictor, the backbone's own if absent.
        extra_linear: one more linear layer at the end of the complement's own answers, which the
            gates do not see (published code on Spurious-Motif).
    """

    ratio: float = Field(0.5, gt=0, lt=1)
    alpha: float = Field(1e-4, ge=0)
    step: Literal["batch", "epoch"] = "batch"
    features: Features = "embeddings"
    variance: Literal["risk", "graph"] = "risk"
    statistics: Literal["causal", "both"] = "causal"
    predictor_hidden: PositiveInt | None = None
    extra_linear: bool = False


class DIRMethod(Method):
    """Discovering invariant rationales."""

    name = "dir"
    title = "DIR"
    summary = "split graphs in a causal part and a rest, and swap the rests"
    paper = (
        "Wu et al., Discovering Invariant Rationales for Graph Neural Networks, ICLR "
        "2022 (arXiv:2201.12872)"
    )
    Settings = DIRSettings
    Model = DIR
    model: DIR

    def __init__(
        self, model: DIR, settings: DIRSettings, training: TrainingSettings, seed: int
    ) -> None:
        self.model, self.settings, self.training = model, settings, training
        logits = model.task.num_logits
        with seeded(seed, "complement"):
            self.complement = head(model.backbone.hidden, logits)
            self.extra = nn.Linear(logits, logits) if settings.extra_linear else nn.Identity()

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """DIR with a generator and a predictor like the backbone."""
        given = settings.model_dump(include={"ratio", "features", "predictor_hidden"})
        return cls(DIR(backbone, **given, seed=seed), settings, training, seed)

    def phases(self) -> tuple[Phase, ...]:
        """One phase; any epoch may be the best."""
        return (Phase("train", self.training.epochs),)

    def begin(self, phase: str) -> None:
        """One Adam; the two the method has share no weights, no gradients and no settings."""
        weights = [w for network in self.networks().values() for w in network.parameters()]
        self.optimiser = Adam(
            weights, self.training.lr, weight_decay=self.training.weight_decay, fused=True
        )

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """Gradients of all losses; a step on them, or on their mean at the end of the epoch."""
        parts = self.losses(batch, context)
        gathers = self.settings.step == "epoch"
        if not gathers or context.step == 0:
            self.optimiser.zero_grad(set_to_none=True)
        (parts["total"] / (context.steps if gathers else 1)).backward()
        if not gathers or context.step == context.steps - 1:
            self.optimiser.step()
        return parts

    def losses(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """``loss`` of the causal parts, ``risk`` and ``variance`` of the interventions,
        ``complement``, the loss of the complements, and their ``total``."""
        assert batch.y is not None
        model, task = self.model, self.model.task
        z, s = model.score(batch)
        causal = model.causal_edges(s, batch)
        drawn = context.draws.child
        h = model.represent(batch, z, causal, torch.sigmoid(s), drawn("causal"))
        with torch.no_grad(), self._statistics():  # the complement teaches its own head alone
            beside = model.represent(batch, z, ~causal, torch.sigmoid(-s), drawn("complement"))
        answers, gates = model.causal(h), self.complement(beside)
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
        """Inside, what the predictor's batch norms learn for evaluation is lost again, unless it
        is wanted: causal parts alone are read there."""
        kept = list(self.model.backbone.buffers()) if self.settings.statistics == "causal" else []
        before = [buffer.clone() for buffer in kept]
        yield
        for buffer, was in zip(kept, before, strict=True):
            buffer.copy_(was)

    def evaluate(
        self, batch: GraphBatch, context: Context
    ) -> tuple[ModelOutput, dict[str, Tensor]]:
        """From the causal parts alone, without dropout."""
        assert batch.y is not None
        said = self.model(batch)
        return said, {"loss": self.model.task.loss(said.logits, batch.y)}

    def optimisers(self) -> dict[str, Optimizer]:
        """The one Adam."""
        return {"adam": self.optimiser}

    def networks(self) -> dict[str, nn.Module]:
        """The model, and what only training needs."""
        return {"model": self.model, "complement": self.complement, "extra": self.extra}
