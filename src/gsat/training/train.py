"""Train a recipe, fit a model, resume a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsat.core.errors import RecipeError
from gsat.core.files import is_regular
from gsat.datasets.load import Dataset
from gsat.gsat import GSAT
from gsat.methods import Method
from gsat.methods.gsat import GSATMethod
from gsat.models.ensemble import MEMBERS, Ensemble
from gsat.models.wrapping.settings import WrappedSettings, own_module
from gsat.training.checks import (
    check_data,
    check_device,
    check_given,
    check_processes,
    check_setting,
    check_shared,
    describe,
)
from gsat.training.loop import CHECKPOINT_SECONDS, OnDone, TrainOptions
from gsat.training.many_runs import check_same_recipe, train_seeds
from gsat.training.members import copy_members, ensemble_result, member_recipes
from gsat.training.process_group import device_of_process
from gsat.training.recipe import Recipe, complete_recipe, load_data, make_recipe
from gsat.training.run import Run, load
from gsat.training.run_directory import RunDirectory
from gsat.training.train_method import make_method, train_method


def train(
    recipe: Recipe,
    out: str | Path | None = None,
    *,
    device: str = "cpu",
    progress: bool = False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    pretrained_cache: str | Path | None = None,
    jobs: int = 1,
    done: OnDone | None = None,
) -> Run:
    """Train a recipe.

    Args:
        recipe: What to train, on which data, how and with which seed; see
            :func:`gsat.make_recipe`.
        out: Run directory to create; it must be empty or absent. (default: None, nothing is
            written)
        device: A torch device such as ``"cuda"``. (default: ``"cpu"``)
        progress: Whether to show a progress bar on a terminal. (default: False)
        checkpoint_seconds: Minimum time between checkpoints, which are written between epochs; one
            is always written at the end. (default: 30)
        pretrained_cache: Folder of pretrained backbones: runs of GSAT* and of the post-hoc
            explainers that begin with the same one train it once, with the same results.
            (default: None)
        jobs: Ensemble members to train at the same time, each in its own process; needs
            ``out``. (default: 1, one after another in this process)
        done: Called with the name of each member that such a process has trained. (default: None)

    Returns:
        The finished run.

    Raises:
        RunError: ``out`` can't be used, or training broke down.
        DataError: The data is missing, or does not fit the recipe.
        Interrupted: Ctrl-C was pressed; the epoch is saved, and :func:`resume` continues.

    Example:
        >>> import gsat
        >>> recipe = gsat.make_recipe(
        ...     "ba2motifs", settings={"graphs": 60, "epochs": 1, "hidden": 8, "layers": 1}
        ... )
        >>> run = gsat.train(recipe)
        >>> run.result["best_epoch"], 0 <= run.test["accuracy"] <= 1
        (0, True)
    """
    options = TrainOptions(
        device=device,
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
        pretrained_cache=pretrained_cache,
        jobs=jobs,
        done=done,
    )
    return train_recipe(recipe, out, options)


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
) -> Run:
    """Train a GSAT model as it is; nothing is initialised again.

    Args:
        model: The model; it is trained in place.
        data: From :func:`gsat.load_dataset`, split by its own seed.
        seed: Decides the order of batches and all random draws. (default: 0)
        out: Run directory to create; it must be empty or absent. (default: None, nothing is
            written)
        device: A torch device such as ``"cuda"``. (default: ``"cpu"``)
        progress: Whether to show a progress bar on a terminal. (default: False)
        checkpoint_seconds: As for :func:`train`. (default: 30)
        **settings: Any setting of the recipe by name, such as ``epochs=50``, ``lr=3e-3`` or
            ``r_final=0.6``; the rest comes from the shipped recipe of the data set.

    Returns:
        The finished run.

    Raises:
        DataError: The model does not fit the data.
        RecipeError: A setting is unknown, or contradicts the model or the data.
        RunError: ``out`` can't be used, or training broke down.
        Interrupted: Ctrl-C was pressed; the epoch is saved, and :func:`resume` continues.

    Example:
        >>> import gsat
        >>> data = gsat.load_dataset("ba2motifs", graphs=60)
        >>> model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1))
        >>> run = gsat.fit(model, data, epochs=1)
        >>> run.model is model, run.result["best_epoch"]
        (True, 0)
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
    options = TrainOptions(device=device, progress=progress, checkpoint_seconds=checkpoint_seconds)
    with options.group.share_errors():
        options = _on_device(options)
        method = GSATMethod(model, recipe.settings, recipe.training).to_device(options.device)
    run = _create(out, recipe, options)
    result = train_method(method, data, recipe, run, options, save_start=True)
    path = run.path if run else None
    return Run(path, model=model, recipe=recipe, result=result, data=data)


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
    jobs: int = 1,
    done: OnDone | None = None,
) -> Run:
    """Resume a run exactly at its last checkpoint; a finished run is only read.

    Args:
        path: The run directory.
        model: The model that was given to :func:`fit`, built again, where its backbone is a network
            of your own (:func:`gsat.wrap`); it gets the weights of the checkpoint.
            (default: None, built from the recipe)
        data: The data that was given to :func:`fit`, loaded again, where it was not loaded from a
            path. (default: None, loaded by the recipe)
        device: A torch device such as ``"cuda"``. (default: ``"cpu"``)
        progress: Whether to show a progress bar on a terminal. (default: False)
        checkpoint_seconds: As for :func:`train`. (default: 30)
        pretrained_cache: As for :func:`train`. (default: None)
        warn: Called with a line for each damaged checkpoint that was skipped. (default: None)
        jobs: As for :func:`train`. (default: 1)
        done: As for :func:`train`. (default: None)

    Returns:
        The finished run.

    Raises:
        RunError: ``path`` is not a run, or another process is training it.
        RecipeError: The model or the data is not that of the run.
        CheckpointError: No checkpoint can be read.
        Interrupted: Ctrl-C was pressed; the epoch is saved.
    """
    options = TrainOptions(
        device=device,
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
        pretrained_cache=pretrained_cache,
        jobs=jobs,
        done=done,
        warn=warn,
    )
    return resume_run(path, options, model=model, data=data)


