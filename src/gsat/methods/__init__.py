"""Every system of the paper, one file each, behind one interface."""

from __future__ import annotations

from gsat.methods.base import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.methods.dir import DIRMethod
from gsat.methods.erm import ERMMethod
from gsat.methods.gnnexplainer import GNNExplainerMethod
from gsat.methods.graphmask import GraphMaskMethod
from gsat.methods.gsat import GSATMethod
from gsat.methods.gsat_star import GSATStarMethod
from gsat.methods.ib_subgraph import IBSubgraphMethod
from gsat.methods.irm import IRMMethod
from gsat.methods.pgexplainer import PGExplainerMethod
from gsat.methods.vrex import VRExMethod

METHODS: dict[str, type[Method]] = {
    **{method.name: method for method in (GSATMethod, GSATStarMethod, ERMMethod)},
    **{method.name: method for method in (IRMMethod, VRExMethod)},
    **{method.name: method for method in (GNNExplainerMethod, PGExplainerMethod, GraphMaskMethod)},
    **{method.name: method for method in (DIRMethod, IBSubgraphMethod)},
}

__all__ = [
    "METHODS",
    "Context",
    "DIRMethod",
    "ERMMethod",
    "GSATMethod",
    "GSATStarMethod",
    "IBSubgraphMethod",
    "IRMMethod",
    "Method",
    "MethodSettings",
    "Phase",
    "TrainingSettings",
    "VRExMethod",
]
