"""GMT: GSAT whose attention is a sample of whole subgraphs, or enters the first layer alone."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from gsat.attention import (
    DEFAULTS,
    AttentionLevel,
    BatchNorm,
    ExtractorNorm,
    Readout,
    Sampling,
    edge_weights,
    sample,
)
from gsat.core.errors import GSATError
from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.gsat import GSAT
from gsat.methods.base import Context, Losses, MethodSettings
from gsat.methods.gsat import GSATMethod, GSATSettings
from gsat.models import GIN, Backbone, InterpretableModel, ModelOutput
from gsat.ops import Draws

GMTVariant = Literal["sam", "lin"]
_SAMPLES = 20  # where a recipe says nothing


class GMT(GSAT):
    """GSAT with multilinear subgraph sampling (``"sam"``) or a linear first layer (``"lin"``).

    ``"sam"``: a prediction is the mean of the logits of several subgraphs. Each is drawn edge by
    edge: attention is sampled and its two directions are averaged as in GSAT, then every directed
    edge is kept or dropped with that probability, with a straight-through gradient. In evaluation
    the subgraphs are drawn from p, by a seed of their own: the same graph has the same answer.
    ``"lin"``: attention weights the messages of the first layer alone.

    Attributes:
        step_samples: Subgraphs per prediction while training, if not ``samples``.
    """

    method = "gmt"

    def __init__(
        self,
        backbone: Backbone,
        attention: AttentionLevel = DEFAULTS.attention,
        *,
        variant: GMTVariant = "sam",
        samples: int | None = None,
        extractor_dropout: float = DEFAULTS.extractor_dropout,
        temperature: float = DEFAULTS.temperature,
        sampling: Sampling = DEFAULTS.sampling,
        refine: int | None = None,
        batch_norm: BatchNorm | None = None,
        extractor_norm: ExtractorNorm | None = None,
        readout: Readout | None = None,
        context: float | None = None,
        seed: int = 0,
    ) -> None:
        if variant == "lin":
            if not isinstance(backbone, GIN):
                raise GSATError(
                    "GMT's variant 'lin' is for GIN, whose first layer alone can have attention, "
                    f"not for {type(backbone).__name__}; use the variant 'sam'"
                )
            backbone.attended_layers = 1
        super().__init__(
            backbone,
            attention,
            extractor_dropout=extractor_dropout,
            temperature=temperature,
            sampling=sampling,
            samples=None if variant == "lin" else samples or _SAMPLES,
            refine=refine,
            batch_norm=batch_norm,
            extractor_norm=extractor_norm,
            readout=readout,
            context=context,
            seed=seed,
        )
        self.variant = variant
        self.step_samples: int | None = None

    def _attend(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """The attention, and the mean of the logits of several subgraphs.

        In evaluation there is no dropout, and subgraphs are drawn from p.
        """
        if self.variant == "lin":
            return super()._attend(batch, draws)
        at = draws.child if draws else lambda *_: None
        h = self.backbone.embed(batch, draws=at("first run"))
        logits = self.extractor(h, batch, at("extractor"))
        p = torch.sigmoid(logits)
        kept = edge_weights(p, batch, self._on)
        if draws is None:
            return ModelOutput(self.answer(batch, p), kept, p, p)
        predicted = []
        for number in range(self._count(draws)):
            own = draws.child("subgraph", number)
            chance = self._chance(logits, batch, own)
            predicted.append(self._of_subgraph(chance, batch, own, own.child("second run")))
        return ModelOutput(torch.stack(predicted).mean(dim=0), kept, p, p)

    def answer(self, batch: GraphBatch, attention: Tensor, mask: Tensor | None = None) -> Tensor:
        """Predict by subgraphs drawn with given attention; see :meth:`GSAT.answer`."""
        if self.variant == "lin":
            return super().answer(batch, attention, mask)
        chance = edge_weights(attention, batch, self._on)
        chance = chance if mask is None else chance * mask
        source = Draws(0, "subgraphs of an evaluation")
        draws = [source.child("subgraph", number) for number in range(self._count(None))]
        chance = chance if mask is None else chance * mask
        return torch.stack([self._of_subgraph(chance, batch, own, None) for own in draws]).mean(0)

    def _of_subgraph(
        self, chance: Tensor, batch: GraphBatch, draws: Draws, noise: Draws | None
    ) -> Tensor:
        """The logits of one subgraph, in which each edge is kept with its own chance."""
        subgraph = hard_sample(chance, batch.edge_id, draws.child("edges"))
        return self._predict(batch, subgraph, None, noise)

    def _count(self, draws: Draws | None) -> int:
        several = self.samples or 1
        return several if draws is None else self.step_samples or several

    def _chance(self, logits: Tensor, batch: GraphBatch, draws: Draws) -> Tensor:
        """The chance of each edge in one sample of the attention, ``[E]``."""
        rows = batch.edge_id if self.on == "edge" else batch.node_id
        alpha = sample(logits, rows, draws.child("attention"), self.temperature, self.sampling)
        return edge_weights(alpha, batch, self._on)

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {**super().config, "variant": self.variant}


def hard_sample(chance: Tensor, row_id: Tensor, draws: Draws) -> Tensor:
    """Keep each edge with its own probability, with the gradient of the probability."""
    kept = (draws.uniform(row_id).to(chance) < chance).to(chance.dtype)
    return kept + (chance - chance.detach())


class GMTSettings(GSATSettings):
    """``[method.gmt]``, next to the settings of ``[method.gsat]``, which hold here, too."""

    variant: GMTVariant = Field(
        "sam",
        description="'sam' averages the logits of several subgraphs, 'lin' lets attention enter "
        "the first layer alone.",
    )
    samples: PositiveInt | None = Field(
        _SAMPLES, description="T, the number of subgraphs per prediction; of 'sam'."
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
    """Graph Multilinear neT, trained as GSAT."""

    title = "GMT"
    summary = "GSAT that predicts by the mean over sampled subgraphs"
    paper = (
        "Chen et al., How Interpretable Are Interpretable Graph Neural Networks?, ICML 2024 "
        "(arXiv:2406.07955)"
    )
    Settings: ClassVar[type[MethodSettings]] = GMTSettings
    Model: ClassVar[type[InterpretableModel]] = GMT
    based_on = "gsat"
    data_parallel = False
    model: GMT
    settings: GMTSettings

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take one gradient step on prediction loss + information loss."""
        self.model.step_samples = 1 if self._warming(context) else None
        return super().step(batch, context)

    def coefficient(self, context: Context) -> float:
        """β, twice as much in a warm start."""
        return self.settings.info_coef * (2 if self._warming(context) else 1)

    def _warming(self, context: Context) -> bool:
        """Whether the warm start lasts: r has not begun to fall."""
        falls = self.schedule.steps > 0
        return self.settings.warm_start and falls and context.epoch < self.schedule.interval
