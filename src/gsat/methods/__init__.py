"""Every system of the paper, one file each, behind one interface."""

from __future__ import annotations

from gsat.methods.base import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.methods.erm import ERMMethod
from gsat.methods.gsat import GSATMethod
from gsat.methods.gsat_star import GSATStarMethod
from gsat.methods.irm import IRMMethod
from gsat.methods.vrex import VRExMethod

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (GSATMethod, GSATStarMethod, ERMMethod, IRMMethod, VRExMethod)
}

__all__ = [
    "METHODS",
    "Context",
    "ERMMethod",
    "GSATMethod",
    "GSATStarMethod",
    "IRMMethod",
    "Method",
    "MethodSettings",
    "Phase",
    "TrainingSettings",
    "VRExMethod",
]
