"""Train a recipe, fit a model, resume a run, load the model of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsat.core.errors import RecipeError
from gsat.core.files import is_regular
from gsat.core.writing import write_text
from gsat.datasets.load import Dataset, load_dataset
from gsat.datasets.molecule_tables import input_of
from gsat.gsat import GSAT
from gsat.methods import METHODS, Method
from gsat.methods.gsat import GSATMethod
from gsat.models import BACKBONES, Backbone, InterpretableModel
from gsat.models.saved import fill, load_model, model_folder, read_model
from gsat.models.weights import outline
from gsat.models.wrapping.settings import WrappedSettings, own_module
from gsat.training.checks import (
    check_config,
    check_data,
    check_device,
    check_given,
    check_processes,
    check_setting,
    check_shared,
    describe,
)
from gsat.training.loop import CHECKPOINT_SECONDS
from gsat.training.open_loop import open_loop
from gsat.training.pretrained_cache import PretrainedCache
from gsat.training.process_group import ProcessGroup, device_of_process
from gsat.training.recipe import Recipe, from_tables, make_recipe
from gsat.training.run_directory import RunDirectory, environment

REJECTED = "rejected.csv"  # of a run: the rows of a table that were not used


@dataclass(frozen=True)
class TrainingResult:
    """A finished run.

    Attributes:
        model: The model of the reported epoch, in evaluation mode.
        recipe: How it was trained.
        result: What ``result.json`` holds.
        path: The run directory, if there is one.
    """

    model: InterpretableModel
    recipe: Recipe
    result: dict[str, Any]
    path: Path | None = None

    def record(self) -> dict[str, Any]:
        """One line for ``results/runs.jsonl``: the result, the recipe and the environment."""
        return make_record(self.recipe, self.result, self.path)


def make_record(recipe: Recipe, result: dict[str, Any], path: Path | None) -> dict[str, Any]:
    """Make one line for ``results/runs.jsonl``: the result, the recipe and the environment."""
    started = RunDirectory(path).environment if path else environment()
    return {**result, "recipe": recipe.tables(), **started}


def train(
    recipe: Recipe,
    out: str | Path | None = None,
    *,
    device: str = "cpu",
    progress: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    pretrained_cache: str | Path | None = None,
    data: Dataset | None = None,
    kind: type[Method] | None = None,
) -> TrainingResult:
    """Train a recipe; see :func:`gsat.train`, which returns a :class:`gsat.Run`.

    Here, ``data`` may take the place of what the recipe loads, and ``kind`` that of its method:
    models that are meant to fail are trained so, to test what tells.
    """
    with ProcessGroup().share_errors():
        check_shared(recipe)
        device = check_device(device_of_process(device))
        data = load_data(recipe) if data is None else data
        recipe = complete_recipe(recipe, data)
        method = make_method(recipe, data, kind).to_device(device)
    with ProcessGroup().share_errors():  # only now: what one process can't do, none begins
        run = _create(out, recipe)
    return _run(
        method,
        data,
        recipe,
        run,
        device,
        pretrained_cache,
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
    )


def fit(
    model: GSAT,
    data: Dataset,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    device: str = "cpu",
    progress: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    **settings: Any,
) -> TrainingResult:
    """Train a GSAT model as it is; see :func:`gsat.fit`, which returns a :class:`gsat.Run`."""
    check_given(model, data)
    described = {
        **{f"data.{key}": value for key, value in data.options.items()},
        **({} if data.seed == seed else {"data.split_seed": data.seed}),
        **describe(model),
    }
    recipe = make_recipe(
        data.name, backbone=model.backbone.name, seed=seed, settings={**described, **settings}
    )
    for key, value in described.items():
        check_setting(recipe, key, value, "the model given to fit, it can't become")
    if recipe.split_seed != data.seed:
        raise RecipeError(
            f"data.split_seed is {data.seed} in the data given to fit, it can't become "
            f"{recipe.split_seed}"
        )
    with ProcessGroup().share_errors():
        device = check_device(device_of_process(device))
        method = GSATMethod(model, recipe.settings, recipe.training).to_device(device)
    with ProcessGroup().share_errors():
        run = _create(out, recipe)
    return _run(
        method,
        data,
        recipe,
        run,
        device,
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
        save_start=True,
    )


def resume(
    path: str | Path,
    *,
    model: GSAT | None = None,
    data: Dataset | None = None,
    device: str = "cpu",
    progress: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    pretrained_cache: str | Path | None = None,
    warn: Callable[[str], None] | None = None,
) -> TrainingResult:
    """Resume a run; see :func:`gsat.resume`, which returns a :class:`gsat.Run`."""
    with ProcessGroup().share_errors():
        run = RunDirectory.open(path)
        recipe = run.recipe
        if model is not None:
            where = f"the model given to resume {path}, in the run it is"
            for key, value in describe(model).items():
                check_setting(recipe, key, value, where)
        elif isinstance(recipe.backbone, WrappedSettings):
            raise own_module(recipe.backbone.module)
        if data is not None:
            check_data(recipe, data, path)
        if is_regular(run.result_path):
            return TrainingResult(load(path, model), recipe, run.result, run.path)
        run.check_recipe()
        check_processes(run)
        device = check_device(device_of_process(device))
        data = load_data(recipe) if data is None else data
        if model is None:
            method = make_method(recipe, data)
        else:
            method = GSATMethod(model, recipe.settings, recipe.training)
        method = method.to_device(device)
    return _run(
        method,
        data,
        recipe,
        run,
        device,
        pretrained_cache,
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
        resuming=True,
        warn=warn,
    )


def load(path: str | Path, model: GSAT | None = None) -> InterpretableModel:
    """Load the model of a run's best epoch, ready to predict and explain.

    Args:
        path: The run directory.
        model: The model that was given to :func:`fit`, built again, where its backbone is a network
            of your own (:func:`gsat.wrap`); it gets the weights of the run and is returned.
            (default: None, built from what the run holds)

    Returns:
        The model, in evaluation mode.

    Raises:
        RunError: ``path`` is not a run, or has no best epoch yet, or the model does not fit it.
        CheckpointError: The weights do not fit the model.
    """
    if model is None:
        return load_model(path)
    weights, described = read_model(model_folder(path))
    model.add_snapshots(described["model"].get("snapshots", 0))
    check_config(model, described["model"], path)
    model.r, model.input = described["model"]["r"], described.get("input")
    return fill(model, weights, path)


def _run(
    method: Method,
    data: Dataset,
    recipe: Recipe,
    run: RunDirectory | None,
    device: str,
    pretrained_cache: str | Path | None = None,
    **how: Any,
) -> TrainingResult:
    """Train in the run directory, if there is one, and write the result there."""
    pretrained, version = None, method.model.backbone.results_version
    method.model.input = input_of(data.store)
    if run and not how.get("resuming") and data.rejected and ProcessGroup().is_main:
        write_text(run.path / REJECTED, data.rejected.to_csv())
    with ProcessGroup().share_errors():
        # What is begun on one device may be resumed on another: only the CPU's is shared.
        if pretrained_cache and run and ProcessGroup().size == 1 and device == "cpu":
            pretrained = PretrainedCache(pretrained_cache).entry(
                run,
                recipe,
                method,
                data.hash,
                results_version=version,
            )
    with open_loop(method, data, recipe, run, device=device, pretrained=pretrained, **how) as loop:
        result = {
            "dataset": recipe.data.name,
            "method": recipe.method,
            "backbone": recipe.backbone.name,
            "seed": recipe.seed,
            **loop.train(),
            "matches_paper": data.matches_paper,
            "recipe_hash": recipe.hash(),
            "data_hash": data.hash,
            "results_version": version,
        }
        if loop.run:
            loop.run.write_result(result)
    return TrainingResult(method.model, recipe, result, run.path if run else None)


def _create(out: str | Path | None, recipe: Recipe) -> RunDirectory | None:
    """The run directory, if one is wanted; of several processes, the first makes it."""
    if out is None:
        return None
    return RunDirectory.create(out, recipe) if ProcessGroup().is_main else RunDirectory(out)


def load_data(recipe: Recipe) -> Dataset:
    """The data set of a recipe, split as the recipe says."""
    wanted, seed = recipe.data, recipe.split_seed
    return load_dataset(wanted.name, seed=seed, data_seed=wanted.data_seed, **wanted.options)


def complete_recipe(recipe: Recipe, data: Dataset) -> Recipe:
    """The recipe with what was inferred from users' own data: its hash, task, classes, split."""
    inferred = {**recipe.data.model_dump(exclude_none=True), **data.options}
    tables = recipe.tables()
    return recipe if inferred == tables["data"] else from_tables({**tables, "data": inferred})


def make_method(recipe: Recipe, data: Dataset, kind: type[Method] | None = None) -> Method:
    """The method of a recipe (or one like it) on a fresh backbone that fits the data."""
    settings = recipe.backbone.model_dump(exclude_none=True)
    network = BACKBONES[settings.pop("name")]

    def build() -> Backbone:
        return network.for_data(data, seed=recipe.seed, **settings)

    outline(build)  # a recipe may ask for any size: without memory, to begin with
    backbone = build()
    kind = METHODS[recipe.method] if kind is None else kind
    method = kind.create(backbone, recipe.settings, recipe.training, recipe.seed)
    method.prepare(data)
    return method
