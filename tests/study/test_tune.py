"""Tuning: the point that is best on validation data is chosen."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tuning_harness import SMALL, irm

import gsat
from gsat.core.errors import GSATError, Interrupted, RecipeError, RunError
from gsat.launch.pool import PoolResult
from gsat.study import tune as module
from gsat.study import tune_audit
from gsat.study.grids import GRIDS, Point, default_grid, parse_grid
from gsat.study.tune import Tuned, tune
from gsat.training.recipe import Recipe, make_recipe
from gsat.training.results import read_records
from study_harness import train_here

Runs = Mapping[str, Recipe]
Outcome = dict[str, Any] | str


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Recipe], Outcome]], None]:
    """Runs that end as planned, by recipe: with metrics, failed for a reason, or "unfinished"."""

    def plant(plan: Callable[[Recipe], Outcome]) -> None:
        def fake(runs: Runs, folder: Path, *, pretrained_cache: Path, **how: Any) -> PoolResult:
            assert pretrained_cache == folder / "pretrained"  # shared by all points
            ends = {name: plan(recipe) for name, recipe in runs.items()}
            good = {n: {"seconds": 1.0, **e} for n, e in ends.items() if isinstance(e, dict)}
            failed = {n: e for n, e in ends.items() if isinstance(e, str) and e != "unfinished"}
            return PoolResult(good, failed, [n for n, e in ends.items() if e == "unfinished"])

        monkeypatch.setattr(module, "train_each", fake)

    return plant


def ended(accuracy: float | None, loss: float = 1.0, test: float = 0.5, **more: Any) -> Outcome:
    valid = {"accuracy": accuracy, "loss": loss, "explanation_auc": None, **more}
    return {"valid": valid, "test": {"accuracy": test, "loss": test}}


def penalty(tuned: Tuned) -> float:
    return tuned.chosen.settings["method.irm.penalty"]


# -- the choice -----------------------------------------------------------------------------------


def test_the_choice_is_best_on_validation_data_and_ignores_test_data(
    planted: Any, tmp_path: Path
) -> None:
    valid = {0.01: 0.6, 0.1: 0.7, 1.0: 0.9, 10.0: 0.8, 100.0: 0.5}
    lines = []
    for sign in (1, -1):
        planted(lambda r, sign=sign: ended(valid[r.settings.penalty], test=0.5 - sign * 0.4
                                           * (r.settings.penalty == 1.0)))  # fmt: skip
        tuned = irm(tmp_path)
        assert penalty(tuned) == 1.0
        assert [point.mean for point in tuned.points] == list(valid.values())
        lines.append(tuned.record)
    assert lines[0] == lines[1]
    assert "test" not in json.dumps([lines[0]["points"], lines[0]["chosen"]])


def test_seeds_are_judged_by_their_mean(planted: Any, tmp_path: Path) -> None:
    valid = {1.0: [0.9, 0.1, 0.2], 2.0: [0.5, 0.4, 0.6], 3.0: [0.4, 0.4, 0.4]}
    planted(lambda recipe: ended(valid[recipe.settings.penalty][recipe.seed]))
    tuned = irm(tmp_path, grid={"penalty": [1, 2, 3]}, seeds=range(3))
    assert penalty(tuned) == 2.0
    assert tuned.chosen.values == [0.5, 0.4, 0.6]
    assert (tuned.chosen.mean, tuned.chosen.std) == pytest.approx((0.5, 0.0816497), abs=1e-6)


@pytest.mark.parametrize(
    ("metric", "ends", "chosen"),
    [
        ("accuracy", [ended(0.5, 3.0), ended(0.5, 1.0), ended(0.5, 2.0)], 2.0),  # lower loss
        ("accuracy", [ended(0.5), ended(0.5), ended(0.4)], 1.0),  # the first of equals
        ("loss", [ended(0.9, 3.0), ended(0.1, 1.0), ended(0.5, 2.0)], 2.0),  # less is better
        ("accuracy", ["broke down", ended(0.1), ended(None)], 2.0),
    ],
)
def test_ties_losses_and_failures(
    metric: str, ends: list[Outcome], chosen: float, planted: Any, tmp_path: Path
) -> None:
    planted(lambda recipe: ends[int(recipe.settings.penalty) - 1])
    tuned = irm(tmp_path, grid={"penalty": [1, 2, 3]}, metric=metric)
    assert penalty(tuned) == chosen
    why = [end if isinstance(end, str) else None for end in ends]
    assert [point.failed for point in tuned.points] == why


def test_ties_and_points_without_a_difference_are_reported(planted: Any, tmp_path: Path) -> None:
    ends = [ended(0.4, 2.0), ended(0.5, 3.0), ended(0.5, 1.0), ended(0.4, 2.0), ended(0.4, 1.0)]
    planted(lambda recipe: ends[int(recipe.settings.penalty) - 1])
    tuned = irm(tmp_path, grid={"penalty": [1, 2, 3, 4, 5]})
    by_penalty = {point.settings["method.irm.penalty"]: point for point in tuned.points}
    assert tuned.chosen is by_penalty[3.0]
    assert tuned.ties == [by_penalty[2.0]]
    assert tuned.identical == [[by_penalty[1.0], by_penalty[4.0]]]
    assert "ties" not in tuned.record  # the file of tunings has the same format as before
    planted(lambda recipe: ended(recipe.settings.penalty / 10))
    clear = irm(tmp_path, grid={"penalty": [1, 2, 3]})
    assert (clear.ties, clear.identical, clear.duplicates) == ([], [], {})
    planted(lambda recipe: ended(0.5) if recipe.settings.penalty == 1 else "broke down")
    assert irm(tmp_path, grid={"penalty": [1, 2, 3]}).identical == []  # failures are no results


def test_a_point_with_a_failed_seed_is_not_chosen(planted: Any, tmp_path: Path) -> None:
    planted(lambda r: "broke down" if (r.seed, r.settings.penalty) == (1, 2.0) else ended(
        r.settings.penalty / 10))  # fmt: skip
    assert penalty(irm(tmp_path, grid={"penalty": [1, 2]}, seeds=(0, 1))) == 1.0


def test_a_grid_without_a_valid_point_is_an_error(planted: Any, tmp_path: Path) -> None:
    record, recipe = tmp_path / "tuning.jsonl", tmp_path / "recipe.toml"
    planted(lambda _: "the disk is full")
    with pytest.raises(RunError, match="the disk is full"):
        irm(tmp_path, record=record, write=recipe)
    planted(lambda _: ended(None))
    with pytest.raises(RunError, match="accuracy"):
        irm(tmp_path, record=record, write=recipe)
    assert not record.exists()
    assert not recipe.exists()


def test_the_metric_of_a_default_grid_applies_to_that_grid_only(
    planted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With GSAT in its place, for a grid that asks for explanations."""
    monkeypatch.setitem(GRIDS, "gsat", dataclasses.replace(GRIDS["gsat"], metric="explanation_auc"))
    planted(lambda r: ended(r.settings.r_final, explanation_auc=1 - r.settings.r_final))
    found = [
        tune("ba2motifs", settings=SMALL, out=tmp_path, grid=grid)
        for grid in (None, {"r_final": [0.5, 0.7]})
    ]
    assert [tuned.metric for tuned in found] == ["explanation_auc", "accuracy"]
    assert [tuned.chosen.settings["method.gsat.r_final"] for tuned in found] == [0.5, 0.7]


