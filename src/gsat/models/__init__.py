"""Backbones, and the base class of interpretable models."""

from gsat.core.registry import BACKBONES
from gsat.models.backbone import Backbone, BackboneSettings, GatedBackbone, backbone_from
from gsat.models.dmpnn import DMPNN
from gsat.models.gin import GIN
from gsat.models.interpretable import InterpretableModel
from gsat.models.leconv import LEConvNet
from gsat.models.output import ModelOutput, Predictions
from gsat.models.pna import PNA
from gsat.models.weights import load_weights, seeded

__all__ = [
    "BACKBONES",
    "DMPNN",
    "GIN",
    "PNA",
    "Backbone",
    "BackboneSettings",
    "GatedBackbone",
    "InterpretableModel",
    "LEConvNet",
    "ModelOutput",
    "Predictions",
    "backbone_from",
    "load_weights",
    "seeded",
]
