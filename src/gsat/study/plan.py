"""Plans: the requested runs of a study that are not recorded yet.

A run is identified by its recipe, its data, its seed and the version of the results; one that is
recorded is not planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gsat.core.errors import GSATError
from gsat.datasets.load import check_here
from gsat.study.cost import CostEstimates, makespan
from gsat.study.records import BenchFolders, graphs_key, is_current
from gsat.study.study import Experiment, Study
from gsat.training.many_runs import pretrained_backbone
from gsat.training.recipe import Recipe, load_data, with_settings
from gsat.training.results import read_records, read_runs
from gsat.training.run_directory import environment, run_name

_FILTER_KEYS = ("dataset", "method", "backbone", "variant")


@dataclass(frozen=True)
class RunRequest:
    """Runs of an experiment that studies need."""

    experiment: Experiment
    seeds: int  # from 0 to ``seeds`` − 1
    curves: bool = False  # whether curves over the epochs are needed
    model: bool = False  # whether the trained model of seed 0 is needed


@dataclass(frozen=True)
class PlannedRun:
    """One run to be trained."""

    experiment: Experiment
    recipe: Recipe  # with the seed
    seconds: float  # expected; without a pre-training that an earlier run of the plan has
    name: str = ""  # its directory within the folder of runs
    curves: bool = False  # whether its curves are recorded


@dataclass(frozen=True)
class RunPlan:
    """Missing and recorded runs."""

    to_run: list[PlannedRun] = field(default_factory=list)  # the cheapest first
    recorded: list[str] = field(default_factory=list)  # names of runs
    # Reasons by data set, whose runs are in neither list.
    unavailable: dict[str, str] = field(default_factory=dict)
    data_hashes: dict[str, str] = field(default_factory=dict)  # of loaded data, by graphs_key

    def seconds(self, jobs: int = 1) -> float:
        """Expected time from the first run's start to the last one's end, ``jobs`` at a time."""
        return makespan([run.seconds for run in self.to_run], jobs)


def request_runs(
    studies: Iterable[Study], seeds: int | None = None, only: str = ""
) -> list[RunRequest]:
    """Collect the runs that studies need, each recipe once; by default, with their own seeds."""
    requests: dict[str, RunRequest] = {}
    for study in studies:
        for experiment, need in study.needs:
            same = requests.get(experiment.hash, RunRequest(experiment, 0))
            requests[experiment.hash] = RunRequest(
                same.experiment,
                max(same.seeds, 1 if need == "models" else seeds or study.seeds),
                same.curves or need == "curves",
                same.model or need == "models",
            )
    chosen = select_experiments([request.experiment for request in requests.values()], only)
    return [requests[experiment.hash] for experiment in chosen]


def select_experiments(experiments: Sequence[Experiment], only: str) -> list[Experiment]:
    """Select the experiments that a filter admits."""
    filters = parse_filter(only)
    for key, values in filters.items():
        available = {getattr(e, key) for e in experiments}
        if values - available:
            raise GSATError(
                f"there is no {key} '{min(values - available)}' in this study: available: "
                f"{', '.join(sorted(available))}"
            )
    chosen = [e for e in experiments if all(getattr(e, k) in v for k, v in filters.items())]
    if not chosen:
        raise GSATError(f"no run of this study fits all of '{only}'")
    return chosen


def parse_filter(only: str) -> dict[str, set[str]]:
    """Read a filter of experiments."""
    filters: dict[str, set[str]] = {}
    for text in filter(None, (part.strip() for part in only.split(","))):
        key, equals, value = text.partition("=")
        if key not in _FILTER_KEYS or not equals or not value:
            raise GSATError(
                f"a filter is written KEY=VALUE,… with the keys {', '.join(_FILTER_KEYS)}, not "
                f"'{text}'"
            )
        filters.setdefault(key, set()).add(value)
    return filters


def make_plan(
    requests: Iterable[RunRequest],
    folders: BenchFolders,
    *,
    load: bool = True,
    pretrained: set[str] | None = None,
) -> RunPlan:
    """Plan the requested runs that are not recorded."""
    records = read_runs(folders.record)
    # Other versions of a backbone are faster or slower.
    costs = CostEstimates(filter(is_current, records), environment()["cpu"])
    plan = RunPlan()
    recorded, with_curves = _identities(records), _identities(read_records(folders.curves))
    for request in requests:
        recipe = request.experiment.recipe(0)
        if not _is_available(recipe, plan, load):
            continue
        data_hash = plan.data_hashes.get(graphs_key(recipe.tables()), "")
        for seed in range(request.seeds):
            run = with_settings(recipe, {"seed": seed})
            identity = (request.experiment.hash, seed, data_hash)
            name = run_name(run, data_hash)
            is_done = identity in recorded and (not request.curves or identity in with_curves)
            if request.model and seed == 0:
                is_done &= 0 in folders.finished(request.experiment, data_hash)
            if is_done:
                plan.recorded.append(name)
            else:
                plan.to_run.append(
                    PlannedRun(request.experiment, run, costs.seconds(run), name, request.curves)
                )
    plan.to_run.sort(key=lambda run: run.seconds)
    pretrained = set() if pretrained is None else pretrained
    for place, planned in enumerate(plan.to_run):
        backbone = pretrained_backbone(planned.recipe)
        if backbone in pretrained:
            rest = planned.seconds - costs.pretraining_seconds(planned.recipe)
            plan.to_run[place] = replace(planned, seconds=rest)
        pretrained |= {backbone} - {""}
    return plan


def _identities(records: Iterable[Mapping[str, Any]]) -> set[tuple[str, int, str]]:
    """Recipe, seed and data of current finished runs; also with any data, as an empty hash."""
    return {
        (record["recipe_hash"], record["seed"], data_hash)
        for record in filter(is_current, records)
        if "failed" not in record
        for data_hash in (record["data_hash"], "")
    }


def _is_available(recipe: Recipe, plan: RunPlan, load: bool) -> bool:
    """Whether the data set of a recipe is available; if it is loaded, the plan gets its hash."""
    key, data = graphs_key(recipe.tables()), recipe.data
    if data.name in plan.unavailable:
        return False
    if key not in plan.data_hashes:
        try:
            if load:
                plan.data_hashes[key] = load_data(recipe).hash
            else:
                plan.data_hashes[key] = ""
                check_here(data.name, data_seed=data.data_seed, **data.options)
        except GSATError as error:
            plan.unavailable[data.name] = str(error)
            return False
    return True