# -- the grid -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", GRIDS, ids=str)
def test_the_default_grid_of_a_method_names_its_settings(
    key: Any, planted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every data set by the recipe alone: some small graphs stand in for the raw files."""
    method, dataset = (key, "spmotif-0.5") if isinstance(key, str) else key
    grid = default_grid(method, dataset)
    assert grid is GRIDS[key]
    planted(lambda _: ended(0.5, explanation_auc=0.5))
    data = dataclasses.replace(gsat.load_dataset("ba2motifs", graphs=30), options={})
    monkeypatch.setattr(module, "load_data", lambda recipe: data)
    tuned = tune(dataset, method, out=tmp_path)
    assert tuned.record["dataset"] == dataset
    count = 1
    for values in grid.values.values():
        count *= len(values)
    assert len({point.recipe_hash for point in tuned.points}) == len(tuned.points) == count
    assert [tuple(v) for v in tuned.record["grid"].values()] == list(grid.values.values())


def test_a_grid_is_read_from_texts() -> None:
    texts = ["lr=1e-3, 0.1", "attention=edge,node", "r_interval=1,2", 'aggregators=["sum"],["std"]']
    assert parse_grid(texts) == {
        "lr": [1e-3, 0.1],
        "attention": ["edge", "node"],
        "r_interval": [1, 2],
        "aggregators": [["sum"], ["std"]],
    }
    assert parse_grid(["environments=base"]) == {"environments": ["base"]}
    for wrong in ("lr", "lr=", "=1,2"):
        with pytest.raises(RecipeError, match="KEY="):
            parse_grid([wrong])
    with pytest.raises(RecipeError, match="'lr' twice"):
        parse_grid(["lr=1", "lr=2"])


def test_equal_values_are_tried_once_and_reported(planted: Any, tmp_path: Path) -> None:
    planted(lambda _: ended(0.5))
    tuned = irm(tmp_path, grid={"penalty": [1, 1.0, 2], "lr": [0.1]})
    assert tuned.record["grid"] == {"method.irm.penalty": [1.0, 2.0], "training.lr": [0.1]}
    assert len(tuned.points) == 2
    assert tuned.duplicates == {"method.irm.penalty": [1.0]}
    assert irm(tmp_path, grid={"penalty": [1, 2]}).duplicates == {}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"grid": {"seed": [0, 1]}}, "'seed'"),
        ({"grid": {"graphs": [20, 30]}}, "'data.graphs'"),
        ({"grid": {"lr": [0.1], "training.lr": [0.2]}}, "'training.lr'"),
        ({"grid": {"lr": []}}, "at least one"),
        ({"grid": {}}, "at least one"),
        ({"grid": {"penalti": [1]}}, "'penalty'"),
        ({"grid": {"penalty": [1, -1]}}, "'method.irm.penalty'"),
        ({"method": "erm"}, "erm"),
        ({"metric": "roc_auc"}, "'roc_auc'"),
        ({"metric": "explanation_auc"}, "explanation_auc"),
        ({"settings": {"seed": 4}}, "seed 4"),
        ({"method": "gsat", "by": "audit", "metric": "explanation_auc"}, "explanation_auc"),
        ({"method": "erm", "by": "audit", "grid": {"lr": [0.1]}}, "audit"),
    ],
)
def test_invalid_tunings_are_errors_before_training(
    options: dict[str, Any], problem: str, planted: Any, tmp_path: Path
) -> None:
    planted(lambda _: pytest.fail("nothing may be trained"))
    with pytest.raises(GSATError, match=problem):
        tune("ba2motifs", **{"method": "irm", "settings": SMALL, "out": tmp_path, **options})


def test_data_without_true_explanations_can_not_be_tuned_by_them(
    planted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(lambda _: pytest.fail("nothing may be trained"))
    data = gsat.load_dataset("ba2motifs", graphs=30)
    del data.store.arrays["edge_truth"]
    monkeypatch.setattr(module, "load_data", lambda recipe: data)
    with pytest.raises(GSATError, match="precision_at_5"):
        tune("ba2motifs", metric="precision_at_5", settings=SMALL, out=tmp_path)
    with pytest.raises(GSATError, match="explanation_auc"):
        explainers(tmp_path)


def explainers(tmp_path: Path) -> Tuned:
    return tune("ba2motifs", "pgexplainer", settings=SMALL, grid={"size": [0.1, 1.0]}, out=tmp_path)


def test_explainers_are_chosen_by_their_explanations(planted: Any, tmp_path: Path) -> None:
    """Also on a grid of the user's own: the accuracy of a frozen network is the same everywhere."""
    planted(lambda r: ended(0.9, loss=r.settings.size, explanation_auc=r.settings.size / 2))
    tuned = explainers(tmp_path)
    assert tuned.metric == "explanation_auc"
    assert tuned.chosen.settings == {"method.pgexplainer.size": 1.0}


def test_nothing_is_chosen_while_another_process_trains_some_of_the_runs(
    planted: Any, tmp_path: Path
) -> None:
    planted(lambda r: "unfinished" if r.settings.penalty == 10.0 else ended(0.5))
    record = tmp_path / "tuning.jsonl"
    with pytest.raises(Interrupted, match="1 of 5"):
        irm(tmp_path, record=record)
    assert not record.exists()


# -- what is kept ---------------------------------------------------------------------------------


def test_a_tuning_is_recorded_once_and_the_choice_becomes_a_recipe(
    planted: Any, tmp_path: Path
) -> None:
    record, recipe = tmp_path / "tuning.jsonl", tmp_path / "recipe.toml"
    recipe.write_text("# Mine.\n[method.irm]\nenvironments = 'random'\n")
    planted(lambda r: ended(r.settings.penalty / (1 + r.training.lr)))
    grid = {"penalty": [0.1, 0.2], "lr": [0.02, 0.01]}
    for _ in range(2):
        tuned = irm(tmp_path, grid=grid, record=record, write=recipe)
    assert recipe.read_text() == (
        "# Mine.\n[method.irm]\nenvironments = 'random'\npenalty = 0.2\n\n"
        "[training.irm]\nlr = 0.01\n"
    )
    used = make_recipe("ba2motifs", method="irm", file=recipe, settings=SMALL)
    assert used.hash() == tuned.chosen.recipe_hash
    assert make_recipe("ba2motifs", file=recipe).training.lr != 0.01  # chosen for IRM only
    (line,) = read_records(record, needs=())
    assert line == json.loads(json.dumps(tuned.record))
    assert line["grid"] == {"method.irm.penalty": [0.1, 0.2], "training.lr": [0.02, 0.01]}
    assert line["chosen"] == {"method.irm.penalty": 0.2, "training.lr": 0.01}
    irm(tmp_path, grid=grid, record=record, seeds=(1,))
    assert [line["seeds"] for line in read_records(record, needs=())] == [[0], [1]]


# -- by audit --------------------------------------------------------------------------------------


def point(mean: float | None, std: float = 0.0, seeds: int = 1, **more: Any) -> Point:
    return Point({}, "", [mean] * seeds, mean, std, 1.0, 1.0, **more)


def test_points_within_a_standard_error_predict_as_well() -> None:
    data = gsat.load_dataset("ba2motifs", graphs=1000)  # 100 of them are for validation
    points = [point(0.97), point(0.999), point(None), point(1.0), point(0.98)]
    best = points[3]
    # The error of a share of 1 of 100 is 0.0135, as for the choice of epochs.
    assert tune_audit.as_accurate(points, best, "accuracy", data) == [points[1], best]
    spread = point(1.0, std=0.064, seeds=4)  # of the mean: 0.032
    assert tune_audit.as_accurate([*points, spread], spread, "accuracy", data) == [
        points[0], points[1], best, points[4], spread,
    ]  # fmt: skip
    low, high = point(0.3), point(0.4)
    assert tune_audit.as_accurate([low, high], low, "loss", data) == [low]


def test_the_point_that_passed_for_most_seeds_is_chosen_then_the_most_necessary() -> None:
    seldom, often = point(1.0, passed=0.5, gap=0.9), point(0.9, passed=1.0, gap=0.4)
    wider = point(0.9, passed=1.0, gap=0.5)
    assert tune_audit.most_faithful([seldom, often], "accuracy") is often
    assert tune_audit.most_faithful([seldom, often, wider], "accuracy") is wider
    better, worse = point(0.2, passed=1.0, gap=0.5), point(0.3, passed=1.0, gap=0.5)
    assert tune_audit.most_faithful([worse, better], "loss") is better


@pytest.mark.medium
def test_tuning_by_audit_takes_explanations_that_pass_and_audits_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "train_each", train_here([]))
    settings = {"graphs": 60, "epochs": 2, "hidden": 8, "layers": 1}
    audits = []
    audit = gsat.Run.audit

    def count(run: gsat.Run, *given: Any, **how: Any) -> Any:
        audits.append(how["split"])
        report = audit(run, *given, **how)
        # As if attention to nodes explained, and attention to edges did not.
        gap = 0.6 if run.model.on == "node" else 0.0
        measures = {"skill": 0.9, "rest_redrawn": 0.95, "redrawn_gap": gap, "levelled_gap": None}
        path = run.path / "audit.json"
        told = json.loads(path.read_text())
        told["measures"] |= measures
        passed = run.model.on == "node"
        told |= {"believe": passed, "outcome": "passed" if passed else "failed"}
        path.write_text(json.dumps(told))
        return report

    monkeypatch.setattr(gsat.Run, "audit", count)

    def by_audit() -> Tuned:
        return tune("ba2motifs", by="audit", settings=settings, out=tmp_path,
                    grid={"attention": ["edge", "node"]}, record=tmp_path / "t.jsonl")  # fmt: skip

    tuned = by_audit()
    assert tuned.chosen.settings == {"method.gsat.attention": "node"}
    assert [(p.passed, p.gap) for p in tuned.points] == [(0.0, 0.0), (1.0, 0.6)]
    assert audits == ["valid", "valid"]
    assert by_audit().chosen == tuned.chosen
    assert audits == ["valid", "valid"]  # kept in the run directories
    (record,) = read_records(tmp_path / "t.jsonl", ("by", "chosen"))
    assert record["by"] == "audit"
    assert [p["passed"] for p in record["points"]] == [0.0, 1.0]


def test_an_explainer_is_tuned_by_audit_without_true_explanations(
    planted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(lambda recipe: ended(0.9))

    def audited(points: Any, *_: Any) -> Any:
        return [dataclasses.replace(p, passed=1.0, gap=len(p.recipe_hash)) for p in points]

    monkeypatch.setattr(module, "audit_points", audited)
    tuned = tune("ba2motifs", "gnnexplainer", by="audit", settings=SMALL, out=tmp_path)
    assert tuned.metric == "accuracy"
    assert all(p.passed == 1.0 for p in tuned.points)  # all predict equally well
