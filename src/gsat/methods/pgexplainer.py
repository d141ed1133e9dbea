"""PGExplainer (Luo et al., 2020): one small network computes the masks of all graphs.

    ω_uv = MLP(concat(z_u, z_v)),  z the frozen network's node embeddings
    α_uv = σ((ω_uv + log u − log(1 − u)) / τ),  averaged over the two directions
    loss = −log P(answer | edges weighted by α) + size · Σ α + entropy · mean H(α)

τ falls from epoch to epoch. The score of an edge is σ(ω), averaged over its directions.
"""

from __future__ import annotations

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from gsat.attention import average_directions
from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, Losses
from gsat.methods.post_hoc import (
    PostHocMethod,
    PostHocModel,
    PostHocSettings,
    Target,
    mask_losses,
)
from gsat.models import Backbone, ModelOutput, seeded
from gsat.ops import concrete

_HIDDEN = 64


class PGExplainerSettings(PostHocSettings):
    """``[method.pgexplainer]``."""

    explain_epochs: PositiveInt = Field(20, le=100_000, description="Epochs of the second phase.")
    explain_lr: float = Field(3e-3, gt=0, description="Learning rate of the second phase.")
    size: float = Field(0.01, ge=0, description="Weight of the sum of a graph's mask.")
    entropy: float = Field(0.01, ge=0, description="Weight of the mask's mean entropy.")
    tau_start: float = Field(
        5.0, gt=0, description="Temperature of the samples in the first epoch."
    )
    tau_final: float = Field(
        1.0, gt=0, description="Temperature of the samples after the last epoch."
    )


DEFAULTS = PGExplainerSettings.model_validate({})


class PGExplainer(PostHocModel):
    """A network and an MLP that scores its edges."""

    method = "pgexplainer"

    def __init__(
        self, backbone: Backbone, *, target: Target = DEFAULTS.target, seed: int = 0
    ) -> None:
        super().__init__(backbone, target)
        with seeded(seed, "pgexplainer"):
            self.first = nn.Linear(2 * backbone.hidden, _HIDDEN)
            self.last = nn.Linear(_HIDDEN, 1)

    def forward(self, batch: GraphBatch) -> ModelOutput:
        """The logits without a mask, and the edge scores without noise."""
        with torch.no_grad():
            logits = self.backbone(batch)
        p = self.edge_logits(batch).sigmoid()
        return ModelOutput(logits, average_directions(p, batch), p, p)

    def edge_logits(self, batch: GraphBatch) -> Tensor:
        """ω, ``[E]``."""
        with torch.no_grad():
            z = self.backbone.embed(batch)
        source, target = self.first.weight.split(self.backbone.hidden, dim=1)
        # W concat(z_u, z_v) = W_u z_u + W_v z_v: two products over nodes, not one over edges.
        hidden = (z @ source.T)[batch.src] + (z @ target.T + self.first.bias)[batch.dst]
        return self.last(hidden.relu())[:, 0]


@register_method("pgexplainer")
class PGExplainerMethod(PostHocMethod):
    """The MLP is trained on the training set."""

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

    @property
    def explain_epochs(self) -> int:
        """The number of epochs in the settings."""
        return self.settings.explain_epochs

    def make_optimisers(self) -> dict[str, Optimizer]:
        """One Adam on the MLP."""
        self._weights = [*self.model.first.parameters(), *self.model.last.parameters()]
        return {"adam": Adam(self._weights, self.settings.explain_lr)}

    def temperature(self, epoch: int) -> float:
        """τ of an epoch."""
        start, final = self.settings.tau_start, self.settings.tau_final
        return start * (final / start) ** (epoch / self.settings.explain_epochs)

    def explain_step(self, batch: GraphBatch, context: Context) -> Losses:
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

    def explain(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """Scores and losses without noise."""
        output = self.model(batch)
        return output, self._losses(batch, output.logits, output.edge_weight)

    def _losses(self, batch: GraphBatch, logits: Tensor, mask: Tensor) -> Losses:
        answer = self.model.explained_label(logits, batch)
        masked = self.model.backbone(batch, attention=mask)
        each = mask_losses(self.model.task, masked, answer, mask, batch)
        means = {name: values.mean() for name, values in each.items()}
        size, entropy = self.settings.size, self.settings.entropy
        loss = means["answer"] + size * means["size"] + entropy * means["entropy"]
        return {"loss": loss, **means}
