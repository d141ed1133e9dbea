"""GMT: GSAT that predicts by sampled subgraphs, or whose attention enters only the first layer."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from gsat.attention import AttentionLevel, edge_weights
from gsat.core.errors import GSATError
from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.gsat import GSAT
from gsat.methods.base import Context, Losses
from gsat.methods.gsat import GSATMethod, GSATSettings
from gsat.models import Backbone, ModelOutput
from gsat.ops import Draws

GMTVariant = Literal["sam", "lin"]
_SAMPLES = 20  # default number of subgraphs


class GMT(GSAT):
    """GSAT with multilinear subgraph sampling (``"sam"``) or a linear first layer (``"lin"``).

    ``"sam"``: a prediction is the mean of the logits of several subgraphs. Attention is sampled and
    its two directions are averaged as in GSAT; then each directed edge is kept or dropped with that
    probability, with a straight-through gradient. Evaluation draws the subgraphs from p with a
    fixed seed, so the same graph always has the same prediction.
    ``"lin"``: attention weights only the messages of the first layer.

    Attributes:
        step_samples: Subgraphs per prediction while training, if not ``samples``.
    """

    method = "gmt"

    def __init__(
        self,
        backbone: Backbone,
        attention: AttentionLevel = "edge",
        *,
        variant: GMTVariant = "sam",
        samples: int | None = None,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        if variant == "lin":
            if not backbone.limits_attention:
                raise GSATError(
                    "GMT's variant 'lin' needs a backbone that can limit attention to its first "
                    f"layer, such as gin, and {type(backbone).__name__} can't; use 'sam'"
                )
            backbone.attended_layers = 1
        subgraphs = None if variant == "lin" else samples or _SAMPLES
        super().__init__(backbone, attention, seed=seed, samples=subgraphs, **settings)
        self.variant = variant
        self.step_samples: int | None = None

    def _average_samples(self, logits: Tensor, batch: GraphBatch, draws: Draws) -> ModelOutput:
        """The output with logits averaged over several subgraphs."""
        p, predicted = torch.sigmoid(logits), []
        for number in range(self.step_samples or self.options.samples or 1):
            one = draws.child("subgraph", number)
            chance = edge_weights(self._sample(logits, batch, one), batch, self.on)  # [E]
            predicted.append(self._predict_subgraph(chance, batch, one, one.child("second run")))
        kept = edge_weights(p, batch, self.on)
        return ModelOutput(torch.stack(predicted).mean(dim=0), kept, p, p)

    def answer(self, batch: GraphBatch, attention: Tensor, mask: Tensor | None = None) -> Tensor:
        """Predict by subgraphs drawn with given attention; see :meth:`GSAT.answer`."""
        if self.variant == "lin":
            return super().answer(batch, attention, mask)
        chance = edge_weights(attention, batch, self.on)
        chance = chance if mask is None else chance * mask
        source = Draws(0, "subgraphs of an evaluation")
        draws = [source.child("subgraph", n) for n in range(self.options.samples or 1)]
        predicted = [self._predict_subgraph(chance, batch, one, None) for one in draws]
        return torch.stack(predicted).mean(0)

    def _predict_subgraph(
        self, chance: Tensor, batch: GraphBatch, draws: Draws, noise: Draws | None
    ) -> Tensor:
        """The logits of one subgraph, in which each edge is kept with its own probability."""
        subgraph = hard_sample(chance, batch.edge_id, draws.child("edges"))
        return self._predict(batch, subgraph, None, noise)

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {**super().config, "variant": self.variant}


def hard_sample(chance: Tensor, row_id: Tensor, draws: Draws) -> Tensor:
    """Keep each edge with its own probability, with the gradient of the probability."""
    kept = (draws.uniform(row_id).to(chance) < chance).to(chance.dtype)
    return kept + (chance - chance.detach())


class GMTSettings(GSATSettings):
    """``[method.gmt]``; the settings of ``[method.gsat]`` apply, too."""

    variant: GMTVariant = Field(
        "sam",
        description="'sam' averages the logits of several subgraphs; in 'lin', attention enters "
        "only the first layer.",
    )
    samples: PositiveInt | None = Field(
        _SAMPLES, le=1000, description="T, the number of subgraphs per prediction of 'sam'."
    )
    info_coef: float = Field(0.1, ge=0, description="β, the weight of the regulariser.")
    info_on: Literal["sample", "p"] = Field(
        "p", description="What the regulariser is computed on: p, as published, or the sample."
    )
    warm_start: bool = Field(
        False,
        description="Whether there is one subgraph and twice the weight of the regulariser until r "
        "begins to fall.",
    )


@register_method("gmt")
class GMTMethod(GSATMethod):
    """Graph Multilinear neT, trained like GSAT."""

    title = "GMT"
    summary = "GSAT that predicts by the mean over sampled subgraphs"
    paper = (
        "Chen et al., How Interpretable Are Interpretable Graph Neural Networks?, ICML 2024 "
        "(arXiv:2406.07955)"
    )
    Settings = GMTSettings
    Model = GMT
    based_on = "gsat"
    data_parallel = False
    model: GMT
    settings: GMTSettings

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take one gradient step on prediction loss + information loss."""
        self.model.step_samples = 1 if self._warming_up(context) else None
        return super().step(batch, context)

    def coefficient(self, context: Context) -> float:
        """β, doubled during a warm start."""
        return self.settings.info_coef * (2 if self._warming_up(context) else 1)

    def _warming_up(self, context: Context) -> bool:
        """Whether this is a warm start in which r has not begun to fall."""
        falls = self.schedule.steps > 0
        return self.settings.warm_start and falls and context.epoch < self.schedule.interval
