"""Train the runs of a plan and record them.

A run that was cut short is resumed from its directory, so the same plan, made again after a crash,
a kill or a spent budget, continues where it stopped.
"""

from __future__ import annotations

import time
from typing import Any

from gsat.core.errors import DiskError, GSATError
from gsat.launch.pool import PoolResult
from gsat.launch.progress import Progress
from gsat.study.bench_folders import BenchFolders
from gsat.study.bench_progress import BenchProgress
from gsat.study.curves import record_curves
from gsat.study.plan import RunPlan
from gsat.study.records import graphs_key
from gsat.training.many_runs import BackendName, train_each
from gsat.training.recipe import Recipe
from gsat.training.results import record_once, results_version
from gsat.training.run_directory import RunDirectory, environment


def run_plan(
    plan: RunPlan,
    folders: BenchFolders,
    *,
    jobs: int | None = None,
    budget: float | None = None,
    backend: BackendName = "local",
    address: str | None = None,
    progress: bool = False,
) -> PoolResult:
    """Train what is left, each run in its own directory, and record it, also if it failed."""
    if not plan.to_run:
        return PoolResult()
    named = {run.name: run for run in plan.to_run}
    deadline = None if budget is None else time.monotonic() + budget
    bar = Progress(f"{len(named)} runs", quiet=not progress, counted=False)
    expected = {name: run.seconds for name, run in named.items()}
    bench = BenchProgress(bar, folders.runs, expected, jobs or (1 if backend == "local" else None))
    damaged: dict[str, str] = {}  # finished runs whose directory can't be read

    def done(name: str, ended: dict[str, Any] | str) -> None:
        """Record a run that ended with a result, or failed with a reason."""
        run = named[name]
        failed = isinstance(ended, str)
        if isinstance(ended, str):  # at once: Ctrl-C must not lose it
            data_hash = plan.data_hashes[graphs_key(run.recipe.tables())]
            record_once(folders.record, _failure(run.recipe, data_hash, ended))
        # A node of a cluster may keep its directories to itself.
        if run.curves and RunDirectory(folders.runs / name).result_path.is_file():
            try:
                record_curves(folders.curves, folders.runs / name)
            except DiskError:
                raise
            except GSATError as error:  # the other runs continue
                damaged[name], failed = str(error), True
        number = len(bench.ended) + 1
        bench.end(name, f"{number} of {len(named)}: {run.experiment}{', failed' if failed else ''}")

    recipes = {name: run.recipe for name, run in named.items()}
    with bench:
        outcome = train_each(
            recipes,
            folders.runs,
            backend=backend,
            address=address,
            jobs=jobs,
            record=folders.record,
            done=done,
            deadline=deadline,
            pretrained_cache=folders.pretrained_cache,
        )
    for name in damaged:
        outcome.results.pop(name, None)
    outcome.failures.update(damaged)
    return outcome


def _failure(recipe: Recipe, data_hash: str, reason: str) -> dict[str, Any]:
    """The record of a failed run: what it was, and why there is no result."""
    return {
        "dataset": recipe.data.name,
        "method": recipe.method,
        "backbone": recipe.backbone.name,
        "seed": recipe.seed,
        "failed": reason,
        "recipe_hash": recipe.hash(),
        "data_hash": data_hash,
        "results_version": results_version(recipe.backbone.name),
        "recipe": recipe.tables(),
        **environment(),
    }
