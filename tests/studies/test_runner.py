"""The runner: what is recorded is not run again, the rest is, the cheapest first."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import gsat
from gsat.errors import DiskError, GSATError
from gsat.launch.pool import PoolResult
from gsat.studies import runner as module
from gsat.studies.cost import Costs, duration, makespan
from gsat.studies.curves import record_curves
from gsat.studies.records import Records
from gsat.studies.runner import (
    Place,
    Wanted,
    choose,
    make_plan,
    run_plan,
    wanted,
)
from gsat.studies.study import Experiment
from gsat.studies.tables import STUDIES
from gsat.training import checkpoint
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

    def here(runs: Mapping[str, Recipe], folder: Path, **how: Any) -> PoolResult:
        results = {}
        for name, recipe in runs.items():
            begun.append(f"{recipe.method}-{recipe.seed}")
            out = Path(folder) / name
            if (out / "result.json").is_file():
                run = gsat.resume(out)
            else:
                run = gsat.train(
                    recipe, out, checkpoint_seconds=1e9, pretrained_cache=how["pretrained_cache"]
                )
            record_once(how["record"], run.record())
            how["done"](name, run.result)
            results[name] = run.result
        return PoolResult(results)

    monkeypatch.setattr(module, "train_each", here)
    return begun


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "runs", tmp_path / "results" / "runs.jsonl")


def test_explainers_of_one_network_train_it_once(trained: list[str], place: Place) -> None:
    asked = [
        Wanted(Experiment("houses", method, settings=(*SMALL, length)), 1)
        for method, length in (
            ("pgexplainer", ("explain_epochs", 1)),
            ("gnnexplainer", ("iterations", 2)),
        )
    ]
    run_plan(make_plan(asked[:1], place), place)
    (kept,) = place.pretrained_cache.glob("*/seed-0")
    state, _ = checkpoint.read(kept)
    state.values["log"][0]["train"]["loss"] = 42.0  # to be known again
    checkpoint.write(kept, state)
    run_plan(make_plan(asked, place), place)
    logs = [path.read_text() for path in place.runs.glob("houses-*/seed-0/metrics.jsonl")]
    assert sorted("42.0" in log for log in logs) == [False, True]  # the second took it over
    assert trained == ["pgexplainer-0", "gnnexplainer-0"]


def test_only_what_is_not_recorded_is_run(trained: list[str], place: Place) -> None:
    first = make_plan([Wanted(GSAT, 1)], place)
    assert (len(first.left), first.done) == (1, [])
    run_plan(first, place)
    both = [Wanted(GSAT, 2), Wanted(ERM, 2)]
    plan = make_plan(both, place)
    assert plan.done == [first.left[0].name]
    run_plan(plan, place)
    assert trained[0] == "gsat-0"
    assert sorted(trained[1:]) == ["erm-0", "erm-1", "gsat-1"]
    again = make_plan(both, place)
    assert (again.left, len(again.done)) == ([], 4)
    assert run_plan(again, place) == PoolResult()
    assert len(read_records(place.record)) == 4


def test_the_cheapest_come_first(place: Place) -> None:
    plan = make_plan(wanted([STUDIES["table1"], STUDIES["table3"]], 2), place, load=False)
    assert len(plan.left) == 2 * (54 + 15)
    seconds = [run.seconds for run in plan.left]
    assert seconds == sorted(seconds)
    assert plan.left[0].experiment.dataset == "ba2motifs"
    assert plan.seconds() == pytest.approx(sum(seconds))
    assert plan.seconds(jobs=1000) == pytest.approx(seconds[-1])  # no run is shorter for it


def test_time_with_several_jobs_is_that_of_the_last_to_end() -> None:
    assert makespan([], 2) == 0
    assert makespan([10.0], 8) == 10
    assert makespan([1.0, 2.0, 3.0], 2) == 4  # 1 and 3 one after the other, 2 beside


@pytest.mark.usefixtures("trained")
def test_runs_on_other_graphs_or_of_older_numerics_are_not_those_runs(
    place: Place, tmp_path: Path
) -> None:
    run_plan(make_plan([Wanted(GSAT, 1)], place), place)
    (line,) = read_records(place.record)

    def done(load: bool = True, **other: Any) -> int:
        there = Place(place.runs, tmp_path / f"{len(list(tmp_path.iterdir()))}" / "runs.jsonl")
        record_once(there.record, line | other)
        return len(make_plan([Wanted(GSAT, 1)], there, load=load).done)

    assert done() == 1
    assert done(data_hash="0" * 16) == done(results_version=1) == done(processes=2) == 0
    # Without looking at the data, it is believed to be the same.
    assert done(load=False, data_hash="0" * 16) == 1


def test_a_figure_of_curves_needs_them_and_one_of_models_the_model(
    trained: list[str], place: Place
) -> None:
    run_plan(make_plan([Wanted(GSAT, 2)], place), place)
    assert read_records(place.curves) == []
    plan = make_plan([Wanted(GSAT, 2, curves=True)], place)
    assert len(plan.left) == 2
    # The runs themselves are there: their folders are read.
    for run in plan.left:
        record_curves(place.curves, place.runs / run.name)
    assert make_plan([Wanted(GSAT, 2, curves=True)], place).left == []
    assert make_plan([Wanted(GSAT, 2, model=True)], place).left == []
    assert place.finished(GSAT) == {r.recipe.seed: place.runs / r.name for r in plan.left}
    elsewhere = Place(place.runs / "elsewhere", place.record)
    (again,) = make_plan([Wanted(GSAT, 2, model=True)], elsewhere).left
    assert again.recipe.seed == 0
    assert elsewhere.finished(GSAT) == {}
    run_plan(make_plan([Wanted(ERM, 1, curves=True)], place), place)
    assert [(line["method"], line["seed"]) for line in read_records(place.curves)] == [
        ("gsat", 0), ("gsat", 1), ("erm", 0)
    ]  # fmt: skip


@pytest.mark.usefixtures("trained")
def test_what_failed_is_recorded_once_and_tried_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = module.train_each

    def fails(runs: Mapping[str, Recipe], folder: Path, **how: Any) -> PoolResult:
        for name in runs:
            how["done"](name, "its process died")
        return PoolResult(failures=dict.fromkeys(runs, "its process died"))

    monkeypatch.setattr(module, "train_each", fails)
    for _ in range(2):
        outcome = run_plan(make_plan([Wanted(GSAT, 1)], place), place)
        assert list(outcome.failures.values()) == ["its process died"]
    (line,) = read_records(place.record)
    assert (line["failed"], line["seed"], line["dataset"]) == ("its process died", 0, "houses")
    assert line["recipe_hash"] == GSAT.hash
    monkeypatch.setattr(module, "train_each", works)
    run_plan(make_plan([Wanted(GSAT, 1)], place), place)
    assert ["failed" in line for line in read_records(place.record)] == [True, False]
    assert len(make_plan([Wanted(GSAT, 1)], place).done) == 1


def test_data_that_can_not_be_had_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: Place
) -> None:
    monkeypatch.setenv("GSAT_DATA", str(tmp_path))
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GSAT_OFFLINE", "1")
    mutag = [Wanted(Experiment("mutag", method), 2) for method in ("gsat", "erm")]
    plan = make_plan([*mutag, Wanted(GSAT, 2)], place)
    assert {run.experiment for run in plan.left} == {GSAT}
    assert list(plan.without_data) == ["mutag"]
    assert "Mutagenicity.zip" in plan.without_data["mutag"]
    looked = make_plan([*mutag, Wanted(GSAT, 2)], place, load=False)
    assert looked.without_data == plan.without_data
    assert len(looked.left) == 2
    assert not (tmp_path / "cache" / "datasets" / "mutag").exists()


def test_what_can_be_downloaded_is_not_looked_for_any_further(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: Place
) -> None:
    from gsat.datasets.fetch import download

    def fetch(files: Any) -> None:
        raise AssertionError("nothing is downloaded to say what would run")

    monkeypatch.setattr(download, "fetch", fetch)
    monkeypatch.delenv("GSAT_DATA", raising=False)
    monkeypatch.delenv("GSAT_OFFLINE", raising=False)
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    plan = make_plan(wanted([STUDIES["table3"]], 1), place, load=False)
    assert len(plan.left) == 15
    assert plan.without_data == {}


@pytest.mark.usefixtures("trained")
def test_a_damaged_folder_is_a_failure_of_that_run_alone(place: Place) -> None:
    run_plan(make_plan([Wanted(GSAT, 1)], place), place)
    (seed,) = place.finished(GSAT).values()
    (seed / "metrics.jsonl").write_text('{"half')
    place.record.unlink()
    outcome = run_plan(make_plan([Wanted(GSAT, 2, curves=True)], place), place)
    (why,) = outcome.failures.values()
    assert f"remove {seed}" in why
    assert len(outcome.results) == 1
    assert [line["seed"] for line in read_records(place.curves)] == [1]


@pytest.mark.usefixtures("trained")
def test_finished_runs_are_of_the_graphs_asked_for(place: Place) -> None:
    run_plan(make_plan([Wanted(GSAT, 2)], place), place)
    (folder,) = place.runs.glob("houses-*")
    now = place.finished(GSAT)
    graphs = Records.read(place.record).of(GSAT).data_hash
    stale = folder.with_name(folder.name.replace(graphs, "0" * 16))
    shutil.copytree(folder, stale)
    shutil.copytree(stale / "seed-0", stale / "seed-2")
    shutil.copytree(folder / "seed-0", folder / "seed-0.bak")
    os.utime(stale, (1, 1))
    assert place.finished(GSAT) == place.finished(GSAT, graphs) == now
    assert sorted(place.finished(GSAT, "0" * 16)) == [0, 1, 2]
    assert place.finished(GSAT, "f" * 16) == {}
    # Begun last, though seed 0 is not among them.
    shutil.rmtree(stale / "seed-0")
    assert sorted(place.finished(GSAT)) == [1, 2]


def test_a_place_that_can_not_be_written_is_known_before(tmp_path: Path) -> None:
    Place(tmp_path / "runs", tmp_path / "results" / "runs.jsonl").check()
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == []
    (tmp_path / "folder").mkdir()
    for place, said in (
        (Place(Path("/proc/none"), tmp_path / "runs.jsonl"), "write to /proc/none: .*make room"),
        (Place(tmp_path, Path("/proc/none/runs.jsonl")), "can't write to /proc/none.*make room"),
        (Place(tmp_path, tmp_path / "folder"), "write to .*folder: Is a directory; make room"),
    ):
        with pytest.raises(DiskError, match=said):
            place.check()


def test_the_budget_becomes_a_deadline(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    asked: dict[str, Any] = {}

    def stopped(runs: Mapping[str, Recipe], folder: Path, **how: Any) -> PoolResult:
        asked.update(how)
        return PoolResult(unfinished=list(runs))

    monkeypatch.setattr(module, "train_each", stopped)
    now = time.monotonic()
    outcome = run_plan(make_plan([Wanted(GSAT, 2)], place), place, jobs=2, budget=60)
    assert len(outcome.unfinished) == 2
    assert now + 60 <= asked["deadline"] <= time.monotonic() + 60
    assert asked["jobs"] == 2
    assert not place.record.exists()


def test_only_admits_by_data_method_and_network() -> None:
    experiments = STUDIES["table1"].experiments
    chosen = choose(experiments, "dataset=mutag, dataset=ba2motifs,backbone=pna")
    assert {(e.dataset, e.backbone) for e in chosen} == {("mutag", "pna"), ("ba2motifs", "pna")}
    assert choose(experiments, "") == list(experiments)
    for wrong, said in (
        ("data=mutag", "with the keys dataset, method, backbone; 'data=mutag' is none"),
        ("mutag", "'mutag' is none"),
        ("dataset=mutag,method=irm", "--only method=irm: there is none in this study"),
        ("method=dir,backbone=pna", "no run of this study is all of that"),
    ):
        with pytest.raises(GSATError, match=said):
            choose(experiments, wrong)


def test_studies_share_runs_and_examples_need_but_one_seed() -> None:
    wants = wanted([STUDIES["table5"], STUDIES["fig-regulariser"]], 3)
    assert len(wants) == 15 + 45 - 3  # r = 0.7 is GSAT itself
    assert {(w.seeds, w.curves, w.model) for w in wants} == {(3, False, False)}
    examples = wanted([STUDIES["fig-examples"]], 3, "dataset=houses")
    assert [(w.experiment.method, w.seeds, w.model) for w in examples] == [
        ("gsat", 1, True), ("graphmask", 1, True)
    ]  # fmt: skip
    both = wanted([STUDIES["table1"], STUDIES["fig-posthoc"], STUDIES["fig-examples"]], 3)
    (mutag,) = [w for w in both if w.experiment == Experiment("mutag", "gsat")]
    assert (mutag.seeds, mutag.curves, mutag.model) == (3, True, True)


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
