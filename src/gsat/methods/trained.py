"""Methods that begin with a model that is trained already: loading it from its run."""

from __future__ import annotations

from gsat.core.errors import RecipeError
from gsat.gsat import GSAT
from gsat.models import Backbone
from gsat.models.saved import load_model


def load_start(path: str, backbone: Backbone, method: str) -> GSAT:
    """Load the model that a method begins with."""
    if not path:
        raise RecipeError(
            f"{method} begins with a trained model: name its run, as in start='runs/x'"
        )
    found = load_model(path)
    if not isinstance(found, GSAT):
        raise RecipeError(f"{method} begins with a model of GSAT, not with the one in {path}")
    if found.backbone.description != backbone.description:
        raise RecipeError(
            f"the network in {path} is made otherwise than that of this recipe; give the data, the "
            "backbone and the settings of that run"
        )
    found.take_snapshots([])
    return found
