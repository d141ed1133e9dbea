"""What users call: `train` a recipe, `fit` a model, `resume` a run, `load` its model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gsat.datasets.load import Dataset, load_dataset
from gsat.errors import GSATError, RecipeError
from gsat.gsat import GSAT
from gsat.io.atomic import write_json
from gsat.launch.progress import Progress
from gsat.methods import METHODS, Method
from gsat.methods.gsat import GSATMethod
from gsat.models import BACKBONES, InterpretableModel
from gsat.models.saved import fill, load_model, model_folder, read_model
from gsat.models.wrapping.wrap import WrappedSettings, own_module
from gsat.training.checks import (
    check_config,
    check_data,
    check_given,
    check_processes,
    check_setting,
    check_shared,
    describe,
)
from gsat.training.loop import Loop
from gsat.training.pretrained_cache import PretrainedCache
from gsat.training.process_group import ProcessGroup, own_device
from gsat.training.recipe import Recipe, from_tables, make_recipe
from gsat.training.run_directory import RunDirectory, environment

# Raised when the numerics change, so that recorded runs of an older kind are not mixed in.
RESULTS_VERSION = 2


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
        model: the model of the reported epoch. recipe: how it was trained.
        result: what ``result.json`` holds. path: the run directory, if there is one.
    """

    model: InterpretableModel
    recipe: Recipe
    result: dict[str, Any]
    path: Path | None = None

    @property
    def test(self) -> dict[str, Any]:
        """Test metrics of the reported epoch."""
        return self.result["test"]

    @property
    def valid(self) -> dict[str, Any]:
        """Validation metrics of the reported epoch."""
        return self.result["valid"]

    def record(self) -> dict[str, Any]:
        """One line for ``results/runs.jsonl``: the result, the recipe and the environment."""
        started = RunDirectory(self.path).environment if self.path else environment()
        return {**self.result, "recipe": self.recipe.tables(), **started}


def train(
    recipe: Recipe,
    out: str | Path | None = None,
    *,
    device: str = "cpu",
    progress: bool = False,
    checkpoint_seconds: float = 30.0,
    pretrained_cache: str | Path | None = None,
) -> Run:
    """Train a recipe, in the run directory ``out`` if one is given.

    Args:
        pretrained_cache: a folder in which backbones trained alone are kept: runs of GSAT* and of the post-hoc
            explainers that begin with the same one train it once. The results are the same.
    """
    with ProcessGroup().agreed():
        check_shared(recipe)
        device = check_device(own_device(device))
        data = load_data(recipe)
        recipe = complete_recipe(recipe, data)
        method = make_method(recipe, data).to_device(device)
    with ProcessGroup().agreed():  # only now: what one process can't do, none begins
        run = _create(out, recipe)
    return _run(
        method,
        data,
        recipe,
        run,
        device,
        progress,
        checkpoint_seconds,
        pretrained_cache=pretrained_cache,
    )


def fit(
    model: GSAT,
    data: Dataset,
    *,
    seed: int = 0,
    out: str | Path | None = None,
    device: str = "cpu",
    progress: bool = False,
    checkpoint_seconds: float = 30.0,
    **settings: Any,
) -> Run:
    """Train a GSAT model as it stands (nothing is initialised again).

    Args:
        model: a :class:`gsat.GSAT`. data: from :func:`gsat.load_dataset`, split by its own seed.
        seed: decides the order of batches and all draws.
        out: run directory; without it, nothing is written.
        settings: any setting of the recipe by name, such as ``epochs=50``, ``lr=3e-3`` or
            ``r_final=0.6``; the rest comes from the shipped recipe of the data set.
    """
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
    with ProcessGroup().agreed():
        device = check_device(own_device(device))
        method = GSATMethod(model, recipe.settings, recipe.training).to_device(device)
    with ProcessGroup().agreed():
        run = _create(out, recipe)
    return _run(method, data, recipe, run, device, progress, checkpoint_seconds, given=True)


