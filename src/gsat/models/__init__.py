"""Backbones, and what every interpretable model can do: predict and explain."""

from gsat.models.backbone import Backbone, load_weights, seeded
from gsat.models.gin import GIN
from gsat.models.interpretable import InterpretableModel, ModelOutput, Predictions
from gsat.models.leconv import LEConvNet
from gsat.models.pna import PNA
from gsat.models.wrapping.wrap import Wrapped

BACKBONES: dict[str, type[Backbone]] = {
    "gin": GIN,
    "pna": PNA,
    "leconv": LEConvNet,
    "wrapped": Wrapped,
}

__all__ = [
    "BACKBONES",
    "GIN",
    "PNA",
    "Backbone",
    "InterpretableModel",
    "LEConvNet",
    "ModelOutput",
    "Predictions",
    "Wrapped",
    "load_weights",
    "seeded",
]
