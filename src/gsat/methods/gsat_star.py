"""GSAT*: GSAT, fine-tuned from a backbone that was trained alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from gsat.core.registry import register_method
from gsat.methods.erm import ERMSettings
from gsat.methods.gsat import GSATMethod, GSATSettings
from gsat.methods.pretraining import PretrainedMethod


class GSATStarSettings(GSATSettings):
    """``[method.gsat-star]``; the settings of ``[method.gsat]`` apply, too."""

    pretrain_epochs: PositiveInt | None = Field(
        None, le=100_000, description="Epochs of the first phase; absent: training.epochs."
    )
    pretrain_lr: float | None = Field(
        None, gt=0, description="Learning rate of the first phase; absent: training.lr."
    )
    pretrain_plateau: PositiveInt | None = Field(
        None, description="Like plateau of erm, in the first phase."
    )
    pretrain_ckpt: Literal["last", "best"] = Field(
        "last",
        description="The epoch fine-tuning starts from: the last, as in the published code, or "
        "the one with the best validation metric, as in the paper.",
    )


@register_method("gsat-star")
class GSATStarMethod(PretrainedMethod, GSATMethod):
    """Graph Stochastic Attention from a pre-trained backbone."""

    title = "GSAT*"
    summary = "GSAT, fine-tuned from a backbone that was trained alone"
    Settings = GSATStarSettings
    based_on = "gsat"
    settings: GSATStarSettings

    def set_up(self) -> None:
        """Make the pre-training."""
        super().set_up()
        settings = self.settings
        changes = {"epochs": settings.pretrain_epochs, "lr": settings.pretrain_lr}
        update = {name: value for name, value in changes.items() if value is not None}
        training = self.training.model_copy(update=update)
        erm = ERMSettings(plateau=settings.pretrain_plateau)
        self.pretrain(settings.pretrain_ckpt, training, erm)
