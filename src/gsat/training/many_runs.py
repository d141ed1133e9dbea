"""Several runs side by side in a worker pool, each in its own run directory.

Finished runs are skipped, interrupted ones are resumed. A run directory lies where its run is
trained: on the nodes of a Ray cluster that share storage, a retried run continues from its last
checkpoint; elsewhere it begins anew. Only the caller writes records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from gsat.core.errors import DiskError, Interrupted, RunError
from gsat.core.files import checksum
from gsat.core.registry import METHODS, loaded_files
from gsat.datasets.registry import is_own_data
from gsat.launch.jobs import Job, Outcome
from gsat.launch.pool import PoolResult, WorkerPool
from gsat.methods.pretraining import PretrainedMethod
from gsat.training.loop import OnDone
from gsat.training.recipe import Recipe, complete_recipe, load_data
from gsat.training.results import record_once
from gsat.training.run_directory import RunDirectory

BackendName = Literal["local", "ray"]
_TRAIN_JOB = "gsat.training.train.train_job"

# Seconds that the workers of a killed command, or of a lost node, may take to end and to leave
# their run directories.
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
        RunDirectory(out).check_same_recipe(recipe)
        tasks[name] = Job(
            _TRAIN_JOB,
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


def pretrained_backbone(recipe: Recipe) -> str:
    """A key for the backbone that a run pretrains: runs with the same key wait for the first.

    It is not a full key: a false match only delays a run.
    """
    if not issubclass(METHODS[recipe.method], PretrainedMethod):
        return ""
    tables = recipe.tables()
    return checksum([tables["data"], tables["backbone"], recipe.seed, recipe.split_seed])


def _complete(runs: Mapping[str, Recipe]) -> dict[str, Recipe]:
    """Add the settings inferred from users' own data, as the runs will record them."""
    return {
        name: complete_recipe(recipe, load_data(recipe))
        if is_own_data(recipe.data.name) and not recipe.data.options.get("content")
        else recipe
        for name, recipe in runs.items()
    }
