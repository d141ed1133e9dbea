"""GSAT*: the backbone is trained alone first, then GSAT is fine-tuned from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Optimizer

from gsat.graphs import GraphBatch
from gsat.gsat import GSAT
from gsat.methods.base import Context, Phase, TrainingSettings
from gsat.methods.erm import ERMSettings
from gsat.methods.gsat import GSATMethod, GSATSettings
from gsat.methods.pretraining import PRETRAIN, Pretraining
from gsat.models import ModelOutput


class GSATStarSettings(GSATSettings):
    """``[method.gsat-star]``: GSAT's settings (those of ``[method.gsat]`` hold), and

    Attributes:
        pretrain_epochs, pretrain_lr: of the first phase; those of ``[training]`` if absent.
        pretrain_plateau: of the first phase; see ``plateau`` of ``[method.erm]``.
        pretrain_ckpt: the epoch fine-tuning starts from, the ``last`` (published code) or the one
            with the ``best`` validation metric (paper).
    """

    pretrain_epochs: PositiveInt | None = None
    pretrain_lr: float | None = Field(None, gt=0)
    pretrain_plateau: PositiveInt | None = None
    pretrain_ckpt: Literal["last", "best"] = "last"


class GSATStarMethod(GSATMethod):
    """Graph Stochastic Attention from a pre-trained backbone."""

    name = "gsat-star"
    title = "GSAT*"
    summary = "GSAT, fine-tuned from a backbone that was trained alone"
    Settings = GSATStarSettings
    based_on = "gsat"
    settings: GSATStarSettings
    first: Pretraining

    def __init__(self, model: GSAT, settings: GSATStarSettings, training: TrainingSettings) -> None:
        super().__init__(model, settings, training)
        first = {"epochs": settings.pretrain_epochs, "lr": settings.pretrain_lr}
        given = {name: value for name, value in first.items() if value is not None}
        self.first = Pretraining(
            model.backbone,
            training.model_copy(update=given),
            settings.pretrain_ckpt,
            ERMSettings(plateau=settings.pretrain_plateau),
        )

    def phases(self) -> tuple[Phase, ...]:
        """Pre-training, of which no epoch is reported, then GSAT."""
        return (self.first.phase, *super().phases())

    def begin(self, phase: str) -> None:
        """A fresh Adam for each phase."""
        self.first.begin(phase)
        if phase != PRETRAIN:
            super().begin(phase)

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """ERM's step, then GSAT's."""
        if context.phase == PRETRAIN:
            return self.first.step(batch, context)
        return super().step(batch, context)

    def evaluate(
        self, batch: GraphBatch, context: Context
    ) -> tuple[ModelOutput, dict[str, Tensor]]:
        """The backbone alone, then GSAT."""
        if context.phase == PRETRAIN:
            return self.first.evaluate(batch, context)
        return super().evaluate(batch, context)

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:
        """Remember the epoch that fine-tuning would start from."""
        self.first.finish_epoch(context, valid)

    def finish_phase(self, context: Context, measure: Callable[[str], dict[str, Any]]) -> None:
        """After pre-training: go back to the chosen epoch and see how good it is."""
        self.first.finish_phase(context, measure)

    def report(self) -> dict[str, Any]:
        """What the backbone could do before fine-tuning."""
        return self.first.report()

    def optimisers(self) -> dict[str, Optimizer]:
        """The Adam of the current phase."""
        return self.first.optimisers() if self.first.running else super().optimisers()

    def networks(self) -> dict[str, nn.Module]:
        """The model, and the best backbone so far while it is trained."""
        return super().networks() | self.first.networks()

    def extra_state(self) -> dict[str, Any]:
        """Where the first phase stands."""
        return self.first.state()

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.first.load_state(state)
