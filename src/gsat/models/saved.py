"""A model in a folder: its weights as safetensors, and a description as JSON."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import ConfigDict, Field, model_validator
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from gsat.core import system, writing
from gsat.core.errors import CheckpointError, GSATError, RunError, shown
from gsat.core.files import bare_name, checksum, is_regular, read_file, read_json, sha256
from gsat.core.limits import memory_limit
from gsat.core.parsing import FileModel, ParseError
from gsat.core.tensors import read_header
from gsat.tasks import Kind, Level, Metric

DESCRIPTION = "model.json"
BEST = "best"  # the folder of a run's model


class _Strict(FileModel):
    """A part of a description without other keys."""

    model_config = ConfigDict(extra="forbid")


class TaskFields(_Strict):
    """``task`` of a saved backbone: the arguments of a :class:`~gsat.tasks.Task`."""

    kind: Kind
    classes: int = Field(ge=1)
    metric: Metric
    level: Level
    centre: float | list[float] = 0.0
    scale: float | list[float] = 1.0
    weights: list[float] | None = None


class BackboneFields(FileModel):
    """``backbone`` of a saved model; the backbone checks any further fields itself."""

    name: str = Field(min_length=1, max_length=200)
    task: TaskFields
    in_features: int | None = Field(None, ge=1)
    edge_features: int | None = Field(None, ge=0)
    categories: list[int] | None = None


class ModelFields(FileModel):
    """``model`` of a description."""

    backbone: BackboneFields
    r: float | None = None


Name = Annotated[str, Field(max_length=10_000)]


class FeatureFields(_Strict):
    """``features`` of the input: the version of the molecule features."""

    version: int
    atoms: dict[Name, Annotated[int, Field(ge=1)]]
    bonds: list[Name]


class TableFields(_Strict):
    """``table`` of the input: the columns that a model was trained on."""

    smiles: Name
    labels: list[Name]
    id: Name
    kind: Kind | Literal[""]
    largest_fragment: bool
    units: list[Name] = Field([])


class InputFields(_Strict):
    """``input`` of a description: how a model reads molecules."""

    features: FeatureFields
    table: TableFields | None = None
    classes: list[Name] | None = None
    labels: list[Name] | None = None


class Described(_Strict):
    """``config`` of a description."""

    method: str = Field(max_length=200)
    model: ModelFields
    input: InputFields | None = None

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Raise if there are not as many names as the network has outputs."""
        if self.input is None:
            return self
        task = self.model.backbone.task
        several = task.kind in ("multilabel", "regression")
        table = self.input.table
        names = {
            "classes": None if several else self.input.classes,
            "labels": self.input.labels if several else None,
            "labels of the table": table.labels if several and table is not None else None,
        }
        for what, given in names.items():
            if given is not None and len(given) != task.classes:
                raise ValueError(f"{len(given)} {what}, but the task has {task.classes} outputs")
        if task.level != "graph":
            raise ValueError("molecules are predicted as graphs, not by node")
        if table is not None and table.kind not in ("", task.kind):
            raise ValueError(f"the table is for a {table.kind} task, the network for {task.kind}")
        return self


class Description(_Strict):
    """The file ``model.json``."""

    file: str
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    epoch: int | None = None
    config: Described
    check: str


def model_folder(path: str | Path) -> Path:
    """Find the folder of a model: the path itself, or ``best`` in the directory of a run."""
    path = Path(path)
    if is_regular(path / DESCRIPTION):
        return path
    if (path / BEST).is_symlink():
        raise RunError(f"{path / BEST} is a symbolic link; a run may hold none: remove it")
    if is_regular(path / BEST / DESCRIPTION):
        return path / BEST
    if is_regular(path / "recipe.toml"):
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
    """Write a model, replacing the one in the folder.

    It writes the weights first, then the description, so that the folder always holds a complete
    model.
    """
    folder = Path(folder)
    system.make_folders(folder)
    content = to_safetensors(weights)
    file = f"model-{sha256(content)[:12]}.safetensors"
    writing.write_bytes(folder / file, content)
    described = {
        "file": file,
        "sha256": sha256(content),
        "epoch": epoch,
        "config": dict(description),
    }
    writing.write_json(folder / DESCRIPTION, {**described, "check": checksum(described)})
    for old in folder.glob("model-*.safetensors"):
        if old.name != file:
            system.remove(old)


def to_safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    """The content of a safetensors file with tensors of any device."""
    # Copies, as safetensors refuses two names for one tensor (tied weights).
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    return save(copies)


def read_model(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the weights and the description that :func:`write_model` wrote."""
    folder = Path(folder)
    described = read_json(folder / DESCRIPTION, Description, error=CheckpointError)
    if described.pop("check") != checksum(described):
        raise CheckpointError(f"{folder / DESCRIPTION} is damaged: wrong checksum")
    if not bare_name(described["file"]):
        raise CheckpointError(
            f"{folder / DESCRIPTION} names '{shown(described['file'], 60)}', which is not a "
            "file beside it"
        )
    path = folder / described["file"]
    content = read_file(path, error=CheckpointError, limit=memory_limit())
    if sha256(content) != described["sha256"]:
        raise CheckpointError(f"{path} is damaged: wrong checksum")
    return from_safetensors(content, path), described["config"]


def from_safetensors(content: bytes, path: str | Path) -> dict[str, Tensor]:
    """Read the tensors in the content of a safetensors file."""
    try:
        read_header(io.BytesIO(content), len(content))
        return load(content)
    except (ParseError, GSATError, SafetensorError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: {shown(str(error))}") from None
