"""Run what a study needs and what is not there yet.

A run is known by its recipe, its data, its seed and the version of our numerics. One that is
recorded is not run again, one that was cut short is resumed from its folder; so the same command,
given again after a crash, a kill or a spent budget, goes on. The cheapest runs come first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gsat.errors import GSATError
from gsat.studies.cost import Costs
from gsat.studies.study import Experiment
from gsat.training.parallel import Outcome, train_each
from gsat.training.progress import Progress
from gsat.training.recipe import Recipe, with_settings
from gsat.training.results import read_records, record_once
from gsat.training.rundir import environment, run_name
from gsat.training.train import RESULTS_VERSION, load_data

Engine = Literal["local", "ray"]
_FILTERS = ("dataset", "method", "backbone")


@dataclass(frozen=True)
class Planned:
    """One run: what is trained, and how many seconds it should take."""

    experiment: Experiment
    recipe: Recipe
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What a study needs.

    Attributes:
        left: runs that are missing, the cheapest first. done: how many are recorded.
        without_data: for data sets that can't be had, why; their runs are in neither.
        data: the hash of each data set that was loaded.
    """

    left: list[Planned]
    done: int
    without_data: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Of one core, for all that is left."""
        return sum(run.seconds for run in self.left)


def choose(experiments: Iterable[Experiment], only: str = "") -> list[Experiment]:
    """Those that an ``--only`` text admits: ``dataset=mutag,method=gsat``; of several values for
    one key any will do. Of experiments with the same recipe one is taken."""
    wanted: dict[str, set[str]] = {}
    for text in filter(None, (part.strip() for part in only.split(","))):
        key, equals, value = text.partition("=")
        if key not in _FILTERS or not equals or not value:
            raise GSATError(
                f"--only takes KEY=VALUE,… with the keys {', '.join(_FILTERS)}; '{text}' is none"
            )
        wanted.setdefault(key, set()).add(value)
    experiments = list(experiments)
    for key, values in wanted.items():
        known = {getattr(e, key) for e in experiments}
        if values - known:
            raise GSATError(
                f"--only {key}={sorted(values - known)[0]}: there is none in this study; there are "
                f"{', '.join(sorted(known))}"
            )
    chosen = [e for e in experiments if all(getattr(e, k) in v for k, v in wanted.items())]
    if not chosen:
        raise GSATError(f"--only {only}: no run of this study is all of that")
    return list({e.hash: e for e in chosen}.values())


def make_plan(
    experiments: Sequence[Experiment],
    seeds: int,
    records: Sequence[Mapping[str, Any]],
    *,
    load: bool = True,
) -> Plan:
    """What is left to run.

    Args:
        seeds: 0 to ``seeds`` − 1 of each. records: what has been run.
        load: whether the data sets are loaded, to see that recorded runs are of the same graphs;
            without, they are believed to be.
    """
    costs = Costs(records)
    finished = [r for r in records if "failed" not in r and "processes" not in r]
    known = {
        (r["recipe_hash"], r["seed"], r["data_hash"])
        for r in finished
        if r["results_version"] == RESULTS_VERSION
    }
    anywhere = {identity[:2] for identity in known}
    plan = Plan([], 0)
    done = 0
    for experiment in experiments:
        recipe = experiment.recipe(0)
        if load and not _load(recipe, plan):
            continue
        for seed in range(seeds):
            data_hash = plan.data.get(_key(recipe))
            is_done = (
                (experiment.hash, seed, data_hash) in known
                if data_hash is not None
                else (experiment.hash, seed) in anywhere
            )
            if is_done:
                done += 1
            else:
                run = with_settings(recipe, {"seed": seed})
                plan.left.append(Planned(experiment, run, costs.seconds(run)))
    plan.left.sort(key=lambda run: run.seconds)
    return Plan(plan.left, done, plan.without_data, plan.data)


def run_plan(
    plan: Plan,
    folder: str | Path,
    record: str | Path,
    *,
    jobs: int = 1,
    budget: float | None = None,
    engine: Engine = "local",
    address: str | None = None,
    progress: bool = False,
) -> Outcome:
    """Train what is left, each run in a folder of its own, and record it: also if it failed.

    Args:
        plan: made with the data loaded. folder: of the runs. record: the JSON-lines file.
        jobs: how many at a time, each with one thread.
        budget: seconds after which it stops; what is running then is saved and goes on next time.
        engine: worker processes here, or a Ray cluster at ``address``.
    """
    named = {
        run_name(run.recipe, plan.data[_key(run.recipe)], RESULTS_VERSION): run for run in plan.left
    }
    if not named:
        return Outcome()
    deadline = None if budget is None else time.monotonic() + budget
    bar = Progress(f"{len(named)} runs", quiet=not progress, counted=False)
    bar.start(max(round(plan.seconds), 1))
    ended = 0

    def done(name: str, result: dict[str, Any] | None) -> None:
        nonlocal ended
        ended += 1
        how = "" if result else ", failed"
        bar.advance(
            f"{ended} of {len(named)}: {named[name].experiment}{how}", round(named[name].seconds)
        )

    recipes = {name: run.recipe for name, run in named.items()}
    try:
        if engine == "ray":
            from gsat.training.cluster import train_on_ray

            outcome = train_on_ray(
                recipes,
                folder,
                address=address,
                jobs=jobs,
                record=record,
                done=done,
                deadline=deadline,
            )
        else:
            outcome = train_each(
                recipes, folder, jobs=jobs, record=record, done=done, deadline=deadline
            )
    finally:
        bar.stop()
    for name, why in outcome.failures.items():
        run = named[name]
        record_once(record, _failure(run.recipe, plan.data[_key(run.recipe)], why))
    return outcome


def _load(recipe: Recipe, plan: Plan) -> bool:
    """Whether the data can be had; its hash goes into the plan."""
    key = _key(recipe)
    if recipe.data.name in plan.without_data:
        return False
    if key not in plan.data:
        try:
            plan.data[key] = load_data(recipe).hash
        except GSATError as error:
            plan.without_data[recipe.data.name] = str(error)
            return False
    return True


def _key(recipe: Recipe) -> str:
    """What decides the graphs: the data set and its options, not the split."""
    return recipe.data.model_copy(update={"split_seed": None}).model_dump_json()


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


# -- retraining what was recorded -----------------------------------------------------------------


@dataclass(frozen=True)
class Verified:
    """A recorded run beside the same run now.

    Attributes:
        record: as it was recorded. differing: metrics that are not the same to the last bit, as
            (recorded, now). elsewhere: what was different about the machine, as (recorded, now).
    """

    record: Mapping[str, Any]
    differing: dict[str, tuple[Any, Any]]
    elsewhere: dict[str, tuple[Any, Any]]


def verify(record: Mapping[str, Any], out: str | Path) -> Verified:
    """Train a recorded run again and compare every metric."""
    from gsat.training.recipe import from_tables
    from gsat.training.train import train

    recipe = from_tables(dict(record["recipe"]))
    if recipe.hash() != record["recipe_hash"]:
        raise GSATError("the recorded recipe has other defaults now; its numbers can't be expected")
    data = load_data(recipe)
    if data.hash != record["data_hash"]:
        raise GSATError(
            f"{recipe.data.name} is not the data of the recorded run: hash {data.hash}, "
            f"recorded {record['data_hash']}"
        )
    result = train(recipe, out).result
    differing = {
        name: (before, after)
        for name, before, after in _pairs(record, result, ("best_epoch", "valid", "test"))
        if before != after
    }
    now = environment()
    elsewhere = {
        name: (before, after)
        for name, before, after in _pairs(record, now, tuple(now))
        if before != after
    }
    return Verified(record, differing, elsewhere)


def verifiable(
    path: str | Path, only: str = "", budget: float | None = None
) -> list[dict[str, Any]]:
    """Recorded runs that can be trained again: of today's numerics, as ``--only`` says, and in no
    more than ``budget`` seconds."""
    wanted = [part.split("=", 1) for part in only.split(",") if "=" in part]
    return [
        record
        for record in read_records(path)
        if record["results_version"] == RESULTS_VERSION
        and "failed" not in record
        and "processes" not in record
        and record["backbone"] != "wrapped"
        and all(record.get(key.strip()) == value.strip() for key, value in wanted)
        and (budget is None or record["seconds"] <= budget)
    ]


def _pairs(
    before: Mapping[str, Any], after: Mapping[str, Any], names: Sequence[str]
) -> Iterable[tuple[str, Any, Any]]:
    """Single values of two results side by side, by dotted name."""
    for name in names:
        one, other = before.get(name), after.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            for key in {**one, **other}:
                yield f"{name}.{key}", one.get(key), other.get(key)
        else:
            yield name, one, other
