"""Models from the folders of runs, after checking that their descriptions can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from gsat.core.errors import CheckpointError, GSATError, RunError, shown
from gsat.core.registry import METHODS
from gsat.models.interpretable import InterpretableModel
from gsat.models.saved import model_folder, read_model
from gsat.models.weights import check_fit, outline


def load_model(path: str | Path) -> InterpretableModel:
    """Load the model of a run, or one that was saved by :meth:`InterpretableModel.save`."""
    weights, description = read_model(model_folder(path))
    method = description["method"]
    if method not in METHODS:
        raise RunError(
            f"{path} was trained by the method '{shown(method, 60)}', which is unknown here; if it "
            "is declared in a file of your own, give --method file.py:Class, in Python "
            "gsat.core.registry.load_file('file.py:Class')"
        )
    kind = METHODS[method].Model
    try:
        # First without memory: a description may ask for any size.
        outlined = outline(lambda: kind.from_config(description["model"]), len(weights))
        if outlined is not None:
            _check_fit(outlined, weights, path)
        model: InterpretableModel = kind.from_config(description["model"])
    except CheckpointError:
        raise
    except GSATError as error:
        raise CheckpointError(f"the model in {path} can't be made: {error}") from None
    except Exception as error:  # an untrusted description can raise anything
        reason = shown(f"{type(error).__name__}: {error}", 120)
        raise CheckpointError(
            f"the model in {path} can't be made from its description ({reason})"
        ) from error
    model.method, model.input = method, description.get("input")
    return fill(model, weights, path)


def fill(
    model: InterpretableModel, weights: Mapping[str, Tensor], path: str | Path
) -> InterpretableModel:
    """Load saved weights into a model, and put it in evaluation mode."""
    _check_fit(model, weights, path)
    model.load_state_dict(dict(weights))
    return model.eval()


def _check_fit(model: nn.Module, weights: Mapping[str, Tensor], path: str | Path) -> None:
    try:
        check_fit(model, weights)
    except GSATError as error:
        raise CheckpointError(
            f"the weights in {path} do not fit its model: {shown(str(error))}"
        ) from None
