"""GraphMask (Schlichtkrull et al., 2021): which messages of which layer can be left out.

In each layer a small network looks at source, message and target of every edge, as they are in the
network's own run, and says whether the message passes (z = 1) or a learnt baseline takes its place:

    m'_uv = z_uv · m_uv + (1 − z_uv) · b,   z hard concrete, rounded, its gradient passed through

As few messages as possible are to pass while the answer stays what it was:

    min over gates and b, max over λ:   penalty · Σ_layers P(z > 0) + softplus(λ) · (D − β)₊

D is how much larger the loss towards the network's own answer is than in its own run: 0 with all
gates open, so that an unsure network can be explained, too. λ rises while D > β, else it falls.
Layers are gated one after the other, the last one first.
"""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Adam, Optimizer, RMSprop

from gsat.attention import average_directions
from gsat.errors import GSATError
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, TrainingSettings
from gsat.methods.posthoc import (
    Posthoc,
    PosthocMethod,
    PosthocSettings,
    Target,
    graph_mean,
)
from gsat.models import Backbone, ModelOutput, seeded
from gsat.models.backbone import GatedBackbone
from gsat.ops import Draws, concrete

Across = Literal["mean", "max"]
Sees = Literal["layer", "network"]

# Where λ starts, and the range it is kept in.
_MULTIPLIER, _LOWEST, _HIGHEST = 0.55, -2.0, 30.0


class GraphMaskSettings(PosthocSettings):
    """``[method.graphmask]``.

    Attributes:
        epochs_per_layer: after so many, the next layer is gated, too. explain_lr: of the gates.
        multiplier_lr: of λ. penalty: weight of the share of messages that pass (ℓ0).
        allowance: β, how much farther from the network's own answer is put up with.
        temperature, gamma, zeta, loc: of the hard concrete distribution.
        sees: whether a gate looks at nodes as they leave the ``network``, or (its authors' own) as
            they come into its ``layer``; where all nodes begin alike, the first layers have
            nothing to look at then.
        across: an edge's score is the ``mean`` or the ``max`` over layers.
    """

    epochs_per_layer: PositiveInt = 25
    explain_lr: float = Field(3e-3, gt=0)
    multiplier_lr: float = Field(1e-2, gt=0)
    penalty: float = Field(1.0, ge=0)
    allowance: float = Field(0.03, ge=0)
    temperature: float = Field(1 / 3, gt=0)
    gamma: float = Field(-0.2, lt=0)
    zeta: float = Field(1.0, gt=0)
    loc: float = 3.0
    sees: Sees = "network"
    across: Across = "mean"


class LayerGate(nn.Module):
    """Source and target [E, h] and message [E, d] to a logit per edge, and the baseline [d]."""

    def __init__(self, hidden: int, message_size: int) -> None:
        super().__init__()
        widths = (hidden, message_size, hidden)
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden, bias=False), nn.LayerNorm(hidden))
            for width in widths
        )
        self.bias = nn.Parameter(torch.zeros(hidden))
        self.last = nn.Linear(hidden, 1)
        bound = 1 / math.sqrt(message_size)
        self.baseline = nn.Parameter(torch.empty(message_size).uniform_(-bound, bound))

    def forward(self, x: Tensor, messages: Tensor, batch: GraphBatch) -> Tensor:
        """Logits [E], from a layer's input [N, h] and messages [E, d]."""
        source, message, target = self.parts
        sums = source(x)[batch.src] + message(messages) + target(x)[batch.dst]
        return self.last(((sums + self.bias) / len(self.parts)).relu())[:, 0]


class GraphMask(Posthoc):
    """A network and, for each of its layers, a gate on the messages.

    Args:
        backbone: GIN, PNA or LEConv; it is not changed.
        loc: added to the gates' logits, so that they start open.
        sees, across, target: see :class:`GraphMaskSettings`.
        seed: decides the gates' initial weights.
    """

    backbone: GatedBackbone

    def __init__(
        self,
        backbone: Backbone,
        *,
        loc: float = 3.0,
        sees: Sees = "network",
        across: Across = "mean",
        target: Target = "prediction",
        seed: int = 0,
    ) -> None:
        if not isinstance(backbone, GatedBackbone):
            raise GSATError(
                "GraphMask replaces messages inside the layers, which it can in GIN, PNA and "
                "LEConv networks of gsat only; take gnnexplainer or pgexplainer"
            )
        super().__init__(backbone, target, loc=loc, sees=sees, across=across)
        self.loc, self.sees, self.across = loc, sees, across
        with seeded(seed, "graphmask"):
            self.gates = nn.ModuleList(
                LayerGate(backbone.hidden, backbone.message_size) for _ in range(backbone.hops)
            )

    def forward(self, batch: GraphBatch, first: int = 0) -> ModelOutput:
        """The network's own answers, and the edges' scores over the layers from ``first`` on.

        A layer's score is the gate's probability σ(ω + loc). Stretched and cut off as in training,
        or rounded, it would not rank the edges at either end.
        """
        return self.said(batch, *self.look(batch, first))

    def said(self, batch: GraphBatch, logits: Tensor, omega: Tensor) -> ModelOutput:
        """The same from what :meth:`look` gave."""
        open_ = omega.sigmoid()
        score = open_.mean(dim=0) if self.across == "mean" else open_.amax(dim=0)
        return ModelOutput(logits, average_directions(score, batch), score, score)

    def look(self, batch: GraphBatch, first: int = 0) -> tuple[Tensor, Tensor]:
        """The network's own logits [B, num_logits], and ω + loc of the layers from ``first`` on,
        [L − first, E]."""
        seen: list[tuple[Tensor, Tensor]] = []
        with torch.no_grad():
            embeddings = self.backbone.embed(batch, gate=lambda _, *at: seen.append(at))
            logits = self.backbone.read_out(embeddings, batch)
        omega = [
            gate(x if self.sees == "layer" else embeddings, messages, batch) + self.loc
            for gate, (x, messages) in zip(self.gates[first:], seen[first:], strict=True)
        ]
        return logits, torch.stack(omega)

    def gated(self, batch: GraphBatch, keep: Tensor, first: int = 0) -> Tensor:
        """Logits [B, num_logits] where of each message the share ``keep`` [L − first, E] passes."""

        def gate(layer: int, *_: Tensor) -> tuple[Tensor, Tensor] | None:
            if layer < first:
                return None
            own = self.gates[layer]
            assert isinstance(own, LayerGate)
            return keep[layer - first], own.baseline

        return self.backbone.read_out(self.backbone.embed(batch, gate=gate), batch)


