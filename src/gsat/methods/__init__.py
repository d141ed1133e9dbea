"""Every way to train a model, one file each, behind one interface.

The classes are imported when they are needed: ``METHODS["gsat"]``.
"""

from gsat.core.registry import METHODS
from gsat.methods.base import (
    Context,
    GradientSync,
    Losses,
    Method,
    MethodSettings,
    Phase,
    TrainingSettings,
)

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
