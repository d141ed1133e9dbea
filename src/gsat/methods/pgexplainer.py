"""PGExplainer (Luo et al., 2020): one small network gives the masks of all graphs.

    ω_uv = MLP(concat(z_u, z_v)),  z the frozen network's node embeddings
    α_uv = σ((ω_uv + log u − log(1 − u)) / τ),  averaged over the two directions
    loss = −log P(answer | edges weighted by α) + size · Σ α + entropy · mean H(α)

τ falls from epoch to epoch. The score of an edge is σ(ω), averaged over its directions.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gsat.attention import average_directions
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, TrainingSettings
from gsat.methods.posthoc import (
    Posthoc,
    PosthocMethod,
    PosthocSettings,
    Target,
    entropy,
    graph_mean,
    graph_sum,
)
from gsat.models import Backbone, ModelOutput, seeded
from gsat.ops import concrete

_HIDDEN = 64


class PGExplainerSettings(PosthocSettings):
    """``[method.pgexplainer]``.

    Attributes:
        explain_epochs: of the second phase. explain_lr: its learning rate.
        size: weight of the sum of a graph's mask. entropy: weight of its mean entropy.
        tau_start, tau_final: the temperature of the samples, in the first epoch and after the last.
    """

    explain_epochs: PositiveInt = 20
    explain_lr: float = Field(3e-3, gt=0)
    size: float = Field(0.01, ge=0)
    entropy: float = Field(0.01, ge=0)
    tau_start: float = Field(5.0, gt=0)
    tau_final: float = Field(1.0, gt=0)


class PGExplainer(Posthoc):
    """A network and an MLP that says which edges it used.

    Args:
        backbone: the network; it is not changed. target: see :class:`PGExplainerSettings`.
        seed: decides the MLP's initial weights.
    """

    def __init__(self, backbone: Backbone, *, target: Target = "prediction", seed: int = 0) -> None:
        super().__init__(backbone, target)
        with seeded(seed, "pgexplainer"):
            self.first = nn.Linear(2 * backbone.hidden, _HIDDEN)
            self.last = nn.Linear(_HIDDEN, 1)

    def forward(self, batch: GraphBatch) -> ModelOutput:
        """The network's own answers, and the edges' scores without noise."""
        with torch.no_grad():
            logits = self.backbone(batch)
        p = self.edge_logits(batch).sigmoid()
        return ModelOutput(logits, average_directions(p, batch), p, p)

    def edge_logits(self, batch: GraphBatch) -> Tensor:
        """ω [E]."""
        with torch.no_grad():
            z = self.backbone.embed(batch)
        source, target = self.first.weight.split(self.backbone.hidden, dim=1)
        # A linear layer on concat(z_u, z_v) is two on nodes.
        hidden = (z @ source.T)[batch.src] + (z @ target.T + self.first.bias)[batch.dst]
        return self.last(hidden.relu())[:, 0]


class PGExplainerMethod(PosthocMethod):
    """The MLP is trained on the training set."""

    name = "pgexplainer"
    title = "PGExplainer"
    summary = "one network that masks the edges of all graphs, learnt on the frozen backbone"
    paper = (
        "Luo et al., Parameterized Explainer for Graph Neural Network, NeurIPS 2020 "
        "(arXiv:2011.04573)"
    )
    Settings = PGExplainerSettings
    Model = PGExplainer
    model: PGExplainer
    settings: PGExplainerSettings

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """PGExplainer of a fresh backbone."""
        return cls(PGExplainer(backbone, target=settings.target, seed=seed), settings, training)

    @property
    def explain_epochs(self) -> int:
        """As set."""
        return self.settings.explain_epochs

    def make_optimisers(self) -> dict[str, Optimizer]:
        """One Adam on the MLP."""
        self._weights = [*self.model.first.parameters(), *self.model.last.parameters()]
        return {"adam": Adam(self._weights, self.settings.explain_lr)}

    def temperature(self, epoch: int) -> float:
        """τ of an epoch."""
        start, final = self.settings.tau_start, self.settings.tau_final
        return start * (final / start) ** (epoch / self.settings.explain_epochs)

    def explain_step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """One gradient step on a sampled mask."""
        with torch.no_grad():
            logits = self.model.backbone(batch)
        omega = self.model.edge_logits(batch)
        draws, tau = context.draws.child("masks"), self.temperature(context.epoch)
        alpha = average_directions(concrete(omega, batch.edge_id, draws, tau), batch)
        parts = self._losses(batch, logits, alpha)
        adam = self._optimisers["adam"]
        adam.zero_grad(set_to_none=True)
        parts["loss"].backward(inputs=self._weights)
        adam.step()
        return parts

    def explain(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, dict[str, Tensor]]:
        """Scores and losses without noise."""
        said = self.model(batch)
        return said, self._losses(batch, said.logits, said.edge_weight)

    def _losses(self, batch: GraphBatch, logits: Tensor, mask: Tensor) -> dict[str, Tensor]:
        answer = self.model.answer(logits, batch)
        masked = self.model.backbone(batch, attention=mask)
        parts = {
            "answer": self.model.task.graph_losses(masked, answer).mean(),
            "size": graph_sum(mask, batch).mean(),
            "entropy": graph_mean(entropy(mask), batch).mean(),
        }
        size, ent = self.settings.size, self.settings.entropy
        loss = parts["answer"] + size * parts["size"] + ent * parts["entropy"]
        return {"loss": loss, **parts}
