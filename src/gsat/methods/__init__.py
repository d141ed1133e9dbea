"""Every way to train a model, one file each, behind one interface.

The classes are imported when they are needed: ``METHODS["gsat"]``.
"""

from gsat.methods.base import (
    Context,
    GradientSync,
    Losses,
    Method,
    MethodSettings,
    Phase,
    TrainingSettings,
)
from gsat.registry import METHODS

__all__ = [
    "METHODS",
    "Context",
    "GradientSync",
    "Losses",
    "Method",
    "MethodSettings",
    "Phase",
    "TrainingSettings",
]