class GraphMaskMethod(PosthocMethod):
    """The gates are trained on the training set."""

    name = "graphmask"
    title = "GraphMask"
    summary = "one network that gates the messages of each layer, learnt on the frozen backbone"
    paper = (
        "Schlichtkrull, De Cao and Titov, Interpreting Graph Neural Networks for NLP "
        "With Differentiable Edge Masking, ICLR 2021 (arXiv:2010.00577)"
    )
    Settings = GraphMaskSettings
    Model = GraphMask
    model: GraphMask
    settings: GraphMaskSettings

    def __init__(
        self, model: GraphMask, settings: GraphMaskSettings, training: TrainingSettings
    ) -> None:
        super().__init__(model, settings, training)
        self.multiplier = nn.ParameterDict({"lambda": nn.Parameter(torch.tensor(_MULTIPLIER))})

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """GraphMask of a fresh backbone."""
        model = GraphMask(
            backbone,
            loc=settings.loc,
            sees=settings.sees,
            across=settings.across,
            target=settings.target,
            seed=seed,
        )
        return cls(model, settings, training)

    @property
    def explain_epochs(self) -> int:
        """So many for each layer."""
        return self.settings.epochs_per_layer * len(self.model.gates)

    def first_layer(self, epoch: int) -> int:
        """The first layer that is gated in an epoch: the last one at the start, then those before
        it."""
        return len(self.model.gates) - 1 - epoch // self.settings.epochs_per_layer

    def make_optimisers(self) -> dict[str, Optimizer]:
        """Adam on the gates and baselines, RMSprop on λ."""
        self._weights = list(self.model.gates.parameters())
        return {
            "gates": Adam(self._weights, self.settings.explain_lr),
            "multiplier": RMSprop(
                self.multiplier.parameters(), self.settings.multiplier_lr, centered=True
            ),
        }

    def networks(self) -> dict[str, nn.Module]:
        """With λ."""
        return {**super().networks(), "multiplier": self.multiplier}

    def explain_step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """One step down for the gates and one up for λ."""
        first = self.first_layer(context.epoch)
        logits, omega = self.model.look(batch, first)
        keep = self.sample(omega, batch, context.draws.child("gates"))
        parts = self._losses(batch, logits, omega, keep, first)
        gates, multiplier = self._optimisers["gates"], self._optimisers["multiplier"]
        gates.zero_grad(set_to_none=True)
        used = list(self.model.gates[first:].parameters())
        parts["loss"].backward(inputs=used)
        gates.step()
        weight = self.multiplier["lambda"]
        # Up: the sign is turned around. The gap, not (gap)₊, or λ could never fall.
        gap = parts["answer"].detach() - self.settings.allowance
        weight.grad = -gap * weight.detach().sigmoid()
        multiplier.step()
        with torch.no_grad():
            weight.clamp_(_LOWEST, _HIGHEST)
        return parts

    def sample(self, omega: Tensor, batch: GraphBatch, draws: Draws) -> Tensor:
        """Hard concrete z, 0 or 1, with the gradient of its soft form, [L, E] to [L, E]."""
        soft = [
            # Named from the last layer on, which is always there.
            concrete(each, batch.edge_id, draws.child(number), self.settings.temperature)
            for number, each in enumerate(omega.flip(0))
        ]
        gamma, zeta = self.settings.gamma, self.settings.zeta
        stretched = (torch.stack(soft[::-1]) * (zeta - gamma) + gamma).clamp(0, 1)
        return (stretched > 0.5).to(stretched.dtype) + (stretched - stretched.detach())

    def explain(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, dict[str, Tensor]]:
        """Scores and losses; without noise, a gate is open or closed."""
        first = self.first_layer(context.epoch)
        logits, omega = self.model.look(batch, first)
        gamma, zeta = self.settings.gamma, self.settings.zeta
        keep = (omega.sigmoid() * (zeta - gamma) + gamma > 0.5).to(omega.dtype)
        said = self.model.said(batch, logits, omega)
        return said, self._losses(batch, logits, omega, keep, first)

    def _losses(
        self, batch: GraphBatch, logits: Tensor, omega: Tensor, keep: Tensor, first: int
    ) -> dict[str, Tensor]:
        settings = self.settings
        answer = self.model.answer(logits, batch)
        said = self.model.gated(batch, keep, first)
        far = [self.model.task.graph_losses(each, answer).mean() for each in (said, logits)]
        off = omega - settings.temperature * math.log(-settings.gamma / settings.zeta)
        parts = {
            "answer": far[0] - far[1],
            "penalty": sum(graph_mean(layer.sigmoid(), batch).mean() for layer in off),
            "open": keep.detach().mean(),
            "lambda": self.multiplier["lambda"].detach().clone(),
        }
        over = (parts["answer"] - settings.allowance).relu()
        loss = settings.penalty * parts["penalty"] + F.softplus(parts["lambda"]) * over
        return {"loss": loss, **parts}
