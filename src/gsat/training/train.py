"""Train a recipe, fit a model, resume a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gsat.core.errors import (
    DataError,
    DiskError,
    GSATError,
    RecipeError,
    RunError,
    RunExistsError,
    StopAllError,
)
from gsat.core.files import is_regular
from gsat.core.registry import load_file
from gsat.core.writing import check_writable
from gsat.datasets.load import Dataset, check_dataset
from gsat.gsat import GSAT
from gsat.methods import METHODS, Method
from gsat.methods.gsat import GSATMethod
from gsat.models.ensemble import MEMBERS, Ensemble
from gsat.models.wrapping.settings import WrappedSettings, own_module
from gsat.ops.numba.compile import compile_quietly
from gsat.training.loop import CHECKPOINT_SECONDS, TrainOptions, make_method, train_method
from gsat.training.many_runs import train_seeds
from gsat.training.members import copy_members, ensemble_result, find_members, member_recipes
from gsat.training.process_group import device_of_process, resume_command
from gsat.training.recipe import Recipe, complete_recipe, from_tables, load_data, make_recipe
from gsat.training.run import Run, load
from gsat.training.run_directory import RunDirectory


def train(
    recipe: Recipe,
    out: str | Path | None = None,
    options: TrainOptions | None = None,
    *,
    data: Dataset | None = None,
    kind: type[Method] | None = None,
    **changed: Any,
) -> Run:
    """Train a recipe.

    Args:
        recipe: What to train, on which data, how and with which seed; see
            :func:`gsat.make_recipe`.
        out: Run directory to create; it must be empty or absent. (default: None, nothing is
            written)
        options: Options that do not change the results. (default: those of
            :class:`gsat.training.loop.TrainOptions`)
        data: The data of the recipe, if it is loaded already. (default: None)
        kind: A class of methods in place of the recipe's. (default: None)
        **changed: Single options by name, such as ``device="cuda"``, ``progress=True``,
            ``checkpoint_seconds=60``, ``pretrained_cache="folder"`` or, for an ensemble,
            ``jobs=4``.

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
    options = replace(options or TrainOptions(), **changed)
    with options.group.share_errors():
        _check_shared(recipe, options.group.size)
        options = _on_device(options)
        data = load_data(recipe) if data is None else data
        recipe = complete_recipe(recipe, data)
        if recipe.members is None:
            method = make_method(recipe, data, kind).to_device(options.device)
            if out is not None:
                method.model.check_config()
    # Only now: if one process fails before, no run directory is made.
    run = _create(out, recipe, options)
    if recipe.members is not None:
        return _train_ensemble(run, recipe, data, options)
    return _train(method, data, recipe, run, options)


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
    _check_given(model, data)
    described = {
        **{f"data.{key}": value for key, value in data.options.items()},
        **({} if data.seed == seed else {"data.split_seed": data.seed}),
        **_describe(model),
    }
    recipe = make_recipe(
        data.name, backbone=model.backbone.name, seed=seed, settings={**described, **settings}
    )
    for key, value in described.items():
        _check_setting(recipe, key, value, "the model given to fit, it can't become")
    if recipe.split_seed != data.seed:
        raise RecipeError(
            f"data.split_seed is {data.seed} in the data given to fit, it can't become "
            f"{recipe.split_seed}"
        )
    options = TrainOptions(device=device, progress=progress, checkpoint_seconds=checkpoint_seconds)
    with options.group.share_errors():
        options = _on_device(options)
        method = GSATMethod(model, recipe.settings, recipe.training).to_device(options.device)
        if out is not None:
            model.check_config()
    run = _create(out, recipe, options)
    return _train(method, data, recipe, run, options, save_start=True)


def resume(
    path: str | Path,
    options: TrainOptions | None = None,
    *,
    model: GSAT | None = None,
    data: Dataset | None = None,
    **changed: Any,
) -> Run:
    """Resume a run exactly at its last checkpoint; a finished run is only read.

    Args:
        path: The run directory.
        options: As for :func:`train`. (default: None)
        model: The model that was given to :func:`fit`, built again, where its backbone is a network
            of your own (:func:`gsat.wrap`); it gets the weights of the checkpoint.
            (default: None, built from the recipe)
        data: The data that was given to :func:`fit`, loaded again, where it was not loaded from a
            path. (default: None, loaded by the recipe)
        **changed: As for :func:`train`; ``warn`` is called with a line for each damaged checkpoint
            that was skipped.

    Returns:
        The finished run.

    Raises:
        RunError: ``path`` is not a run, or another process is training it.
        RecipeError: The model or the data is not that of the run.
        CheckpointError: No checkpoint can be read.
        Interrupted: Ctrl-C was pressed; the epoch is saved.
    """
    options = replace(options or TrainOptions(), **changed)
    with options.group.share_errors():
        run = RunDirectory.open(path)
        recipe = run.recipe
        if model is not None:
            where = f"the model given to resume {path}, in the run it is"
            for key, value in _describe(model).items():
                _check_setting(recipe, key, value, where)
        elif isinstance(recipe.backbone, WrappedSettings):
            raise own_module(recipe.backbone.module)
        if data is not None:
            _check_data(recipe, data, path)
        if is_regular(run.result_path):
            trained = load(path, model)
            return Run(run.path, model=trained, recipe=recipe, result=run.result, data=data)
        run.check_recipe()
        _check_processes(run, options.group.size)
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
    return _train(method, data, recipe, run, options, resuming=True)


