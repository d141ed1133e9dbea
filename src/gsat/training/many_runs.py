"""Several runs side by side in a worker pool, each in its own run directory.

A run that is finished is not run again; one that was cut short is resumed. A run directory lies
where its run is trained: on the nodes of a Ray cluster that share storage, a run continues from its
last checkpoint wherever it is tried again; elsewhere it begins anew. Recorded runs are written by
the caller alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from gsat.core.errors import DiskError, Interrupted, RunError, RunExistsError, StopAllError
from gsat.core.files import checksum
from gsat.core.registry import METHODS, load_file, loaded_files
from gsat.core.writing import check_writable
from gsat.datasets.registry import is_own_data
from gsat.launch.jobs import Job, Outcome
from gsat.launch.pool import PoolResult, WorkerPool
from gsat.methods.pretraining import PretrainedMethod
from gsat.ops.numba.compile import compile_quietly
from gsat.training.members import (
    TrainMembers,
    member_recipes,
    resume_ensemble,
    train_ensemble,
)
from gsat.training.recipe import Recipe, from_tables
from gsat.training.results import record_once
from gsat.training.run_directory import RunDirectory
from gsat.training.train import TrainingResult, complete_recipe, load_data, resume, train

BackendName = Literal["local", "ray"]
# Called with the name of each run as it ends, and its result or, if it failed, why.
OnDone = Callable[[str, dict[str, Any] | str], None]

# Seconds that the workers of a killed command, or of a node that is given up for dead, may take to
# end and leave their run directories.
_HANDOVER: dict[BackendName, float] = {"local": 5.0, "ray": 60.0}


def train_seeds(
    recipes: Sequence[Recipe],
    folder: str | Path,
    *,
    jobs: int = 1,
    record: str | Path | None = None,
    done: OnDone | None = None,
) -> list[dict[str, Any]]:
    """Train recipes that differ by seed, each in its own run directory ``folder/seed-N``.

    Ctrl-C lets every running epoch finish and be saved; the same call then continues.
    """
    runs = {f"seed-{recipe.seed}": recipe for recipe in recipes}
    ended = train_each(runs, folder, jobs=jobs, record=record, done=done)
    if ended.failures:
        reasons = "; ".join(f"seed {runs[n].seed}: {why}" for n, why in ended.failures.items())
        raise RunError(f"{len(ended.failures)} of {len(recipes)} runs failed: {reasons}")
    if ended.unfinished:
        raise Interrupted(
            f"{len(ended.unfinished)} of {len(recipes)} runs were stopped, or another process is "
            f"training them; run the same again to resume those in {folder}"
        )
    return [ended.results[name] for name in runs]


def train_members(jobs: int, done: OnDone | None = None) -> TrainMembers:
    """Make what trains the members of an ensemble in worker processes."""

    def train_in(recipes: Mapping[str, Recipe], folder: Path) -> None:
        train_seeds(list(recipes.values()), folder, jobs=jobs, done=done)

    return train_in


def train_each(
    runs: Mapping[str, Recipe],
    folder: str | Path,
    *,
    backend: BackendName = "local",
    jobs: int | None = None,
    address: str | None = None,
    record: str | Path | None = None,
    done: OnDone | None = None,
    deadline: float | None = None,
    pretrained_cache: str | Path | None = None,
) -> PoolResult:
    """Train recipes that may differ in anything, each in ``folder/NAME``.

    A run that breaks is not tried again, one whose worker dies is. Ctrl-C lets every running epoch
    finish and be saved; a second one ends them at once.
    """
    cache = None if pretrained_cache is None else str(Path(pretrained_cache).absolute())
    tasks = {}
    for name, recipe in _complete(runs).items():
        out = Path(folder).absolute() / name
        check_same_recipe(out, recipe)
        tasks[name] = Job(
            f"{__name__}.{train_job.__name__}",
            {
                "recipe": recipe.tables(),
                "out": str(out),
                "pretrained_cache": cache,
                "patience": _HANDOVER[backend],
                "plug_ins": loaded_files(recipe.method, recipe.backbone.name, recipe.data.name),
            },
            pretrained_backbone(recipe) if cache else "",
        )

    def on_done(name: str, outcome: Outcome) -> None:
        value = outcome.value
        if outcome.status == "done":
            if record is not None:
                record_once(record, value["record"])
            value = value["result"]
        if done:
            done(name, value)

    if not tasks:
        return PoolResult()
    try:
        workers = min(jobs or 1, len(tasks)) if backend == "local" else jobs
        with WorkerPool(workers, backend, address) as pool:
            ended = pool.run(tasks, on_done=on_done, deadline=deadline)
    except KeyboardInterrupt:
        raise Interrupted(f"stopped; run the same again to resume the runs in {folder}") from None
    if ended.stopped is not None:
        raise DiskError(ended.stopped)
    return replace(ended, results={n: value["result"] for n, value in ended.results.items()})


def train_job(payload: dict[str, Any]) -> dict[str, Any]:
    """Train one run in a worker; it may be the second one to try."""
    torch.set_num_threads(1)
    for file in payload.get("plug_ins", ()):  # what the user's own command has loaded
        load_file(file)
    compile_quietly()  # the terminal shows the caller's bar
    recipe, out = from_tables(payload["recipe"]), Path(payload["out"])
    try:
        check_same_recipe(out, recipe)  # the caller may not see this folder
        run = _train_or_resume(recipe, out, payload["patience"], payload["pretrained_cache"])
    except DiskError as error:
        if is_everywhere(error, out):
            raise StopAllError(str(error)) from error
        raise
    return {"result": run.result, "record": run.record()}


def pretrained_backbone(recipe: Recipe) -> str:
    """Identify the backbone that a run pre-trains.

    Not by all that its weights depend on: runs that only look alike wait in vain, and train their
    own.
    """
    if not issubclass(METHODS[recipe.method], PretrainedMethod):
        return ""
    tables = recipe.tables()
    return checksum([tables["data"], tables["backbone"], recipe.seed, recipe.split_seed])


def check_same_recipe(out: Path, recipe: Recipe) -> None:
    """Raise if a folder holds a run with another recipe."""
    if RunDirectory(out).is_run() and RunDirectory(out).recipe != recipe:
        raise RunError(f"{out} holds a run with another recipe; choose another folder")


def is_everywhere(error: DiskError, out: Path) -> bool:
    """Whether other runs would meet a disk error, too.

    That is so if the disk is full, or if nothing can be written beside this run's folder either.
    """
    try:
        check_writable(out.parent)
    except DiskError:
        return True
    return error.full


def _complete(runs: Mapping[str, Recipe]) -> dict[str, Recipe]:
    """The recipes as runs will hold them, with what is inferred from users' own data."""
    return {
        name: complete_recipe(recipe, load_data(recipe))
        if is_own_data(recipe.data.name) and not recipe.data.options.get("content")
        else recipe
        for name, recipe in runs.items()
    }


def _train_or_resume(
    recipe: Recipe, out: Path, patience: float, pretrained_cache: str | None
) -> TrainingResult:
    """Begin a run or resume it; wait ``patience`` seconds for another process to leave it."""
    folder = RunDirectory(out)
    begin: Callable[..., TrainingResult] = train
    go_on: Callable[..., TrainingResult] = resume
    how: dict[str, Any] = {"pretrained_cache": pretrained_cache}
    if recipe.members is not None:
        begin, go_on = train_ensemble, resume_ensemble
        how["known"] = _runs_of_members(recipe, out.parent.parent)
    if not folder.is_run():
        try:
            return begin(recipe, out, **how)
        except RunExistsError:  # another process has begun it since
            check_same_recipe(out, recipe)
    if not folder.result_path.is_file():
        folder.await_lock(patience)
    return go_on(out, **how)


def _runs_of_members(recipe: Recipe, folder: Path) -> list[Path]:
    """Run directories in a folder, named by :func:`run_name`, that may be members' own runs."""
    return [
        path
        for member in member_recipes(recipe).values()
        for path in sorted(folder.glob(f"*-{member.hash()}-*/seed-{member.seed}"))
        if RunDirectory(path).is_run()
    ]
