"""Train the runs of a plan and record them.

A run that was cut short is resumed from its directory, so the same plan, made again after a crash,
a kill or a spent budget, continues where it stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gsat.core.errors import DiskError, GSATError
from gsat.launch.pool import PoolResult
from gsat.launch.progress import Progress
from gsat.study.cost import format_duration, makespan
from gsat.study.plan import RunPlan
from gsat.study.records import BenchFolders, graphs_key, record_curves
from gsat.training.many_runs import BackendName, train_each
from gsat.training.recipe import Recipe
from gsat.training.results import record_once, results_version
from gsat.training.run_directory import RunDirectory, environment

_LARGEST_SHARE = 0.95  # of the expected time, for a run that has not ended
_INTERVAL = 5.0  # seconds between updates; runs write their time with each checkpoint


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
    """Train the runs of a plan, each in its own directory, and record them, also failed ones."""
    if not plan.to_run:
        return PoolResult()
    named = {run.name: run for run in plan.to_run}
    deadline = None if budget is None else time.monotonic() + budget
    bar = Progress(f"{len(named)} runs", quiet=not progress, counted=False)
    expected = {name: run.seconds for name, run in named.items()}
    workers = jobs or (1 if backend == "local" else None)
    damaged: dict[str, str] = {}  # finished runs whose directory can't be read

    def done(name: str, outcome: dict[str, Any] | str) -> None:
        """Record a run that ended with a result, or failed with a reason."""
        run = named[name]
        failed = isinstance(outcome, str)
        if isinstance(outcome, str):  # at once: Ctrl-C must not lose it
            data_hash = plan.data_hashes[graphs_key(run.recipe.tables())]
            record_once(folders.record, _failure(run.recipe, data_hash, outcome))
        # A node of a cluster may keep its directories to itself.
        if run.curves and RunDirectory(folders.runs / name).result_path.is_file():
            try:
                record_curves(folders.curves, folders.runs / name)
            except DiskError:
                raise
            except GSATError as error:  # the other runs continue
                damaged[name], failed = str(error), True
        end(name, f"{run.experiment}{', failed' if failed else ''}")

    with track_runs(bar, folders.runs, expected, workers) as end:
        outcome = train_each(
            {name: run.recipe for name, run in named.items()},
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
    """The record of a failed run: its identity, and why there is no result."""
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


@contextmanager
def track_runs(
    bar: Progress, folder: Path, expected: Mapping[str, float], jobs: int | None
) -> Iterator[Callable[[str, str], None]]:
    """Show a bar over several runs, by their expected seconds; yields what to call when one ends.

    A finished run counts in full. A running one counts the CPU seconds that its directory says it
    has spent, up to nearly what was expected: so the bar moves during long runs.
    """
    ended: set[str] = set()
    stopped = threading.Event()

    def spent() -> int:
        left = {*expected} - ended
        running = {name: RunDirectory(folder / name).read_spent().work for name in left}
        shares = (
            min(running[name], _LARGEST_SHARE * seconds) if name in running else seconds
            for name, seconds in expected.items()
        )
        return round(sum(shares))

    def update() -> None:
        while not stopped.wait(_INTERVAL):
            bar.update(spent())

    def end(name: str, status: str) -> None:
        ended.add(name)
        bar.update(spent(), f"{len(ended)} of {len(expected)}: {status}")

    bar.start(max(round(sum(expected.values())), 1), spent())
    # The bar can't show the time left before it has moved.
    whole = format_duration(makespan(expected.values(), jobs or 1))
    bar.advance(f"about {whole} {'in all' if jobs else 'of one CPU'}", 0)
    thread = threading.Thread(target=update, daemon=True)
    if bar.visible:
        thread.start()
    try:
        yield end
    finally:
        stopped.set()
        if thread.is_alive():
            thread.join()
        bar.stop()