def train_or_resume(
    recipe: Recipe,
    out: Path,
    options: TrainOptions,
    *,
    data: Dataset | None = None,
    patience: float = 0.0,
) -> Run:
    """Train a recipe in a folder, or resume the run that the folder holds.

    Another process that trains there has ``patience`` seconds to leave.
    """
    folder = RunDirectory(out)
    folder.check_same_recipe(recipe)
    if not folder.is_run():
        try:
            return train(recipe, out, options, data=data)
        except RunExistsError:  # another process has begun it since
            folder.check_same_recipe(recipe)
    if not folder.result_path.is_file():
        # The worker of a killed command, or of a lost node, may take some time to end.
        with folder.locked(wait=patience):
            pass
    return resume(out, options, data=data)


def train_job(payload: dict[str, Any]) -> dict[str, Any]:
    """Train or resume one run in a worker process; see :mod:`gsat.training.many_runs`."""
    torch.set_num_threads(1)
    for file in payload.get("plug_ins", ()):  # those that the caller has loaded
        load_file(file)
    compile_quietly()  # the terminal shows the caller's bar
    recipe, out = from_tables(payload["recipe"]), Path(payload["out"])
    options = TrainOptions(
        pretrained_cache=payload["pretrained_cache"],
        member_runs=find_members(recipe, out.parent.parent),
    )
    try:
        # The caller may not see this folder.
        run = train_or_resume(recipe, out, options, patience=payload["patience"])
    except DiskError as error:
        if is_everywhere(error, out):
            raise StopAllError(str(error)) from error
        raise
    return {"result": run.result, "record": run.record()}


def is_everywhere(error: DiskError, out: Path) -> bool:
    """Whether other runs would fail with a disk error, too.

    That is so if the disk is full, or if the folder beside this run can't be written to either.
    """
    try:
        check_writable(out.parent)
    except DiskError:
        return True
    return error.full


def _train(
    method: Method,
    data: Dataset,
    recipe: Recipe,
    run: RunDirectory | None,
    options: TrainOptions,
    **how: bool,
) -> Run:
    result = train_method(method, data, recipe, run, options, **how)
    path = run.path if run else None
    return Run(path, model=method.model, recipe=recipe, result=result, data=data)


def _train_ensemble(
    run: RunDirectory | None, recipe: Recipe, data: Dataset, options: TrainOptions
) -> Run:
    """Train the members of an ensemble that are not finished, and measure it."""
    recipes = member_recipes(recipe)
    if run is None:
        runs = [train(member, None, options, data=data) for member in recipes.values()]
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
                train_or_resume(member, folder / name, options, data=data)
        ensemble = Ensemble([folder / name for name in recipes])
        results = [RunDirectory.open(folder / name).result for name in recipes]
        result = ensemble_result(recipe, ensemble, results, data)
        run.write_result(result)
    return Run(run.path, model=ensemble, recipe=recipe, result=result, data=data)


def _on_device(options: TrainOptions) -> TrainOptions:
    """The same options with the device of this process, which must be available."""
    device = device_of_process(options.device, options.group.size)
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise GSATError(f"the device '{device}' is unavailable: {reason}") from None
    return replace(options, device=device)


def _create(out: str | Path | None, recipe: Recipe, options: TrainOptions) -> RunDirectory | None:
    """Create the run directory, if one is wanted; only the first process writes to it."""
    with options.group.share_errors():
        if out is None or not options.group.is_main:
            return None if out is None else RunDirectory(out)
        return RunDirectory.create(out, recipe, options.group.size)


# -- a caller's model and data -------------------------------------------------------------------


def _check_shared(recipe: Recipe, processes: int) -> None:
    """Raise if there are several processes and the method can't be trained by several."""
    method = METHODS[recipe.method]
    if processes > 1 and not method.data_parallel:
        shared = ", ".join(name for name, other in METHODS.items() if other.data_parallel)
        raise GSATError(
            f"{method.title} is trained by one process, not by {processes}; start it "
            f"without torchrun (several processes can train {shared})"
        )


def _check_processes(run: RunDirectory, here: int) -> None:
    """Raise unless the run was started with this number of processes: results depend on it."""
    begun = run.environment.get("processes", 1)
    if begun != here:
        raise RunError(
            f"{run.path} was begun by {begun} process{'es' if begun > 1 else ''}, not by {here}; "
            f"resume it with: {resume_command(begun)} {run.path}"
        )


def _check_given(model: Any, data: Any) -> None:
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


def _describe(model: GSAT) -> dict[str, Any]:
    """The settings of a recipe that a model carries in itself."""
    network = model.backbone.settings.model_dump(exclude={"name"})
    return {
        **{f"backbone.{key}": value for key, value in network.items()},
        **{f"method.gsat.{key}": value for key, value in model.options.model_dump().items()},
    }


def _check_setting(recipe: Recipe, key: str, value: Any, where: str) -> None:
    """Raise unless a setting of the recipe has a value."""
    table: Any = recipe.tables()
    for part in key.split("."):
        table = table.get(part)
    if table != value:
        raise RecipeError(f"{key} is {value!r} in {where} {table!r}")


def _check_data(recipe: Recipe, data: Dataset, path: str | Path) -> None:
    """Raise unless the data is that of the run, split in the same way."""
    expected = {**recipe.data.options, "name": recipe.data.name, "seed": recipe.split_seed}
    for key, value in {**data.options, "name": data.name, "seed": data.seed}.items():
        if expected.get(key, value) != value:
            raise RecipeError(
                f"data.{key} is {value!r} in the data given to resume {path}, in the run it is "
                f"{expected[key]!r}"
            )
