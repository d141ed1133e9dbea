"""GraphMask (Schlichtkrull et al., 2021): which messages of which layer can be left out.

In each layer, a small network reads source, message and target of every edge, as they are without
gates, and decides whether the message passes (z = 1) or a learnt baseline replaces it:

    m'_uv = z_uv · m_uv + (1 − z_uv) · b,   z hard concrete, rounded, straight-through gradient

It lets as few messages pass as possible while the prediction stays the same:

    min over gates and b, max over λ:   penalty · Σ_layers P(z > 0) + softplus(λ) · (D − β)₊

D is the loss with respect to the network's own prediction (``constraint = "published"``), or the
increase of this loss by the gates: 0 with all gates open, so that a network that is unsure can be
explained, too. λ rises while D > β; with the increase, it falls again otherwise. Layers are gated
one after the other, starting with the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Adam, Optimizer, RMSprop

from gsat.attention import average_directions
from gsat.core.errors import GSATError
from gsat.core.registry import register_method
from gsat.core.settings import ADDED_LATER
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, Losses
from gsat.methods.post_hoc import (
    PostHocMethod,
    PostHocModel,
    PostHocSettings,
    Target,
    graph_mean,
)
from gsat.models import Backbone, GatedBackbone, ModelOutput, seeded
from gsat.ops import Draws, concrete

Across = Literal["mean", "max"]
Sees = Literal["layer", "network"]
Constraint = Literal["relative", "published"]
Mode = Literal["evaluation", "training"]

# Initial value and limits of λ.
_MULTIPLIER, _LOWEST, _HIGHEST = 0.55, -2.0, 30.0


class GraphMaskSettings(PostHocSettings):
    """``[method.graphmask]``."""

    epochs_per_layer: PositiveInt = Field(
        25, le=100_000, description="Epochs until the next layer is gated, too."
    )
    explain_lr: float = Field(3e-3, gt=0, description="Learning rate of the gates.")
    multiplier_lr: float = Field(1e-2, gt=0, description="Learning rate of λ.")
    penalty: float = Field(1.0, ge=0, description="Weight of the share of messages that pass (ℓ0).")
    allowance: float = Field(0.03, ge=0, description="β, the limit of the loss or of its increase.")
    constraint: Constraint = Field(
        "relative",
        json_schema_extra=ADDED_LATER,
        description="What β limits: the increase of the loss by the gates, and λ falls while it "
        "is smaller ('relative'); or the loss towards the explained answer, and λ never falls "
        "(published code).",
    )
    mode: Mode = Field(
        "evaluation",
        json_schema_extra=ADDED_LATER,
        description="Mode of the network with gates while they are learnt: 'training' has dropout "
        "and batch statistics (published code).",
    )
    temperature: float = Field(
        1 / 3, gt=0, description="Temperature of the hard concrete distribution."
    )
    gamma: float = Field(-0.2, lt=0, description="Lower end of the stretched distribution.")
    zeta: float = Field(1.0, gt=0, description="Upper end of the stretched distribution.")
    loc: float = Field(3.0, description="Added to the gates' logits, so that they start open.")
    sees: Sees = Field(
        "network",
        description="Node embeddings that a gate reads: the last ones of the 'network', or, as in "
        "the paper, the inputs of its 'layer', which are equal for nodes with equal features.",
    )
    across: Across = Field(
        "mean", description="How the scores of an edge are combined over layers."
    )


DEFAULTS = GraphMaskSettings.model_validate({})


class LayerGate(nn.Module):
    """The gate of a layer: a logit per edge, and the baseline."""

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
        """Logits ``[E]``, from node embeddings ``[N, h]`` and messages ``[E, d]``."""
        source, message, target = self.parts
        sums = source(x)[batch.src] + message(messages) + target(x)[batch.dst]
        return self.last(((sums + self.bias) / len(self.parts)).relu())[:, 0]


class GraphMask(PostHocModel):
    """A network and, for each of its layers, a gate on the messages."""

    method = "graphmask"
    backbone: GatedBackbone

    def __init__(
        self,
        backbone: Backbone,
        *,
        loc: float = DEFAULTS.loc,
        sees: Sees = DEFAULTS.sees,
        across: Across = DEFAULTS.across,
        target: Target = DEFAULTS.target,
        seed: int = 0,
    ) -> None:
        if not isinstance(backbone, GatedBackbone):
            raise GSATError(
                "GraphMask replaces messages inside the layers, which needs a GIN, PNA or LEConv "
                f"network of gsat, not a {type(backbone).__name__}; use gnnexplainer or pgexplainer"
            )
        super().__init__(backbone, target, loc=loc, sees=sees, across=across)
        self.loc, self.sees, self.across = loc, sees, across
        with seeded(seed, "graphmask"):
            self.gates = nn.ModuleList(
                LayerGate(backbone.hidden, backbone.message_size) for _ in range(backbone.hops)
            )

    def forward(self, batch: GraphBatch, first: int = 0) -> ModelOutput:
        """The logits without gates, and the edge scores over the layers from ``first`` on.

        The score in a layer is the gate's probability σ(ω + loc). The stretched, clipped and
        rounded values of training would rank many edges equally.
        """
        return self.output(batch, *self.gate_logits(batch, first))

    def output(self, batch: GraphBatch, logits: Tensor, omega: Tensor) -> ModelOutput:
        """The output, from the result of :meth:`gate_logits`."""
        open_ = omega.sigmoid()
        score = open_.mean(dim=0) if self.across == "mean" else open_.amax(dim=0)
        return ModelOutput(logits, average_directions(score, batch), score, score)

    def gate_logits(self, batch: GraphBatch, first: int = 0) -> tuple[Tensor, Tensor]:
        """The logits without gates ``[B, num_logits]``, and those of the gates ``[L, E]``."""
        seen: list[tuple[Tensor, Tensor]] = []
        with torch.no_grad():
            embeddings = self.backbone.embed(batch, gate=lambda _, *at: seen.append(at))
            logits = self.backbone.read_out(embeddings, batch)
        omega = [
            gate(x if self.sees == "layer" else embeddings, messages, batch) + self.loc
            for gate, (x, messages) in zip(self.gates[first:], seen[first:], strict=True)
        ]
        return logits, torch.stack(omega)

    def gated(
        self, batch: GraphBatch, keep: Tensor, first: int = 0, draws: Draws | None = None
    ) -> Tensor:
        """The logits with gated messages, and dropout if there are draws.

        ``keep`` holds z ``[L, E]``.
        """

        def gate(layer: int, *_: Tensor) -> tuple[Tensor, Tensor] | None:
            if layer < first:
                return None
            layer_gate = self.gates[layer]
            assert isinstance(layer_gate, LayerGate)
            return keep[layer - first], layer_gate.baseline

        return self.backbone.read_out(self.backbone.embed(batch, draws=draws, gate=gate), batch)


@contextmanager
def batch_statistics(network: nn.Module) -> Iterator[None]:
    """Training mode; afterwards evaluation mode, with the running statistics of before."""
    kept = [(m, dict(m.named_buffers(recurse=False))) for m in network.modules()]
    try:
        for module, buffers in kept:
            for name, buffer in buffers.items():
                setattr(module, name, buffer.clone())
        network.train()
        yield
    finally:
        network.eval()
        for module, buffers in kept:
            for name, buffer in buffers.items():
                setattr(module, name, buffer)


@register_method("graphmask")
class GraphMaskMethod(PostHocMethod):
    """The gates are trained on the training set."""

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

    def set_up(self) -> None:
        """Make λ, which only training needs."""
        super().set_up()
        self.multiplier = nn.ParameterDict({"lambda": nn.Parameter(torch.tensor(_MULTIPLIER))})

    @property
    def explain_epochs(self) -> int:
        """The same number for each layer."""
        return self.settings.epochs_per_layer * len(self.model.gates)

    def first_layer(self, epoch: int) -> int:
        """The first gated layer of an epoch: only the last at first, then one more each time."""
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
        """The networks, and λ."""
        return {**super().networks(), "multiplier": self.multiplier}

    def explain_step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take one step down for the gates and one up for λ."""
        first = self.first_layer(context.epoch)
        logits, omega = self.model.gate_logits(batch, first)
        keep = self.sample(omega, batch, context.draws.child("gates"))
        if self.settings.mode == "training":
            with batch_statistics(self.model.backbone):
                gated = self.model.gated(batch, keep, first, context.draws)
        else:
            gated = self.model.gated(batch, keep, first)
        parts = self._losses(batch, logits, omega, keep, gated)
        gates, multiplier = self._optimisers["gates"], self._optimisers["multiplier"]
        gates.zero_grad(set_to_none=True)
        used = list(self.model.gates[first:].parameters())
        parts["loss"].backward(inputs=used)
        gates.step()
        weight = self.multiplier["lambda"]
        gap = parts["answer"].detach() - self.settings.allowance
        if self.settings.constraint == "published":
            gap = gap.relu()
        weight.grad = -gap * weight.detach().sigmoid()  # ascent: the sign is reversed
        multiplier.step()
        with torch.no_grad():
            weight.clamp_(_LOWEST, _HIGHEST)
        return parts

    def sample(self, omega: Tensor, batch: GraphBatch, draws: Draws) -> Tensor:
        """Sample hard concrete z, 0 or 1, with the gradient of its soft form, ``[L, E]``."""
        soft = [
            # Draws are numbered from the last layer on, which is always gated.
            concrete(each, batch.edge_id, draws.child(number), self.settings.temperature)
            for number, each in enumerate(omega.flip(0))
        ]
        gamma, zeta = self.settings.gamma, self.settings.zeta
        stretched = (torch.stack(soft[::-1]) * (zeta - gamma) + gamma).clamp(0, 1)
        return (stretched > 0.5).to(stretched.dtype) + (stretched - stretched.detach())

    def explain(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """Scores and losses without noise: each gate is open or closed."""
        first = self.first_layer(context.epoch)
        logits, omega = self.model.gate_logits(batch, first)
        gamma, zeta = self.settings.gamma, self.settings.zeta
        keep = (omega.sigmoid() * (zeta - gamma) + gamma > 0.5).to(omega.dtype)
        output = self.model.output(batch, logits, omega)
        gated = self.model.gated(batch, keep, first)
        return output, self._losses(batch, logits, omega, keep, gated)

    def _losses(
        self, batch: GraphBatch, logits: Tensor, omega: Tensor, keep: Tensor, gated: Tensor
    ) -> Losses:
        settings = self.settings
        answer = self.model.explained_label(logits, batch)
        lost, own = (self.model.task.graph_losses(each, answer).mean() for each in (gated, logits))
        off = omega - settings.temperature * math.log(-settings.gamma / settings.zeta)
        parts = {
            "answer": lost if settings.constraint == "published" else lost - own,
            "penalty": sum(graph_mean(layer.sigmoid(), batch).mean() for layer in off),
            "open": keep.detach().mean(),
            "lambda": self.multiplier["lambda"].detach().clone(),
        }
        over = (parts["answer"] - settings.allowance).relu()
        loss = settings.penalty * parts["penalty"] + F.softplus(parts["lambda"]) * over
        return {"loss": loss, **parts}
