"""Tuning by audit without a grid: settings one after another, until explanations pass."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tuning_harness import SMALL

from gsat.launch.pool import PoolResult
from gsat.study import grids
from gsat.study import tune as module
from gsat.study.grids import make_rungs
from gsat.study.tune import Tuned, tune
from gsat.training.recipe import Recipe, make_recipe
from gsat.training.results import read_records

ATTENDED = {"method.gsat.readout": "attended", "method.gsat.extractor_norm": "row"}
SHIPPED = grids.LADDER
OWN = (
    {},
    {"readout": "attended", "extractor_norm": "row"},
    {"readout": "attended", "extractor_norm": "row", "r_final": 0.6},
    {"readout": "attended", "extractor_norm": "row", "r_final": 0.8},
    {"readout": "attended", "extractor_norm": "row", "snapshots": 2},
    {"readout": "attended", "extractor_norm": "row", "members": 3},
)
RUNGS = [changes for _, changes in make_rungs(make_recipe("ba2motifs"), ladder=OWN)]

# Accuracy, then outcome and gap of the audit.
Plan = tuple[float | None, str, float]


@pytest.fixture(autouse=True)
def _ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "LADDER", OWN)


@pytest.fixture
def climb(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[Tuned, list[Recipe], list[int]]]:
    """Climbs the ladder with runs that end as planned, one plan for each rung."""

    def climbed(*plans: Plan, **options: Any) -> tuple[Tuned, list[Recipe], list[int]]:
        trained: list[Recipe] = []
        audited: list[int] = []
        rungs: dict[str, int] = {}  # by recipe hash

        def fake(runs: Mapping[str, Recipe], folder: Path, **_: Any) -> PoolResult:
            good, bad = {}, {}
            for name, recipe in runs.items():
                trained.append(recipe)
                accuracy = plans[rungs.setdefault(recipe.hash(), len(rungs))][0]
                if accuracy is None:
                    bad[name] = "training broke down"
                else:
                    valid = {"accuracy": accuracy, "loss": 1.0}
                    good[name] = {"seconds": 1.0, "valid": valid, "test": {}}
            return PoolResult(good, bad)

        def audit(points: Any, *_: Any) -> Any:
            out = []
            for point in points:
                number = rungs[point.recipe_hash]
                if point.outcomes is None:
                    audited.append(number)
                outcome, gap = plans[number][1:]
                outcomes = [outcome] * len(point.values)
                passed = float(outcome == "passed")
                out.append(dataclasses.replace(point, outcomes=outcomes, passed=passed, gap=gap))
            return out

        monkeypatch.setattr(module, "train_each", fake)
        monkeypatch.setattr(module, "audit_points", audit)
        given = {"settings": SMALL, "out": tmp_path / "runs", **options}
        return tune("ba2motifs", by="audit", **given), trained, audited

    return climbed


def test_the_shipped_ladder_has_valid_rungs_and_begins_with_the_recipe() -> None:
    for data in ("ba2motifs", "mutag"):
        rungs = make_rungs(make_recipe(data), ladder=SHIPPED)
        assert rungs[0] == (make_recipe(data), {})
        assert len({recipe.hash() for recipe, _ in rungs}) == len(rungs) > 3


def test_rungs_without_a_change_are_left_out() -> None:
    assert RUNGS[:2] == [{}, ATTENDED]
    assert RUNGS[-1] == {**ATTENDED, "members": 3}
    assert len(RUNGS) == len(OWN)
    base = make_recipe("ba2motifs", settings={"readout": "attended", "extractor_norm": "row"})
    assert len(make_rungs(base, ladder=OWN)) == len(OWN) - 1  # the recipe is the second rung
    fixed = ["method.gsat.readout", "members"]
    rungs = make_rungs(make_recipe("ba2motifs"), fixed, OWN)
    assert not any(key in changes for _, changes in rungs for key in fixed)
    assert len({recipe.hash() for recipe, _ in rungs}) == len(rungs) == len(OWN) - 1


def test_the_first_setting_that_predicts_as_well_and_passes_is_taken(climb: Any) -> None:
    tuned, trained, audited = climb((1.0, "failed", 0.0), (1.0, "passed", 0.4))
    assert tuned.chosen.settings == ATTENDED
    assert tuned.chosen is tuned.points[-1]
    assert (len(trained), len(tuned.points), tuned.rungs) == (2, 2, len(OWN))
    assert audited == [0, 1]
    assert trained[1].settings.readout == "attended"


def test_the_recipe_as_it_is_may_be_good_enough(climb: Any, tmp_path: Path) -> None:
    tuned, trained, _ = climb((1.0, "passed", 0.5), write=tmp_path / "mine.toml")
    assert tuned.chosen.settings == {}
    assert len(trained) == 1
    assert tomllib.loads((tmp_path / "mine.toml").read_text()) == {}


def test_settings_that_predict_worse_are_passed_over(climb: Any, tmp_path: Path) -> None:
    record = tmp_path / "tuning.jsonl"
    tuned, _, audited = climb(
        (1.0, "failed", 0.1), (0.3, "passed", 0.9), (None, "", 0.0), (1.0, "passed", 0.4),
        record=record,
    )  # fmt: skip
    assert audited == [0, 3]
    assert tuned.chosen.settings == RUNGS[3]
    assert [point.passed for point in tuned.points] == [0.0, None, None, 1.0]
    assert tuned.points[2].failed == "training broke down"
    (line,) = read_records(record, ("ladder",))
    assert line["by"] == "audit"
    assert line["ladder"] == RUNGS
    assert line["chosen"] == RUNGS[3]


@pytest.mark.parametrize(
    ("plans", "best"),
    [
        ([("failed", 0.1), ("mixed", 0.2), ("mixed", 0.3), ("failed", 0.9)], 2),
        ([("failed", 0.1), ("failed", 0.1), ("failed", 0.05), ("failed", 0.0)], 0),
    ],
)
def test_if_none_passes_the_best_by_outcome_and_evidence_is_taken(
    plans: list[tuple[str, float]], best: int, climb: Any
) -> None:
    every = [(1.0, *plan) for plan in [*plans, ("failed", 0.0), ("failed", 0.0)]]
    tuned, trained, _ = climb(*every)
    assert len(trained) == len(OWN)
    assert tuned.chosen.settings == RUNGS[best]
    assert tuned.chosen.passed == 0


def test_a_rung_is_judged_by_the_best_at_the_end(climb: Any) -> None:
    # The first rung predicts as well as any, until the second predicts far better.
    tuned, _, audited = climb((0.2, "mixed", 0.9), *[(1.0, "failed", 0.1)] * (len(OWN) - 1))
    assert tuned.chosen.settings == RUNGS[1]
    assert audited == list(range(len(OWN)))


def test_all_seeds_have_to_pass(climb: Any) -> None:
    tuned, trained, _ = climb((1.0, "passed", 0.5), seeds=(0, 1, 2))
    assert [recipe.seed for recipe in trained] == [0, 1, 2]
    assert tuned.chosen.outcomes == ["passed"] * 3


def test_given_settings_are_kept(climb: Any) -> None:
    given = {**SMALL, "readout": "all", "r_final": 0.6}
    tuned, trained, _ = climb(*[(1.0, "failed", 0.0)] * 4, settings=given)
    assert all(recipe.settings.readout == "all" for recipe in trained)
    assert all(recipe.settings.r_final == 0.6 for recipe in trained)
    assert tuned.rungs == len(trained) == 4  # as it is, row, snapshots, members
