"""Estimates of running times."""

from __future__ import annotations

from typing import Any

import pytest

from gsat.study.cost import CostEstimates, format_duration, makespan
from gsat.study.study import Experiment
from gsat.training.recipe import Recipe


def test_time_with_several_jobs_is_that_of_the_last_to_end() -> None:
    assert makespan([], 2) == 0
    assert makespan([10.0], 8) == 10
    assert makespan([1.0, 2.0, 3.0], 2) == 4  # 1 and 3 one after the other, 2 beside


def test_time_is_estimated_from_the_same_recipe_or_similar_ones_or_by_rule_of_by_rule() -> None:
    recipe = Experiment("mutag", "gsat").recipe(0)
    half = Experiment("mutag", "gsat", settings=(("epochs", 50),)).recipe(0)

    def line(of: Recipe, seconds: float) -> dict[str, Any]:
        tables = of.tables()
        return {
            "dataset": "mutag", "backbone": "gin", "method": "gsat", "seconds": seconds,
            "recipe_hash": of.hash(), "recipe": tables,
        }  # fmt: skip

    costs = CostEstimates([line(recipe, s) for s in (90.0, 100.0, 900.0)])
    assert costs.seconds(recipe) == 100.0
    assert costs.seconds(half) == 50.0
    by_rule = CostEstimates([{"failed": "no time in it"}])
    assert by_rule.seconds(recipe) == pytest.approx(2 * by_rule.seconds(half))
    assert 20 < by_rule.seconds(recipe) < 500  # some 90 seconds on one core
    pna = Experiment("spmotif-0.9", "gsat", "pna").recipe(0)
    assert by_rule.seconds(pna) > by_rule.seconds(Experiment("spmotif-0.9", "gsat").recipe(0))


def test_times_on_the_same_kind_of_cpu_come_first_and_others_are_scaled() -> None:
    def line(method: str, seconds: float, cpu: str | None, **settings: Any) -> dict[str, Any]:
        recipe = Experiment("mutag", method, settings=tuple(settings.items())).recipe(0)
        own = {} if cpu is None else {"cpu": cpu}
        return {
            "dataset": "mutag", "backbone": "gin", "method": method, "seconds": seconds,
            "recipe_hash": recipe.hash(), "recipe": recipe.tables(), **own,
        }  # fmt: skip

    gsat, erm = (Experiment("mutag", method).recipe(0) for method in ("gsat", "erm"))
    records = [line("gsat", 100.0, "slow"), line("gsat", 25.0, "fast"), line("erm", 40.0, None)]
    on = {cpu: CostEstimates(records, cpu) for cpu in ("slow", "fast", "new", "")}
    assert [on[cpu].seconds(gsat) for cpu in ("slow", "fast", "new", "")] == [100, 25, 62.5, 62.5]
    # ERM was never run on the fast kind, nor on the slow one; GSAT took 25 and 100 s of them, and
    # 100 and 25 on those of other kinds.
    assert on["fast"].seconds(erm) == 40.0 * 25 / 100
    assert on["slow"].seconds(erm) == 40.0 * 100 / 25
    assert on["new"].seconds(erm) == on[""].seconds(erm) == 40.0


def test_runs_on_a_part_of_the_graphs_say_nothing_of_all_of_them() -> None:
    part = Experiment("mnist75sp", "gsat", settings=(("images", 6000),)).recipe(0)
    whole = Experiment("mnist75sp", "gsat").recipe(0)
    short = {
        "dataset": "mnist75sp", "backbone": "gin", "method": "gsat", "seconds": 150.0,
        "recipe_hash": part.hash(), "recipe": part.tables(),
    }  # fmt: skip
    assert CostEstimates([short]).seconds(whole) == CostEstimates([]).seconds(whole) > 1500


def test_pretraining_takes_as_long_as_erm() -> None:
    def line(experiment: Experiment, seconds: float) -> dict[str, Any]:
        recipe = experiment.recipe(0)
        return {
            "dataset": experiment.dataset, "backbone": experiment.backbone, "seconds": seconds,
            "method": experiment.method, "recipe_hash": recipe.hash(), "recipe": recipe.tables(),
        }  # fmt: skip

    # PNA on molecules: 200 epochs of pre-training, 100 of GSAT.
    star = Experiment("ogbg-molbace", "gsat-star", "pna")
    erm = Experiment("ogbg-molbace", "erm", "pna", settings=(("epochs", 50),))
    costs = CostEstimates([line(erm, 10.0), line(star, 100.0)])
    assert costs.pretraining_seconds(star.recipe(0)) == 40.0
    # It is a part of the run, whatever another run took.
    costs = CostEstimates([line(erm, 1000.0), line(star, 100.0)])
    assert costs.pretraining_seconds(star.recipe(0)) == 90.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (40.2, "40 s"),
        (720, "12 min"),
        (7200, "2 h"),
        (12000, "3 h 20 min"),
        (5 * 86400, "5.0 days"),
    ],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
