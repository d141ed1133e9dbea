"""Self-consistency: a trained GSAT is fine-tuned so that the attended graph has the same scores."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Self

import torch
from pydantic import Field
from torch import nn

from gsat.attention import edge_weights
from gsat.core.errors import RecipeError
from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, Losses, Phase, TrainingSettings
from gsat.methods.gsat import GSATMethod, GSATSettings, load_start
from gsat.models import Backbone

_CHANGEABLE = ("refine", "context")  # settings of a trained model that only matter when explaining


class SelfConsistentSettings(GSATSettings):
    """``[method.gsat-sc]``; the settings of ``[method.gsat]`` apply, too."""

    start: str = Field("", description="Run that is fine-tuned.")
    consistency: float = Field(
        1.0, ge=0, description="Weight of the mean difference of the two explanations."
    )


@register_method("gsat-sc")
class SelfConsistentMethod(GSATMethod):
    """GSAT's loss plus the change of p when the attended graph is explained.

    It fine-tunes extractor and head, with frozen layers and the final value of r.
    """

    title = "GSAT-SC"
    summary = "a trained GSAT, fine-tuned to explain its own explanation alike"
    paper = "after self-consistency training as published at ICLR 2026"
    Settings = SelfConsistentSettings
    based_on = "gsat"
    data_parallel = False
    settings: SelfConsistentSettings

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """Load the run that is fine-tuned."""
        model = load_start(settings.start, backbone, cls.title)
        # What the weights were trained with cannot change; the rest may.
        for name, before in model.options.model_dump().items():
            now = getattr(settings, name)
            if name not in ("extractor_dropout", *_CHANGEABLE) and before != now:
                raise RecipeError(
                    f"the setting '{name}' is {before!r} in {settings.start}, it can't become "
                    f"{now!r}"
                )
        if type(model) is not cls.Model or not hasattr(model.backbone, "head"):
            raise RecipeError(f"{cls.title} needs a GSAT on a backbone with a head of its own")
        model.set_options(**{name: getattr(settings, name) for name in _CHANGEABLE})
        return cls(model, settings, training, seed)

    def phases(self) -> tuple[Phase, ...]:
        """One phase, any epoch of which may be the best: r is final throughout."""
        return (Phase("train", self.training.epochs),)

    def parameters(self) -> Iterable[nn.Parameter]:
        """The weights of the extractor and of the backbone's head."""
        return chain(self.model.extractor.parameters(), self.model.backbone.head.parameters())

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take one gradient step on GSAT's loss plus the inconsistency."""
        model = self.model
        for network in (model.backbone, model.predictor):
            network.eval()  # freezes the statistics of its batch norm, too
        output = model(batch, context.draws)
        losses = self._losses(batch, output, context)
        weight = edge_weights(output.probability, batch, model.on)
        again = context.draws.child("again")
        h = model.predictor.embed(batch, attention=weight, draws=again.child("run"))
        p = torch.sigmoid(model.extractor(h, batch, again.child("extractor")))
        inconsistency = (output.probability - p).abs().mean()
        total = losses["total"] + self.settings.consistency * inconsistency
        self.update(total)
        return {**losses, "inconsistency": inconsistency, "total": total}

    def _r(self, context: Context) -> float:
        return self.settings.r_final
