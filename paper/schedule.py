"""The order in which tables are run, and with how many seeds.

A schedule is a TOML file with a list of steps, each a part of some studies; see
``results/schedule.toml``::

    [[step]]
    studies = ["table1", "table2"]
    only = "backbone=pna,method=gsat"
    seeds = 1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from gsat.core.errors import GSATError
from gsat.core.files import read_toml
from gsat.core.parsing import ParseError, check_model
from gsat.study.cost import end_times, format_duration
from gsat.study.plan import RunPlan, RunRequest, make_plan, request_runs
from gsat.study.records import BenchFolders, Records
from gsat.study.study import Study, find_study, shipped_studies


class Step(BaseModel):
    """A part of some studies, filtered by ``only``, with seeds 0 to ``seeds`` − 1."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    studies: list[str] = Field(min_length=1)
    only: str = ""
    seeds: PositiveInt = 1

    @property
    def found(self) -> list[Study]:
        """The named studies."""
        return [find_study(name) for name in self.studies]

    def requests(self) -> list[RunRequest]:
        """The runs that the step needs."""
        return request_runs(self.found, self.seeds, self.only)


class Schedule(BaseModel):
    """The steps of a schedule, in order."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    step: list[Step] = Field(min_length=1)


def read_schedule(path: Path) -> list[Step]:
    """Read a schedule."""
    try:
        steps = check_model(Schedule, read_toml(path, error=GSATError, links=True)).step
    except ParseError as error:
        raise GSATError(f"{path} is not a schedule: {error}") from None
    for number, step in enumerate(steps, start=1):
        try:
            step.requests()
        except GSATError as error:
            raise GSATError(f"step {number} of {path}: {error}") from None
    return steps


def plan_steps(
    steps: Sequence[Step], folders: BenchFolders, *, load: bool = True
) -> tuple[RunPlan, list[RunPlan]]:
    """Plan the missing runs in the order of the steps."""
    whole, parts = RunPlan(), []
    planned: set[str] = set()
    pretrained: set[str] = set()
    for step in steps:
        part = make_plan(step.requests(), folders, load=load, pretrained=pretrained)
        new = [run for run in part.to_run if run.name not in planned]
        planned.update(run.name for run in new)
        parts.append(replace(part, to_run=new))
        whole.to_run.extend(new)
        whole.recorded.extend(name for name in part.recorded if name not in whole.recorded)
        whole.unavailable.update(part.unavailable)
        whole.data_hashes.update(part.data_hashes)
    return whole, parts


def completion(plan: RunPlan, recorded: set[str], jobs: int) -> dict[str, tuple[int, int, float]]:
    """Estimate for each study how many cells will have a run, and when."""
    ends: dict[str, float] = {}
    times = end_times([run.seconds for run in plan.to_run], jobs)
    for run, end in zip(plan.to_run, times, strict=True):
        ends.setdefault(run.experiment.hash, end)  # the first seed makes the cell
    found = {}
    for study in shipped_studies():
        hashes = {experiment.hash for experiment in study.experiments}
        last = max((ends[h] for h in hashes - recorded if h in ends), default=0.0)
        found[study.name] = len(hashes & (recorded | set(ends))), len(hashes), last
    return found


def describe_steps(
    steps: Sequence[Step],
    plan: RunPlan,
    parts: Sequence[RunPlan],
    folders: BenchFolders,
    jobs: int,
) -> Iterator[str]:
    """Yield lines that say when each step and each study would be complete."""
    ends = end_times([run.seconds for run in plan.to_run], jobs)
    first = 0
    for number, (step, part) in enumerate(zip(steps, parts, strict=True), start=1):
        step_ends = ends[first : first + len(part.to_run)]
        first += len(part.to_run)
        names = f"{', '.join(step.studies)}{f' ({step.only})' if step.only else ''}"
        when = f"done after {format_duration(max(step_ends))}" if step_ends else "nothing to do"
        yield f"{number:>3}. {names}, seeds: {step.seeds}, runs: {len(step_ends)}, {when}"
    records = Records.read(folders.record)
    recorded = {recipe for recipe, runs in records.items() if runs.done}
    for name, (done, total, last) in completion(plan, recorded, jobs).items():
        when = f"after {format_duration(last)}" if last else "now"
        yield f"{name:<16} {done} of {total} have runs {when}"
    whole = format_duration(plan.seconds(jobs))
    yield f"runs to do: {len(plan.to_run)}; about {whole} with --jobs {jobs}"
