"""GSAT from scratch: prediction loss plus information loss, one Adam over both networks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

import torch
from pydantic import Field, PositiveInt

from gsat.attention import AttentionSettings
from gsat.bottleneck import Schedule, information, sparsity
from gsat.core.errors import RecipeError
from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.gsat import GSAT
from gsat.methods.base import Context, Losses, Method, MethodSettings, Phase
from gsat.models import Backbone, ModelOutput
from gsat.models.loading import load_model

# The published code selects no epoch before the twelfth, however early r reaches its final value.
_FIRST_SELECTABLE = 11


class GSATSettings(MethodSettings, AttentionSettings):
    """``[method.gsat]``."""

    regulariser: Literal["information", "l1", "none"] = Field(
        "information", description="Cost of attention; 'l1' is the paper's alternative."
    )
    info_coef: float = Field(
        1.0, ge=0, description="Weight of the regulariser; 0 is the paper's β = 0."
    )
    info_on: Literal["sample", "p"] = Field(
        "sample",
        description="What the regulariser is computed on: the sample, as in the published code, "
        "or p, as in the paper.",
    )
    r_start: float = Field(Schedule.start, gt=0, lt=1, description="First value of the prior r.")
    r_final: float = Field(Schedule.final, gt=0, lt=1, description="Final value of the prior r.")
    r_step: float = Field(Schedule.step, gt=0, description="Decrease of r at a time.")
    r_interval: PositiveInt = Field(
        Schedule.interval, description="Epochs between two decreases of r."
    )

    @property
    def schedule(self) -> Schedule:
        """The prior r by epoch."""
        return Schedule(self.r_start, self.r_final, self.r_step, self.r_interval)


@register_method("gsat")
class GSATMethod(Method):
    """Graph Stochastic Attention, trained from scratch."""

    title = "GSAT"
    summary = "drop edges at random by learnt probabilities, and pay for information"
    paper = (
        "Miao, Liu and Li, Interpretable and Generalizable Graph Learning via Stochastic Attention "
        "Mechanism, ICML 2022 (arXiv:2201.12987)"
    )
    Settings: ClassVar[type[MethodSettings]] = GSATSettings
    Model = GSAT
    data_parallel = True
    model: GSAT
    settings: GSATSettings

    def set_up(self) -> None:
        """Tell the model its prior."""
        self.schedule = self.settings.schedule
        informed = self.settings.regulariser == "information"
        self.model.r = self.settings.r_final if informed else None

    def phases(self) -> tuple[Phase, ...]:
        """One phase; epochs can be selected once r is final."""
        first = max(_FIRST_SELECTABLE, self.schedule.epochs_to_final)
        return (Phase("train", self.training.epochs, selectable_from=first),)

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take one gradient step on prediction loss + information loss."""
        output = context.sync.through(self.model)(batch, context.draws)
        losses = self._losses(batch, output, context)
        self.update(losses["total"])
        return losses

    def evaluate(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """Predict and score deterministically: α = p, no dropout."""
        output = self.model(batch)
        return output, self._losses(batch, output, context)

    def calibrate(self, batches: Iterable[GraphBatch]) -> bool:
        """Recompute the statistics of batch norm, if the settings say so."""
        if self.settings.batch_norm != "recalibrated":
            return False
        self.model.recalibrate(batches)
        return True

    def _losses(self, batch: GraphBatch, output: ModelOutput, context: Context) -> Losses:
        assert batch.y is not None
        loss = context.sync.mean(self.model.task.loss(output.logits, batch.y), batch.y)
        alpha = output.attention if self.settings.info_on == "sample" else output.probability
        if self.settings.regulariser == "information":
            info = information(alpha, self._r(context))
        elif self.settings.regulariser == "l1":
            info = sparsity(alpha)
        else:
            info = torch.zeros(())
        info = context.sync.mean(info, alpha)
        return {"loss": loss, "info": info, "total": loss + self.coefficient(context) * info}

    def _r(self, context: Context) -> float:
        return self.schedule.r(context.epoch)

    def coefficient(self, context: Context) -> float:
        """The weight of the regulariser in a step."""
        return self.settings.info_coef


def load_start(path: str, backbone: Backbone, method: str) -> GSAT:
    """Load the trained GSAT that a method starts from."""
    if not path:
        raise RecipeError(
            f"{method} starts from a trained model: name its run, as in start='runs/x'"
        )
    model = load_model(path)
    if not isinstance(model, GSAT):
        raise RecipeError(f"{method} starts from a model of GSAT, not from the one in {path}")
    if model.backbone.description != backbone.description:
        raise RecipeError(
            f"the network in {path} differs from that of this recipe; set the data, the backbone "
            "and the settings of that run"
        )
    model.take_snapshots([])
    return model
