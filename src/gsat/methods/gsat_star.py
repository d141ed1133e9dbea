"""GSAT*: the backbone is trained alone first, then GSAT is fine-tuned from it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Optimizer

from gsat import metrics
from gsat.graphs import GraphBatch
from gsat.gsat import GSAT
from gsat.methods.base import Context, Phase, TrainingSettings
from gsat.methods.erm import ERMMethod, ERMSettings, Plain
from gsat.methods.gsat import GSATMethod, GSATSettings
from gsat.models import Attended

PRETRAIN = "pretrain"


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

    def __init__(self, model: GSAT, settings: GSATStarSettings, training: TrainingSettings) -> None:
        super().__init__(model, settings, training)
        first = {"epochs": settings.pretrain_epochs, "lr": settings.pretrain_lr}
        given = {name: value for name, value in first.items() if value is not None}
        self.erm = ERMMethod(
            Plain(model.backbone),
            training.model_copy(update=given),
            ERMSettings(plateau=settings.pretrain_plateau),
        )
        # The weights of the best epoch so far.
        self.best = copy.deepcopy(model.backbone) if settings.pretrain_ckpt == "best" else None
        # The epoch fine-tuning starts from, with its metrics.
        self.pretrained: dict[str, Any] = {}
        self._pretraining = True

    def phases(self) -> tuple[Phase, ...]:
        """Pre-training, of which no epoch is reported, then GSAT."""
        epochs = self.erm.training.epochs
        return (Phase(PRETRAIN, epochs, selectable_from=None, explains=False), *super().phases())

    def begin(self, phase: str) -> None:
        """A fresh Adam for each phase."""
        self._pretraining = phase == PRETRAIN
        if self._pretraining:
            self.erm.begin(phase)
        else:
            super().begin(phase)

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """ERM's step, then GSAT's."""
        if context.phase == PRETRAIN:
            return self.erm.step(batch, context)
        return super().step(batch, context)

    def evaluate(self, batch: GraphBatch, context: Context) -> tuple[Attended, dict[str, Tensor]]:
        """The backbone alone, then GSAT."""
        if context.phase == PRETRAIN:
            return self.erm.evaluate(batch, context)
        return super().evaluate(batch, context)

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:
        """Remember the epoch that fine-tuning would start from."""
        if context.phase != PRETRAIN:
            return
        self.erm.finish_epoch(context, valid)
        if self.best is not None:
            merit, before = self.model.task.merit, self.pretrained.get("valid", {})
            scores = (merit(valid), valid["loss"], merit(before), before.get("loss"))
            if self.pretrained and not metrics.better(*scores):
                return
            self.best.load_state_dict(self.model.backbone.state_dict())
        self.pretrained = {"epoch": context.epoch, "valid": valid}

    def finish_phase(self, context: Context, measure: Callable[[str], dict[str, Any]]) -> None:
        """After pre-training: go back to the chosen epoch and see how good it is."""
        if context.phase == PRETRAIN:
            if self.best is not None:
                self.model.backbone.load_state_dict(self.best.state_dict())
            self.pretrained["test"] = measure("test")

    def report(self) -> dict[str, Any]:
        """What the backbone could do before fine-tuning."""
        return {"pretrained": {"checkpoint": self.settings.pretrain_ckpt, **self.pretrained}}

    def optimisers(self) -> dict[str, Optimizer]:
        """The Adam of the current phase."""
        return self.erm.optimisers() if self._pretraining else super().optimisers()

    def networks(self) -> dict[str, nn.Module]:
        """The model, and the best backbone so far where that is wanted."""
        return super().networks() | ({} if self.best is None else {"best backbone": self.best})

    def extra_state(self) -> dict[str, Any]:
        """The chosen epoch, and the state of the first phase while it lasts."""
        first = self.erm.extra_state() if self._pretraining else {}
        return {"pretrained": self.pretrained, "erm": first}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.pretrained = state["pretrained"]
        if self._pretraining:
            self.erm.load_extra_state(state["erm"])
