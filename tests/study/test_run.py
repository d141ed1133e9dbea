"""The runs of a plan are trained and recorded."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import rich.progress

from gsat.launch.pool import PoolResult
from gsat.launch.progress import Progress
from gsat.study import run as module
from gsat.study.plan import RunRequest, make_plan
from gsat.study.records import BenchFolders, record_curves
from gsat.study.run import run_plan, track_runs
from gsat.study.study import Experiment
from gsat.training import checkpoint
from gsat.training.recipe import Recipe
from gsat.training.results import read_records
from gsat.training.run_directory import RunDirectory
from gsat.training.time_spent import Spent
from study_harness import ERM, GSAT, SMALL


def test_explainers_of_the_same_network_train_it_once(
    trained: list[str], folders: BenchFolders
) -> None:
    requests = [
        RunRequest(Experiment("houses", method, settings=(*SMALL, length)), 1)
        for method, length in (
            ("pgexplainer", ("explain_epochs", 1)),
            ("gnnexplainer", ("iterations", 2)),
        )
    ]
    first = make_plan(requests[:1], folders)
    run_plan(first, folders)
    (kept,) = folders.pretrained_cache.glob("*/seed-0")
    state, _ = checkpoint.read(kept)
    state.values["log"][0]["train"]["loss"] = 42.0  # a mark
    checkpoint.write(kept, state)
    second = make_plan(requests, folders)
    run_plan(second, folders)
    logs = [path.read_text() for path in folders.runs.glob("houses-*/seed-0/metrics.jsonl")]
    assert sorted("42.0" in log for log in logs) == [False, True]  # the second run reused it
    assert trained == [run.name for run in (*first.to_run, *second.to_run)]
    assert len(trained) == 2


def test_only_unrecorded_runs_are_trained(trained: list[str], folders: BenchFolders) -> None:
    first = make_plan([RunRequest(GSAT, 1)], folders)
    assert (len(first.to_run), first.recorded) == (1, [])
    run_plan(first, folders)
    both = [RunRequest(GSAT, 2), RunRequest(ERM, 2)]
    plan = make_plan(both, folders)
    assert plan.recorded == [first.to_run[0].name]
    run_plan(plan, folders)
    assert trained == [run.name for run in (*first.to_run, *plan.to_run)]
    assert len(set(trained)) == 4
    again = make_plan(both, folders)
    assert (again.to_run, len(again.recorded)) == ([], 4)
    assert run_plan(again, folders) == PoolResult()
    assert len(read_records(folders.record)) == 4


def test_a_figure_of_curves_needs_them_and_one_of_models_the_model(
    trained: list[str], folders: BenchFolders
) -> None:
    run_plan(make_plan([RunRequest(GSAT, 2)], folders), folders)
    assert read_records(folders.curves) == []
    plan = make_plan([RunRequest(GSAT, 2, curves=True)], folders)
    assert len(plan.to_run) == 2
    # The runs are finished: only their logs are read.
    for run in plan.to_run:
        record_curves(folders.curves, folders.runs / run.name)
    assert make_plan([RunRequest(GSAT, 2, curves=True)], folders).to_run == []
    assert make_plan([RunRequest(GSAT, 2, model=True)], folders).to_run == []
    assert folders.finished(GSAT) == {r.recipe.seed: folders.runs / r.name for r in plan.to_run}
    elsewhere = BenchFolders(folders.runs / "elsewhere", folders.record)
    (again,) = make_plan([RunRequest(GSAT, 2, model=True)], elsewhere).to_run
    assert again.recipe.seed == 0
    assert elsewhere.finished(GSAT) == {}
    run_plan(make_plan([RunRequest(ERM, 1, curves=True)], folders), folders)
    assert [(line["method"], line["seed"]) for line in read_records(folders.curves)] == [
        ("gsat", 0), ("gsat", 1), ("erm", 0)
    ]  # fmt: skip


@pytest.mark.usefixtures("trained")
def test_a_failure_is_recorded_once_and_tried_again(
    folders: BenchFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = module.train_each

    def fails(runs: Mapping[str, Recipe], folder: Path, **how: Any) -> PoolResult:
        for name in runs:
            how["done"](name, "its process died")
        return PoolResult(failures=dict.fromkeys(runs, "its process died"))

    monkeypatch.setattr(module, "train_each", fails)
    for _ in range(2):
        outcome = run_plan(make_plan([RunRequest(GSAT, 1)], folders), folders)
        assert list(outcome.failures.values()) == ["its process died"]
    (line,) = read_records(folders.record)
    assert (line["failed"], line["seed"], line["dataset"]) == ("its process died", 0, "houses")
    assert line["recipe_hash"] == GSAT.hash
    monkeypatch.setattr(module, "train_each", works)
    run_plan(make_plan([RunRequest(GSAT, 1)], folders), folders)
    assert ["failed" in line for line in read_records(folders.record)] == [True, False]
    assert len(make_plan([RunRequest(GSAT, 1)], folders).recorded) == 1


@pytest.mark.usefixtures("trained")
def test_a_damaged_run_directory_fails_that_run_only(folders: BenchFolders) -> None:
    run_plan(make_plan([RunRequest(GSAT, 1)], folders), folders)
    (seed,) = folders.finished(GSAT).values()
    (seed / "metrics.jsonl").write_text('{"half')
    folders.record.unlink()
    outcome = run_plan(make_plan([RunRequest(GSAT, 2, curves=True)], folders), folders)
    (reason,) = outcome.failures.values()
    assert f"remove {seed}" in reason
    assert len(outcome.results) == 1
    assert [line["seed"] for line in read_records(folders.curves)] == [1]


def test_the_budget_becomes_a_deadline(
    monkeypatch: pytest.MonkeyPatch, folders: BenchFolders
) -> None:
    options: dict[str, Any] = {}

    def stopped(runs: Mapping[str, Recipe], folder: Path, **how: Any) -> PoolResult:
        options.update(how)
        return PoolResult(unfinished=list(runs))

    monkeypatch.setattr(module, "train_each", stopped)
    now = time.monotonic()
    outcome = run_plan(make_plan([RunRequest(GSAT, 2)], folders), folders, jobs=2, budget=60)
    assert len(outcome.unfinished) == 2
    assert now + 60 <= options["deadline"] <= time.monotonic() + 60
    assert options["jobs"] == 2
    assert not folders.record.exists()


# -- progress -----------------------------------------------------------------------------------


class Recorder(Progress):
    """Remembers what is shown instead of drawing it."""

    def __init__(self, visible: bool = False) -> None:
        super().__init__("runs", counted=False)
        self.visible, self.seen, self.updated = visible, [], threading.Event()  # type: ignore[var-annotated]

    def start(self, total: int, done: int = 0) -> None:
        self.seen.append((total, done))

    def advance(self, status: str = "", steps: int = 1) -> None:
        self.seen.append((status, steps))

    def update(self, done: int, status: str | None = None) -> None:
        self.seen.append((done, status))
        self.updated.set()

    def stop(self) -> None:
        self.seen.append("stopped")


def spend(folder: Path, name: str, seconds: float) -> None:
    (folder / name).mkdir(exist_ok=True)
    RunDirectory(folder / name).write_spent(Spent(1e6, seconds), epochs=1)


def test_running_runs_count_the_time_they_spent_up_to_what_was_expected(tmp_path: Path) -> None:
    spend(tmp_path, "resumed", 40.0)
    bar = Recorder()
    expected = {"resumed": 60.0, "new": 120.0, "quick": 20.0}
    with track_runs(bar, tmp_path, expected, jobs=2) as end:
        spend(tmp_path, "new", 30.0)
        spend(tmp_path, "resumed", 500.0)  # longer than expected, so it counts 57 of 60
        end("quick", "quick")
        end("resumed", "resumed")
        end("new", "new")
    assert bar.seen == [
        (200, 40), ("about 2 min in all", 0), (107, "1 of 3: quick"), (110, "2 of 3: resumed"),
        (200, "3 of 3: new"), "stopped",
    ]  # fmt: skip


def test_a_visible_bar_moves_between_ends_and_is_removed_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_INTERVAL", 0.001)
    bar = Recorder(visible=True)

    def interrupted() -> None:
        with track_runs(bar, tmp_path, {"run": 9.0}, jobs=1):
            assert bar.updated.wait(30)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert bar.seen[-1] == "stopped"  # the thread has ended before
    assert (0, None) in bar.seen


def test_the_time_left_is_known_between_updates_half_a_minute_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Large steps are rare; by default, rich would have forgotten the last one by then."""
    now = [0.0]
    with_clock = functools.partial(rich.progress.Progress, get_time=lambda: now[0])
    monkeypatch.setattr(rich.progress, "Progress", with_clock)
    bar = Progress("runs", counted=False)
    bar.visible = True
    bar.start(100)
    try:
        for done in (10, 20, 30):
            now[0] += 35.0
            bar.update(done, f"{done} done")
        (task,) = bar._bar.tasks
        assert (task.completed, task.fields["status"]) == (30, "30 done")
        now[0] += 34.0
        bar.update(30)
        assert task.fields["status"] == "30 done"
        assert task.time_remaining == pytest.approx(245, rel=0.5)
    finally:
        bar.stop()
