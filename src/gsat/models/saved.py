"""A model in a folder: its weights as safetensors, and a JSON description that names them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from gsat.errors import CheckpointError, RunError
from gsat.io import atomic
from gsat.io.hashes import checksum, sha256
from gsat.registry import METHODS

if TYPE_CHECKING:
    from gsat.models.interpretable import InterpretableModel

DESCRIPTION = "model.json"
BEST = "best"  # the folder of a run's model


def model_folder(path: str | Path) -> Path:
    """Find the folder of a model: the path itself, or ``best`` in the directory of a run.

    Raises:
        RunError: If there is no model.
    """
    path = Path(path)
    if (path / DESCRIPTION).is_file():
        return path
    if (path / BEST / DESCRIPTION).is_file():
        return path / BEST
    if (path / "recipe.toml").is_file():
        raise RunError(f"{path} has no model yet; resume it with: gsat resume {path}")
    raise RunError(
        f"{path} is not a run or a saved model: there is no recipe.toml or {DESCRIPTION} in it"
    )


def write_model(
    folder: str | Path,
    weights: Mapping[str, Tensor],
    description: Mapping[str, Any],
    epoch: int | None = None,
) -> None:
    """Write a model, in place of the one the folder holds.

    The weights are written first, then the description: at any time the folder holds one whole
    model.

    Args:
        folder: Made if it is not there.
        weights: A state dict.
        description: ``{"method": …, "model": …}``, as plain values: the method whose model it is,
            and the model's ``config``; ``"input"`` where it reads molecules.
        epoch: The epoch the weights are of. (default: unknown)
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    content = to_safetensors(weights)
    file = f"model-{sha256(content)[:12]}.safetensors"
    atomic.write_bytes(folder / file, content)
    described = {
        "file": file,
        "sha256": sha256(content),
        "epoch": epoch,
        "config": dict(description),
    }
    atomic.write_json(folder / DESCRIPTION, {**described, "check": checksum(described)})
    for old in folder.glob("model-*.safetensors"):
        if old.name != file:
            old.unlink(missing_ok=True)


def to_safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Write tensors, wherever they are, as the content of a safetensors file.

    Args:
        tensors: Tensors by name.
    """
    # A copy each: safetensors refuses two names for one tensor, which tied weights have.
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    return save(copies)


def read_model(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_model` wrote.

    Args:
        folder: The folder; see :func:`model_folder`.

    Returns:
        The weights and the description.

    Raises:
        CheckpointError: If a file is missing or damaged.
    """
    folder = Path(folder)
    try:
        described = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        if described.pop("check") != checksum(described):
            raise CheckpointError(f"{folder / DESCRIPTION} is damaged: wrong checksum")
        content = (folder / described["file"]).read_bytes()
        if sha256(content) != described["sha256"]:
            raise CheckpointError(f"{folder / described['file']} is damaged: wrong checksum")
        return load(content), described["config"]
    except (
        OSError, ValueError, KeyError, AttributeError, TypeError, SafetensorError
    ) as error:  # fmt: skip
        raise CheckpointError(f"the model in {folder} can't be read ({error})") from error


def load_model(path: str | Path) -> InterpretableModel:
    """Load the model of a run, or one that was saved by :meth:`InterpretableModel.save`.

    Args:
        path: The directory of a run, or the folder of a model.

    Returns:
        The model, in evaluation mode.

    Raises:
        RunError: If there is no model, or its method is unknown here.
        CheckpointError: If a file is damaged.
    """
    weights, description = read_model(model_folder(path))
    method = str(description.get("method"))
    if method not in METHODS:
        raise RunError(
            f"{path} was trained by the method '{method}', which is unknown here; if it is "
            "declared in a file of your own, load that first: "
            "gsat.registry.load_file('file.py:Class')"
        )
    model: InterpretableModel = METHODS[method].Model.from_config(description["model"])
    model.method, model.input = method, description.get("input")
    return fill(model, weights, path)


def fill(
    model: InterpretableModel, weights: Mapping[str, Tensor], path: str | Path
) -> InterpretableModel:
    """Put saved weights into a model, and the model in evaluation mode.

    Args:
        model: The model.
        weights: A state dict.
        path: Where the weights come from, for messages.

    Raises:
        CheckpointError: If the weights do not fit.
    """
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as error:
        reason = textwrap.shorten(str(error), 300)
        raise CheckpointError(f"the weights in {path} do not fit its model: {reason}") from error
    return model.eval()
