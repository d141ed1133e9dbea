"""Train the runs of a plan and record them.

A run that was cut short is resumed from its directory, so the same plan, made again after a crash,
a kill or a spent budget, continues where it stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

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
    """Train what is left, each run in its own directory, and record it, also if it failed."""
    if not plan.to_run:
        return PoolResult()
    named = {run.name: run for run in plan.to_run}
    deadline = None if budget is None else time.monotonic() + budget
    bar = Progress(f"{len(named)} runs", quiet=not progress, counted=False)
    expected = {name: run.seconds for name, run in named.items()}
    bench = BenchProgress(bar, folders.runs, expected, jobs or (1 if backend == "local" else None))
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
        number = len(bench.ended) + 1
        bench.end(name, f"{number} of {len(named)}: {run.experiment}{', failed' if failed else ''}")

    with bench:
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


class BenchProgress:
    """A progress bar over several runs, measured in expected seconds.

    A finished run counts in full. A running one counts the seconds that its directory says it has
    spent, up to nearly what was expected. So the bar moves, and shows the time left, during long
    runs.
    """

    def __init__(
        self, bar: Progress, folder: Path, expected: Mapping[str, float], jobs: int | None
    ) -> None:
        self.bar, self.folder, self.expected, self.jobs = bar, folder, expected, jobs
        self.ended: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._update, daemon=True)

    def __enter__(self) -> Self:
        total = sum(self.expected.values())
        self.bar.start(max(round(total), 1), round(self.spent()))
        # The bar can't show the time left before it has moved.
        whole = format_duration(makespan(self.expected.values(), self.jobs or 1))
        self.bar.advance(f"about {whole} {'in all' if self.jobs else 'of one CPU'}", 0)
        if self.bar.visible:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self.bar.visible:
            self._thread.join()
        self.bar.stop()

    def end(self, name: str, status: str) -> None:
        """Count a run as ended."""
        self.ended.add(name)
        self.bar.update(round(self.spent()), status)

    def spent(self) -> float:
        """The expected seconds that are done."""
        return sum(
            seconds
            if name in self.ended
            else min(RunDirectory(self.folder / name).read_seconds(), _LARGEST_SHARE * seconds)
            for name, seconds in self.expected.items()
        )

    def _update(self) -> None:
        """Move the bar at intervals, until the block ends."""
        while not self._stopped.wait(_INTERVAL):
            self.bar.update(round(self.spent()))
