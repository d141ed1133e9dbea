"""Every system of the paper, one file each, behind one interface."""

from __future__ import annotations

from gsat.methods.base import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.methods.gsat import GSATMethod

METHODS: dict[str, type[Method]] = {method.name: method for method in (GSATMethod,)}

__all__ = [
    "METHODS",
    "Context",
    "GSATMethod",
    "Method",
    "MethodSettings",
    "Phase",
    "TrainingSettings",
]
