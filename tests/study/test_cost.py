"""Estimates of running times."""

from __future__ import annotations

from typing import Any

import pytest

from gsat.study.cost import CostEstimates, format_duration, makespan
from gsat.study.study import Experiment


def test_time_with_several_jobs_is_that_of_the_last_to_end() -> None:
    assert makespan([], 2) == 0
    assert makespan([10.0], 8) == 10
    assert makespan([1.0, 2.0, 3.0], 2) == 4  # 1 and 3 one after the other, 2 beside


def timed(experiment: Experiment, seconds: float, cpu: str | None = None) -> dict[str, Any]:
    """The record of a run that took this time."""
    recipe = experiment.recipe(0)
    return {
        "dataset": experiment.dataset, "backbone": experiment.backbone, "seconds": seconds,
        "method": experiment.method, "recipe_hash": recipe.hash(), "recipe": recipe.tables(),
        **({} if cpu is None else {"cpu": cpu}),
    }  # fmt: skip


def test_time_is_estimated_from_the_same_recipe_or_similar_ones_or_by_rule() -> None:
    mutag = Experiment("mutag", "gsat")
    recipe = mutag.recipe(0)
    half = Experiment("mutag", "gsat", settings=(("epochs", 50),)).recipe(0)
    costs = CostEstimates([timed(mutag, seconds) for seconds in (90.0, 100.0, 900.0)])
    assert costs.seconds(recipe) == 100.0
    assert costs.seconds(half) == 50.0
    by_rule = CostEstimates([{"failed": "no time in it"}])
    assert by_rule.seconds(recipe) == pytest.approx(2 * by_rule.seconds(half))
    assert 20 < by_rule.seconds(recipe) < 500  # measured: about 90 seconds on one core
    pna = Experiment("spmotif-0.9", "gsat", "pna").recipe(0)
    assert by_rule.seconds(pna) > by_rule.seconds(Experiment("spmotif-0.9", "gsat").recipe(0))


def test_times_on_the_same_kind_of_cpu_come_first_and_others_are_scaled() -> None:
    gsat, erm = Experiment("mutag", "gsat"), Experiment("mutag", "erm")
    records = [timed(gsat, 100.0, "slow"), timed(gsat, 25.0, "fast"), timed(erm, 40.0)]
    cpus = ("slow", "fast", "new", "")
    estimates = [CostEstimates(records, cpu).seconds(gsat.recipe(0)) for cpu in cpus]
    assert estimates == [100, 25, 62.5, 62.5]
    # ERM was run on neither kind; GSAT took 100 and 25 s on them, and 25 and 100 s elsewhere.
    estimates = [CostEstimates(records, cpu).seconds(erm.recipe(0)) for cpu in cpus]
    assert estimates == [40.0 * 100 / 25, 40.0 * 25 / 100, 40.0, 40.0]


def test_cpu_seconds_are_used_where_they_are_recorded() -> None:
    mutag = Experiment("mutag", "gsat")
    half = Experiment("mutag", "gsat", settings=(("epochs", 50),)).recipe(0)
    old = timed(mutag, 900.0)
    new = [{**timed(mutag, 800.0), "cpu_seconds": cpu} for cpu in (80.0, 120.0, 100.0)]
    assert CostEstimates([old]).seconds(mutag.recipe(0)) == 900.0
    costs = CostEstimates([old, *new])
    assert costs.seconds(mutag.recipe(0)) == 100.0
    assert costs.seconds(half) == 50.0


def test_times_on_some_of_the_graphs_are_not_used_for_all() -> None:
    part = Experiment("mnist75sp", "gsat", settings=(("images", 6000),))
    whole = Experiment("mnist75sp", "gsat").recipe(0)
    by_rule = CostEstimates([]).seconds(whole)
    assert CostEstimates([timed(part, 150.0)]).seconds(whole) == by_rule > 1500


def test_pretraining_takes_as_long_as_erm() -> None:
    # PNA on molecules: 200 epochs of pre-training, 100 of GSAT.
    star = Experiment("ogbg-molbace", "gsat-star", "pna")
    erm = Experiment("ogbg-molbace", "erm", "pna", settings=(("epochs", 50),))
    for seconds, expected in ((10.0, 40.0), (1000.0, 90.0)):  # it is a part of the run
        costs = CostEstimates([timed(erm, seconds), timed(star, 100.0)])
        assert costs.pretraining_seconds(star.recipe(0)) == expected


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
