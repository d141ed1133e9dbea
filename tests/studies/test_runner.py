"""The runner: what is recorded is not run again, the rest is, the cheapest first."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import gsat
from gsat.errors import GSATError
from gsat.studies import runner as module
from gsat.studies.cost import Costs, duration
from gsat.studies.runner import choose, make_plan, run_plan, verifiable, verify
from gsat.studies.study import Experiment
from gsat.studies.tables import STUDIES
from gsat.training.parallel import Outcome
from gsat.training.recipe import Recipe
from gsat.training.results import read_records, record_once
from reference import one_thread  # noqa: F401

SMALL = (("graphs", 30), ("epochs", 2), ("hidden", 8), ("layers", 1))
GSAT = Experiment("houses", "gsat", settings=SMALL)
ERM = Experiment("houses", "erm", settings=SMALL)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs are made in this process; those that were begun, in order."""
    begun: list[str] = []

    def here(runs: Mapping[str, Recipe], folder: Path, **how: Any) -> Outcome:
        results = {}
        for name, recipe in runs.items():
            begun.append(f"{recipe.method}-{recipe.seed}")
            run = gsat.train(recipe, Path(folder) / name, checkpoint_seconds=1e9)
            record_once(how["record"], run.record())
            how["done"](name, run.result)
            results[name] = run.result
        return Outcome(results)

    monkeypatch.setattr(module, "train_each", here)
    return begun


