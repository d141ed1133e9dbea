"""GSAT*: the backbone is trained alone first, then GSAT is fine-tuned from it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, PositiveInt

from gsat.core.registry import register_method
from gsat.gsat import GSAT
from gsat.methods.base import MethodSettings, TrainingSettings
from gsat.methods.erm import ERMSettings
from gsat.methods.gsat import GSATMethod, GSATSettings
from gsat.methods.pretraining import PretrainedMethod, Pretraining


class GSATStarSettings(GSATSettings):
    """``[method.gsat-star]``, next to the settings of ``[method.gsat]``, which hold here, too."""

    pretrain_epochs: PositiveInt | None = Field(
        None, description="Epochs of the first phase; absent: training.epochs."
    )
    pretrain_lr: float | None = Field(
        None, gt=0, description="Learning rate of the first phase; absent: training.lr."
    )
    pretrain_plateau: PositiveInt | None = Field(
        None, description="As plateau of erm, in the first phase."
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
    Settings: ClassVar[type[MethodSettings]] = GSATStarSettings
    based_on = "gsat"
    settings: GSATStarSettings

    def __init__(
        self, model: GSAT, settings: Any, training: TrainingSettings, seed: int = 0
    ) -> None:
        super().__init__(model, settings, training, seed)
        first = {"epochs": settings.pretrain_epochs, "lr": settings.pretrain_lr}
        given = {name: value for name, value in first.items() if value is not None}
        self.first = Pretraining(
            model.backbone,
            training.model_copy(update=given),
            settings.pretrain_ckpt,
            ERMSettings(plateau=settings.pretrain_plateau),
        )
