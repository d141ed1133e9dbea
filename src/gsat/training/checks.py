"""Checks of a caller's model and data against a recipe or a run; each raises a one-line error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gsat.core.errors import DataError, GSATError, RecipeError, RunError
from gsat.datasets.load import Dataset, check_dataset
from gsat.gsat import GSAT
from gsat.methods import METHODS
from gsat.training.process_group import resume_command
from gsat.training.recipe import Recipe
from gsat.training.run_directory import RunDirectory


def check_device(device: str) -> None:
    """Raise if a device is unavailable."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise GSATError(f"the device '{device}' is unavailable: {reason}") from None


def check_shared(recipe: Recipe, processes: int) -> None:
    """Raise if there are several processes and the method can't be trained by several."""
    method = METHODS[recipe.method]
    if processes > 1 and not method.data_parallel:
        shared = ", ".join(name for name, other in METHODS.items() if other.data_parallel)
        raise GSATError(
            f"{method.title} is trained by one process, not by {processes}; start it "
            f"without torchrun (several processes can train {shared})"
        )


def check_processes(run: RunDirectory, here: int) -> None:
    """Raise unless the run was started with this number of processes: results depend on it."""
    begun = run.environment.get("processes", 1)
    if begun != here:
        raise RunError(
            f"{run.path} was begun by {begun} process{'es' if begun > 1 else ''}, not by {here}; "
            f"resume it with: {resume_command(begun)} {run.path}"
        )


def check_given(model: Any, data: Any) -> None:
    """Raise unless a caller's model can be trained on the caller's data."""
    if not isinstance(model, GSAT):
        raise GSATError(
            f"fit trains a gsat.GSAT, not a {type(model).__name__}: make one of a network by "
            "gsat.GSAT(gsat.wrap(network, task=data.task))"
        )
    check_dataset(data)
    for name in ("kind", "classes", "level"):  # how it is measured may differ
        ours, theirs = getattr(model.task, name), getattr(data.task, name)
        if ours != theirs:
            raise DataError(
                f"the model's task has {name} {ours!r}, that of the data is {theirs!r}; make the "
                "model's backbone with task=data.task"
            )
    model.check_fits(data.store)


def describe(model: GSAT) -> dict[str, Any]:
    """The settings of a recipe that a model carries in itself."""
    network = model.backbone.settings.model_dump(exclude={"name"})
    return {
        **{f"backbone.{key}": value for key, value in network.items()},
        **{f"method.gsat.{key}": value for key, value in model.options.model_dump().items()},
    }


def check_setting(recipe: Recipe, key: str, value: Any, where: str) -> None:
    """Raise unless a setting of the recipe has a value."""
    table: Any = recipe.tables()
    for part in key.split("."):
        table = table.get(part)
    if table != value:
        raise RecipeError(f"{key} is {value!r} in {where} {table!r}")


def check_data(recipe: Recipe, data: Dataset, path: str | Path) -> None:
    """Raise unless the data is that of the run, split in the same way."""
    expected = {**recipe.data.options, "name": recipe.data.name, "seed": recipe.split_seed}
    for key, value in {**data.options, "name": data.name, "seed": data.seed}.items():
        if expected.get(key, value) != value:
            raise RecipeError(
                f"data.{key} is {value!r} in the data given to resume {path}, in the run it is "
                f"{expected[key]!r}"
            )


def check_config(model: GSAT, trained: dict[str, Any], path: str | Path) -> None:
    """Raise unless a model is made as the one that was trained."""
    config = model.config
    for key, value in {**trained, **trained["backbone"]}.items():
        ours = {**config, **config["backbone"]}.get(key)
        if key not in ("backbone", "r") and ours != value:
            raise RunError(
                f"the model given does not fit {path}: its {key} is {ours!r}, the run's {value!r}"
            )
