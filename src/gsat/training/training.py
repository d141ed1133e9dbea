"""Train a recipe, fit a model, resume a run; each returns the run, opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gsat.datasets.load import Dataset
from gsat.gsat import GSAT
from gsat.training import train as training
from gsat.training.loop import CHECKPOINT_SECONDS
from gsat.training.many_runs import OnDone, train_members
from gsat.training.members import is_ensemble, resume_ensemble, train_ensemble
from gsat.training.recipe import Recipe
from gsat.training.run import Run


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
        checkpoint_seconds: A checkpoint is written at the end of an epoch once this much time has
            passed since the last one, and always at the end. (default: 30)
        pretrained_cache: Folder in which pre-trained backbones are kept: runs of GSAT* and of the
            post-hoc explainers that begin with the same one train it once. The results are the
            same. (default: None)
        jobs: Of an ensemble with a run directory: how many members at the same time, each in a
            process of its own. (default: 1, one after another in this process)
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
    how: dict[str, Any] = {
        "device": device,
        "progress": progress,
        "checkpoint_seconds": checkpoint_seconds,
        "pretrained_cache": pretrained_cache,
    }
    if recipe.members is None:
        return _opened(training.train(recipe, out, **how))
    workers = train_members(jobs, done) if jobs > 1 and out is not None else None
    return _opened(train_ensemble(recipe, out, workers, **how))


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
        checkpoint_seconds: A checkpoint is written at the end of an epoch once this much time has
            passed since the last one, and always at the end. (default: 30)
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
    result = training.fit(
        model,
        data,
        seed=seed,
        out=out,
        device=device,
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
        **settings,
    )
    return _opened(result, data)


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
    if is_ensemble(path):
        workers = train_members(jobs, done) if jobs > 1 else None
        ended = resume_ensemble(
            path,
            workers,
            device=device,
            progress=progress,
            checkpoint_seconds=checkpoint_seconds,
            pretrained_cache=pretrained_cache,
        )
        return _opened(ended)
    result = training.resume(
        path,
        model=model,
        data=data,
        device=device,
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
        pretrained_cache=pretrained_cache,
        warn=warn,
    )
    return _opened(result, data)


def _opened(result: training.TrainingResult, data: Dataset | None = None) -> Run:
    """The run that ended, with what is in memory already."""
    return Run(
        result.path, model=result.model, recipe=result.recipe, result=result.result, data=data
    )
