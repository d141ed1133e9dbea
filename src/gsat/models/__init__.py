"""Backbones, and what every interpretable model can do: predict and explain."""

from gsat.models.backbone import Backbone, seeded
from gsat.models.gin import GIN
from gsat.models.interpretable import Attended, InterpretableModel, Predictions

BACKBONES: dict[str, type[Backbone]] = {"gin": GIN}

__all__ = [
    "BACKBONES",
    "GIN",
    "Attended",
    "Backbone",
    "InterpretableModel",
    "Predictions",
    "seeded",
]
