"""Run what a study needs and what is not there yet.

A run is known by its recipe, its data, its seed and the version of our numerics. One that is
recorded is not run again, one that was cut short is resumed from its folder; so the same command,
given again after a crash, a kill or a spent budget, goes on. The cheapest runs come first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gsat.datasets.load import check_here
from gsat.errors import DiskError, GSATError
from gsat.launch.pool import PoolResult
from gsat.launch.progress import Progress
from gsat.studies.bench_progress import Watch
from gsat.studies.cost import Costs, makespan
from gsat.studies.curves import record_curves
from gsat.studies.records import counts, graphs_key
from gsat.studies.study import Experiment, Study
from gsat.training.many_runs import train_each
from gsat.training.recipe import Recipe, with_settings
from gsat.training.results import read_records, read_runs, record_once
from gsat.training.run_directory import RunDirectory, environment, run_name
from gsat.training.train import RESULTS_VERSION, load_data

Engine = Literal["local", "ray"]
_FILTERS = ("dataset", "method", "backbone")


@dataclass(frozen=True)
class Wanted:
    """What studies ask of an experiment.

    Attributes:
        seeds: 0 to ``seeds`` − 1 of it. curves: whether its curves over the epochs are to be
            recorded. model: whether the trained model of seed 0 has to be there.
    """

    experiment: Experiment
    seeds: int
    curves: bool = False
    model: bool = False


@dataclass(frozen=True)
class Planned:
    """One run: what is trained, where, and how many seconds it should take."""

    experiment: Experiment
    recipe: Recipe
    seconds: float
    name: str = ""
    curves: bool = False


@dataclass(frozen=True)
class Plan:
    """What is to be done.

    Attributes:
        left: runs that are missing, the cheapest first. done: names of those that are there.
        without_data: for data sets that can't be had, why; their runs are in neither.
        data: the hash of each data set that was loaded.
    """

    left: list[Planned] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    without_data: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)

    def seconds(self, jobs: int = 1) -> float:
        """From the first run's start to the last one's end, so many at a time."""
        return makespan([run.seconds for run in self.left], jobs)


@dataclass(frozen=True)
class Place:
    """Where runs and what is recorded of them lie: the folder of the runs, the JSON-lines file of
    results, and beside it that of curves."""

    runs: Path
    record: Path

    @property
    def pretrained_cache(self) -> Path:
        """The folder of backbones trained alone, which several methods begin with."""
        return self.runs / "pretrained"

    @property
    def curves(self) -> Path:
        """The file of curves."""
        return self.record.with_name("curves.jsonl")

    @property
    def pictures(self) -> Path:
        """The folder of pictures."""
        return self.record.with_name("figures")

    @property
    def stability(self) -> Path:
        """The file of rank correlations between seeds."""
        return self.record.with_name("stability.jsonl")

    def finished(self, experiment: Experiment, data_hash: str = "") -> dict[int, Path]:
        """Folders of finished runs by seed.

        Args:
            data_hash: of the graphs they must be of; without, those of the graphs that runs were
                begun on last.
        """
        name = run_name(experiment.recipe(0), data_hash or "*", RESULTS_VERSION)
        folders = sorted(self.runs.glob(str(Path(name).parent)), key=lambda f: f.stat().st_mtime)
        return {
            int(found[1]): run
            for run in sorted(folders[-1].iterdir() if folders else [])
            if (found := re.fullmatch(r"seed-(\d+)", run.name))
            and RunDirectory(run).result_path.is_file()
        }

    def check(self) -> None:
        """Raise unless there is room for runs and for what is recorded of them."""
        check_writable(self.runs)
        for file in (self.record, self.curves):
            check_appendable(file)


def wanted(studies: Iterable[Study], seeds: int, only: str = "") -> list[Wanted]:
    """What studies need, each recipe once.

    Args:
        only: ``dataset=mutag,method=gsat`` admits no other experiments; of several values for one
            key any will do.
    """
    asked: dict[str, list[tuple[Experiment, str]]] = {}
    for study in studies:
        for experiment in study.experiments:
            asked.setdefault(experiment.hash, []).append((experiment, study.needs))
    admitted = {e.hash for e in choose([asks[0][0] for asks in asked.values()], only)}
    return [
        Wanted(
            asks[0][0],
            1 if all(need == "models" for _, need in asks) else seeds,
            curves=any(need == "curves" for _, need in asks),
            model=any(need == "models" for _, need in asks),
        )
        for recipe_hash, asks in asked.items()
        if recipe_hash in admitted
    ]


def choose(experiments: Sequence[Experiment], only: str) -> list[Experiment]:
    """Those that an ``--only`` text admits."""
    filters = parse_only(only)
    for key, values in filters.items():
        known = {getattr(e, key) for e in experiments}
        if values - known:
            raise GSATError(
                f"--only {key}={sorted(values - known)[0]}: there is none in this study; there are "
                f"{', '.join(sorted(known))}"
            )
    chosen = [e for e in experiments if all(getattr(e, k) in v for k, v in filters.items())]
    if not chosen:
        raise GSATError(f"--only {only}: no run of this study is all of that")
    return chosen


def parse_only(only: str) -> dict[str, set[str]]:
    """The values that an ``--only`` text admits, by key."""
    filters: dict[str, set[str]] = {}
    for text in filter(None, (part.strip() for part in only.split(","))):
        key, equals, value = text.partition("=")
        if key not in _FILTERS or not equals or not value:
            raise GSATError(
                f"--only takes KEY=VALUE,… with the keys {', '.join(_FILTERS)}; '{text}' is none"
            )
        filters.setdefault(key, set()).add(value)
    return filters


def make_plan(wants: Iterable[Wanted], place: Place, *, load: bool = True) -> Plan:
    """What is left to run.

    Args:
        load: whether the data sets are loaded, to see that recorded runs are of the same graphs;
            without, they are believed to be, and only whether they can be had is looked at.
    """
    records = read_runs(place.record)
    costs, plan = Costs(records), Plan()
    recorded, traced = _identities(records), _identities(read_records(place.curves))
    for want in wants:
        recipe = want.experiment.recipe(0)
        if not _has_data(recipe, plan, load):
            continue
        data_hash = plan.data.get(graphs_key(recipe.tables()), "")
        for seed in range(want.seeds):
            run = with_settings(recipe, {"seed": seed})
            identity = (want.experiment.hash, seed, data_hash)
            name = run_name(run, data_hash, RESULTS_VERSION)
            is_done = identity in recorded and (not want.curves or identity in traced)
            if want.model and seed == 0:
                is_done &= 0 in place.finished(want.experiment, data_hash)
            if is_done:
                plan.done.append(name)
            else:
                plan.left.append(
                    Planned(want.experiment, run, costs.seconds(run), name, want.curves)
                )
    plan.left.sort(key=lambda run: run.seconds)
    return plan


def run_plan(
    plan: Plan,
    place: Place,
    *,
    jobs: int | None = None,
    budget: float | None = None,
    engine: Engine = "local",
    address: str | None = None,
    progress: bool = False,
) -> PoolResult:
    """Train what is left, each run in a folder of its own, and record it: also if it failed.

    Args:
        plan: made with the data loaded. jobs: how many at a time, each with one thread (one here,
            on a cluster as many as it has CPUs).
        budget: seconds after which it stops; what is running then is saved and goes on next time.
        engine: worker processes here, or a Ray cluster at ``address``.
    """
    if not plan.left:
        return PoolResult()
    named = {run.name: run for run in plan.left}
    deadline = None if budget is None else time.monotonic() + budget
    bar = Progress(f"{len(named)} runs", quiet=not progress, counted=False)
    expected = {name: run.seconds for name, run in named.items()}
    watch = Watch(bar, place.runs, expected, jobs or (1 if engine == "local" else None))
    spoilt: dict[str, str] = {}  # finished runs whose folder is damaged

    def done(name: str, said: dict[str, Any] | str) -> None:
        run = named[name]
        failed = isinstance(said, str)
        if isinstance(said, str):  # at once: Ctrl-C must not lose it
            record_once(
                place.record, _failure(run.recipe, plan.data[graphs_key(run.recipe.tables())], said)
            )
        # A node of a cluster may keep its folders to itself.
        if run.curves and RunDirectory(place.runs / name).result_path.is_file():
            try:
                record_curves(place.curves, place.runs / name)
            except DiskError:
                raise
            except GSATError as error:  # the other runs are not to suffer from it
                spoilt[name], failed = str(error), True
        number = len(watch.ended) + 1
        status = f"{number} of {len(named)}: {run.experiment}{', failed' if failed else ''}"
        watch.end(name, status)

    how: dict[str, Any] = {
        "record": place.record,
        "done": done,
        "deadline": deadline,
        "pretrained_cache": place.pretrained_cache,
    }
    recipes = {name: run.recipe for name, run in named.items()}
    with watch:
        outcome = train_each(recipes, place.runs, backend=engine, address=address, jobs=jobs, **how)
    for name in spoilt:
        outcome.results.pop(name, None)
    outcome.failures.update(spoilt)
    return outcome


def _identities(records: Iterable[Mapping[str, Any]]) -> set[tuple[str, int, str]]:
    """Finished runs of today's numerics, with their data and whatever it is."""
    found = set()
    for line in filter(counts, records):
        if "failed" not in line:
            for data_hash in (line["data_hash"], ""):
                found.add((line["recipe_hash"], line["seed"], data_hash))
    return found


def _has_data(recipe: Recipe, plan: Plan, load: bool) -> bool:
    """Whether the data can be had; if it is loaded, its hash goes into the plan."""
    key, data = graphs_key(recipe.tables()), recipe.data
    if data.name in plan.without_data:
        return False
    if key not in plan.data:
        try:
            if load:
                plan.data[key] = load_data(recipe).hash
            else:
                plan.data[key] = ""
                check_here(data.name, data_seed=data.data_seed, **data.options)
        except GSATError as error:
            plan.without_data[data.name] = str(error)
            return False
    return True


def _failure(recipe: Recipe, data_hash: str, why: str) -> dict[str, Any]:
    """The line of a run that failed: what it was, and why there is no result."""
    return {
        "dataset": recipe.data.name,
        "method": recipe.method,
        "backbone": recipe.backbone.name,
        "seed": recipe.seed,
        "failed": why,
        "recipe_hash": recipe.hash(),
        "data_hash": data_hash,
        "results_version": RESULTS_VERSION,
        "recipe": recipe.tables(),
        **environment(),
    }