def test_only_what_is_not_recorded_is_run(trained: list[str], tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    first = make_plan([GSAT], 1, read_records(file))
    assert (len(first.left), first.done) == (1, 0)
    run_plan(first, tmp_path / "runs", file)
    plan = make_plan([GSAT, ERM], 2, read_records(file))
    assert plan.done == 1
    run_plan(plan, tmp_path / "runs", file)
    assert trained[0] == "gsat-0"
    assert sorted(trained[1:]) == ["erm-0", "erm-1", "gsat-1"]
    again = make_plan([GSAT, ERM], 2, read_records(file))
    assert (again.left, again.done) == ([], 4)
    assert run_plan(again, tmp_path / "runs", file) == Outcome()
    assert len(read_records(file)) == 4


def test_the_cheapest_come_first() -> None:
    names = ("table1", "table3")
    plan = make_plan([e for n in names for e in STUDIES[n].experiments], 2, [], load=False)
    assert len(plan.left) == 2 * (54 + 15)
    seconds = [run.seconds for run in plan.left]
    assert seconds == sorted(seconds)
    assert plan.left[0].experiment.dataset == "ba2motifs"
    assert plan.seconds == pytest.approx(sum(seconds))


def test_runs_on_other_graphs_or_of_older_numerics_are_not_those_runs(
    trained: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "runs.jsonl"
    run_plan(make_plan([GSAT], 1, []), tmp_path / "runs", file)
    (line,) = read_records(file)
    assert make_plan([GSAT], 1, [line]).done == 1
    for other in ({"data_hash": "0" * 16}, {"results_version": 1}, {"processes": 2}):
        assert make_plan([GSAT], 1, [line | other]).done == 0
    # Without looking at the data, it is believed to be the same.
    assert make_plan([GSAT], 1, [line | {"data_hash": "0" * 16}], load=False).done == 1


@pytest.mark.usefixtures("trained")
def test_what_failed_is_recorded_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "runs.jsonl"
    works = module.train_each

    def fails(runs: Mapping[str, Recipe], folder: Path, **how: Any) -> Outcome:
        return Outcome(failures=dict.fromkeys(runs, "its process died"))

    monkeypatch.setattr(module, "train_each", fails)
    for _ in range(2):
        outcome = run_plan(make_plan([GSAT], 1, read_records(file)), tmp_path / "runs", file)
        assert list(outcome.failures.values()) == ["its process died"]
    (line,) = read_records(file)
    assert (line["failed"], line["seed"], line["dataset"]) == ("its process died", 0, "houses")
    assert line["recipe_hash"] == GSAT.hash
    monkeypatch.setattr(module, "train_each", works)
    run_plan(make_plan([GSAT], 1, read_records(file)), tmp_path / "runs", file)
    assert ["failed" in line for line in read_records(file)] == [True, False]
    assert make_plan([GSAT], 1, read_records(file)).done == 1


def test_data_that_can_not_be_had_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GSAT_DATA", str(tmp_path))
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GSAT_OFFLINE", "1")
    plan = make_plan([Experiment("mutag", "gsat"), Experiment("mutag", "erm"), GSAT], 2, [])
    assert {run.experiment for run in plan.left} == {GSAT}
    assert "mutag" in plan.without_data
    assert len(plan.without_data) == 1


def test_the_budget_becomes_a_deadline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    def stopped(runs: Mapping[str, Recipe], folder: Path, **how: Any) -> Outcome:
        asked.update(how)
        return Outcome(left=list(runs))

    monkeypatch.setattr(module, "train_each", stopped)
    now = time.monotonic()
    outcome = run_plan(make_plan([GSAT], 2, []), tmp_path, tmp_path / "r", jobs=2, budget=60)
    assert len(outcome.left) == 2
    assert now + 60 <= asked["deadline"] <= time.monotonic() + 60
    assert asked["jobs"] == 2
    assert not (tmp_path / "r").exists()


def test_only_admits_by_data_method_and_network() -> None:
    experiments = STUDIES["table1"].experiments
    chosen = choose(experiments, "dataset=mutag, dataset=ba2motifs,backbone=pna")
    assert {(e.dataset, e.backbone) for e in chosen} == {("mutag", "pna"), ("ba2motifs", "pna")}
    assert len(choose(experiments)) == 54
    sweep = STUDIES["fig-regulariser"].experiments
    assert len(choose([*STUDIES["table5"].experiments, *sweep])) == 15 + 45 - 3  # r = 0.7 is GSAT
    for wrong, said in (
        ("data=mutag", "with the keys dataset, method, backbone; 'data=mutag' is none"),
        ("mutag", "'mutag' is none"),
        ("dataset=mutag,method=irm", "--only method=irm: there is none in this study"),
        ("method=dir,backbone=pna", "no run of this study is all of that"),
    ):
        with pytest.raises(GSATError, match=said):
            choose(experiments, wrong)


def test_time_is_told_by_the_same_recipe_or_like_ones_or_by_thumb() -> None:
    recipe = Experiment("mutag", "gsat").recipe(0)
    half = Experiment("mutag", "gsat", settings=(("epochs", 50),)).recipe(0)

    def line(of: Recipe, seconds: float) -> dict[str, Any]:
        tables = of.tables()
        return {
            "dataset": "mutag", "backbone": "gin", "method": "gsat", "seconds": seconds,
            "recipe_hash": of.hash(), "recipe": tables,
        }  # fmt: skip

    costs = Costs([line(recipe, s) for s in (90.0, 100.0, 900.0)])
    assert costs.seconds(recipe) == 100.0
    assert costs.seconds(half) == 50.0
    thumb = Costs([{"failed": "no time in it"}])
    assert thumb.seconds(recipe) == pytest.approx(2 * thumb.seconds(half))
    assert 20 < thumb.seconds(recipe) < 500  # some 90 seconds on one core
    pna = Experiment("spmotif-0.9", "gsat", "pna").recipe(0)
    assert thumb.seconds(pna) > thumb.seconds(Experiment("spmotif-0.9", "gsat").recipe(0))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (40.2, "40 s"),
        (720, "12 min"),
        (7200, "2 h"),
        (12000, "3 h 20 min"),
        (5 * 86400, "5.0 days"),
    ],
)
def test_durations_are_for_people(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.usefixtures("trained")
def test_a_recorded_run_is_trained_again_and_compared(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    run_plan(make_plan([GSAT, ERM], 1, []), tmp_path / "runs", file)
    records = verifiable(file)
    assert len(records) == 2
    assert [r["method"] for r in verifiable(file, "method=erm")] == ["erm"]
    assert verifiable(file, budget=0.0) == []
    same = verify(records[0], tmp_path / "again")
    assert (same.differing, same.elsewhere) == ({}, {})
    record = records[0]
    better = record | {
        "test": record["test"] | {"accuracy": 2.0}, "versions": record["versions"] | {"torch": "1"}
    }  # fmt: skip
    found = verify(better, tmp_path / "more")
    assert list(found.differing) == ["test.accuracy"]
    assert found.differing["test.accuracy"] == (2.0, record["test"]["accuracy"])
    assert list(found.elsewhere) == ["versions.torch"]
    with pytest.raises(GSATError, match="not the data of the recorded run"):
        verify(record | {"data_hash": "0" * 16}, tmp_path / "third")
    with pytest.raises(GSATError, match="other defaults now"):
        verify(record | {"recipe_hash": "0" * 16}, tmp_path / "fourth")
