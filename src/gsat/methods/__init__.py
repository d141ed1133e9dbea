"""Every system of the paper, one file each, behind one interface."""

from __future__ import annotations

from gsat.methods.base import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.methods.erm import ERMMethod
from gsat.methods.explaining import POSTHOC, explain_with
from gsat.methods.gsat import GSATMethod
from gsat.methods.gsat_star import GSATStarMethod

METHODS: dict[str, type[Method]] = {
    **{method.name: method for method in (GSATMethod, GSATStarMethod, ERMMethod)},
    **POSTHOC,
}

__all__ = [
    "METHODS",
    "Context",
    "ERMMethod",
    "GSATMethod",
    "GSATStarMethod",
    "Method",
    "MethodSettings",
    "Phase",
    "TrainingSettings",
    "explain_with",
]