def train_recipe(
    recipe: Recipe,
    out: str | Path | None = None,
    options: TrainOptions | None = None,
    *,
    data: Dataset | None = None,
    kind: type[Method] | None = None,
) -> Run:
    """Train a recipe, on data that is loaded already, or by another class of method."""
    options = options or TrainOptions()
    with options.group.share_errors():
        check_shared(recipe, options.group.size)
        options = _on_device(options)
        data = load_data(recipe) if data is None else data
        recipe = complete_recipe(recipe, data)
        if recipe.members is None:
            method = make_method(recipe, data, kind).to_device(options.device)
    # Only now: if one process fails before, no run directory is made.
    run = _create(out, recipe, options)
    if recipe.members is not None:
        return _train_ensemble(run, recipe, data, options)
    result = train_method(method, data, recipe, run, options)
    path = run.path if run else None
    return Run(path, model=method.model, recipe=recipe, result=result, data=data)


def resume_run(
    path: str | Path,
    options: TrainOptions,
    *,
    model: GSAT | None = None,
    data: Dataset | None = None,
) -> Run:
    """Resume a run; see :func:`resume`."""
    with options.group.share_errors():
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
            trained = load(path, model)
            return Run(run.path, model=trained, recipe=recipe, result=run.result, data=data)
        run.check_recipe()
        check_processes(run, options.group.size)
        options = _on_device(options)
        data = load_data(recipe) if data is None else data
        if recipe.members is None:
            if model is None:
                method = make_method(recipe, data)
            else:
                method = GSATMethod(model, recipe.settings, recipe.training)
            method = method.to_device(options.device)
    if recipe.members is not None:
        return _train_ensemble(run, recipe, data, options)
    result = train_method(method, data, recipe, run, options, resuming=True)
    return Run(run.path, model=method.model, recipe=recipe, result=result, data=data)


def train_or_resume(recipe: Recipe, out: Path, options: TrainOptions, data: Dataset) -> Run:
    """Train a recipe in a folder, or resume the run that the folder holds."""
    check_same_recipe(out, recipe)
    if RunDirectory(out).is_run():
        return resume_run(out, options, data=data)
    return train_recipe(recipe, out, options, data=data)


def _train_ensemble(
    run: RunDirectory | None, recipe: Recipe, data: Dataset, options: TrainOptions
) -> Run:
    """Train the members of an ensemble that are not finished, and measure it."""
    recipes = member_recipes(recipe)
    if run is None:
        runs = [train_recipe(member, None, options, data=data) for member in recipes.values()]
        ensemble = Ensemble([one.model for one in runs])
        result = ensemble_result(recipe, ensemble, [one.result for one in runs], data)
        return Run(model=ensemble, recipe=recipe, result=result, data=data)
    folder = run.path / MEMBERS
    with run.locked():
        run.clear_partial_files()
        copy_members(options.member_runs, recipes, folder, data.hash)
        if options.jobs > 1:
            train_seeds(list(recipes.values()), folder, jobs=options.jobs, done=options.done)
        else:
            for name, member in recipes.items():
                train_or_resume(member, folder / name, options, data)
        ensemble = Ensemble([folder / name for name in recipes])
        results = [RunDirectory.open(folder / name).result for name in recipes]
        result = ensemble_result(recipe, ensemble, results, data)
        run.write_result(result)
    return Run(run.path, model=ensemble, recipe=recipe, result=result, data=data)


def _on_device(options: TrainOptions) -> TrainOptions:
    """The same options with the device of this process, which must be available."""
    device = device_of_process(options.device, options.group.size)
    check_device(device)
    return replace(options, device=device)


def _create(out: str | Path | None, recipe: Recipe, options: TrainOptions) -> RunDirectory | None:
    """Create the run directory, if one is wanted; only the first process writes to it."""
    with options.group.share_errors():
        if out is None or not options.group.is_main:
            return None if out is None else RunDirectory(out)
        return RunDirectory.create(out, recipe, options.group.size)