def resume(
    path: str | Path,
    *,
    model: GSAT | None = None,
    data: Dataset | None = None,
    device: str = "cpu",
    progress: bool = False,
    checkpoint_seconds: float = 30.0,
    pretrained_cache: str | Path | None = None,
    warn: Callable[[str], None] | None = None,
) -> Run:
    """Go on with a run exactly where its last checkpoint stands; a finished run is just read.

    Args:
        model: the model that was given to :func:`fit`, made again, where its backbone is a network
            of your own (:func:`gsat.wrap`); it gets the weights of the checkpoint.
        data: the data that was given to :func:`fit`, loaded again, where it is at no path.
        pretrained_cache: as for :func:`train`.
        warn: called with a line for each damaged checkpoint that had to be passed over.
    """
    with ProcessGroup().agreed():
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
        if run.result_path.is_file():
            return Run(load(path, model), recipe, run.result, run.path)
        check_processes(run)
        device = check_device(own_device(device))
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
        progress,
        checkpoint_seconds,
        pretrained_cache=pretrained_cache,
        resuming=True,
        warn=warn,
    )


def load(path: str | Path, model: GSAT | None = None) -> InterpretableModel:
    """The model of a run's best epoch, ready to predict and explain.

    Args:
        model: the model that was given to :func:`fit`, made again, where its backbone is a network
            of your own (:func:`gsat.wrap`); it gets the weights of the run and is returned.
    """
    if model is None:
        return load_model(path)
    weights, described = read_model(model_folder(path))
    check_config(model, described["model"], path)
    model.r = described["model"]["r"]
    return fill(model, weights, path)


def check_device(device: str) -> str:
    """The device, or an error when it is not there."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise GSATError(f"the device '{device}' can't be used here: {reason}") from None
    return device


def _run(
    method: Method,
    data: Dataset,
    recipe: Recipe,
    run: RunDirectory | None,
    device: str,
    progress: bool,
    checkpoint_seconds: float,
    pretrained_cache: str | Path | None = None,
    resuming: bool = False,
    given: bool = False,
    warn: Callable[[str], None] | None = None,
) -> Run:
    group, problems, pretrained = ProcessGroup(), [], None
    with ExitStack() as locks:
        with group.agreed():
            quiet = not (progress and group.is_main)
            # What is begun on one device may be resumed on another: only the CPU's is shared.
            if (
                pretrained_cache is not None
                and run is not None
                and group.size == 1
                and device == "cpu"
            ):
                version = {"results_version": RESULTS_VERSION}
                pretrained = PretrainedCache(pretrained_cache).entry(
                    run, recipe, method, data.hash, **version
                )
            loop = Loop(
                method,
                data,
                batch_size=recipe.training.batch_size,
                seed=recipe.seed,
                run=run,
                device=device,
                progress=Progress(f"{recipe.data.label} seed {recipe.seed}", quiet),
                checkpoint_seconds=checkpoint_seconds,
                pretrained=pretrained,
            )
            if loop.run:
                locks.enter_context(loop.run.locked())
            if resuming:
                problems = loop.resume()
            elif given and run is not None:
                loop.keep_start()
        group.check_same(
            "the recipe, the data or the checkpoint", [recipe.hash(), data.hash, loop.done]
        )
        if resuming:  # now that all processes have read it
            for problem in problems:
                if warn and group.is_main:
                    warn(f"{problem}; going on from the checkpoint before it")
            with group.agreed():
                loop.clean()
        result = {
            "dataset": recipe.data.name,
            "method": recipe.method,
            "backbone": recipe.backbone.name,
            "seed": recipe.seed,
            **loop.train(),
            "matches_paper": data.matches_paper,
            "recipe_hash": recipe.hash(),
            "data_hash": data.hash,
            "results_version": RESULTS_VERSION,
        }
        if loop.run:
            write_json(loop.run.result_path, result)
    return Run(method.model, recipe, result, run.path if run else None)


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
    """The recipe with what was told from data of the user's own: its hash, task, classes, split."""
    told = {**recipe.data.model_dump(exclude_none=True), **data.options}
    tables = recipe.tables()
    return recipe if told == tables["data"] else from_tables({**tables, "data": told})


def make_method(recipe: Recipe, data: Dataset) -> Method:
    """The method of a recipe on a fresh backbone that fits the data."""
    settings = recipe.backbone.model_dump(exclude_none=True)
    backbone = BACKBONES[settings.pop("name")].for_data(data, seed=recipe.seed, **settings)
    kind = METHODS[recipe.method]
    method = kind.create(backbone, recipe.settings, recipe.training, recipe.seed)
    method.prepare(data)
    return method
