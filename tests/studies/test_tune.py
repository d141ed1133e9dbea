"""Tuning: the best on validation data is chosen, and what is finished is not trained again."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import gsat
from gsat.errors import GSATError, RecipeError, RunError
from gsat.io import files
from gsat.launch import local
from gsat.launch.progress import Progress
from gsat.studies import tune as module
from gsat.studies.grids import GRIDS, grid_of
from gsat.studies.tune import Tuned, parse_grid, tune
from gsat.training.loop import Interrupted
from gsat.training.recipe import Recipe, make_recipe
from gsat.training.results import read_records
from reference import one_thread  # noqa: F401

SMALL = {"graphs": 30, "epochs": 3, "hidden": 8, "layers": 1}
Runs = Mapping[str, Recipe]
Outcome = dict[str, Any] | str


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Recipe], Outcome]], None]:
    """Runs that end as planned, by recipe: with these metrics, or failed for this reason."""

    def plant(plan: Callable[[Recipe], Outcome]) -> None:
        def fake(runs: Runs, folder: Any, **how: Any) -> Any:
            ends = {name: plan(recipe) for name, recipe in runs.items()}
            good = {n: {"seconds": 1.0, **e} for n, e in ends.items() if isinstance(e, dict)}
            return local.Outcome(good, {n: e for n, e in ends.items() if isinstance(e, str)})

        monkeypatch.setattr(module, "train_each", fake)

    return plant


def test_points_share_what_they_begin_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelves = []

    def fake(runs: Runs, folder: Path, **how: Any) -> Any:
        shelves.append(how["pretrained_cache"].relative_to(folder))
        return local.Outcome({n: {"seconds": 1.0, **ended(0.5)} for n in runs})

    monkeypatch.setattr(module, "train_each", fake)
    irm(tmp_path)
    assert shelves == [Path("pretrained")]


def ended(accuracy: float | None, loss: float = 1.0, test: float = 0.5, **more: Any) -> Outcome:
    valid = {"accuracy": accuracy, "loss": loss, "explanation_auc": None, **more}
    return {"valid": valid, "test": {"accuracy": test, "loss": test}}


def irm(tmp_path: Path, **how: Any) -> Tuned:
    return tune("ba2motifs", "irm", settings=SMALL, **{"out": tmp_path / "runs", **how})


def penalty(tuned: Tuned) -> float:
    return tuned.chosen.settings["method.irm.penalty"]


# -- the choice -----------------------------------------------------------------------------------


def test_the_choice_is_best_on_validation_data_whatever_the_test_says(
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


def test_a_point_of_which_one_seed_failed_is_not_chosen(planted: Any, tmp_path: Path) -> None:
    planted(lambda r: "broke down" if (r.seed, r.settings.penalty) == (1, 2.0) else ended(
        r.settings.penalty / 10))  # fmt: skip
    assert penalty(irm(tmp_path, grid={"penalty": [1, 2]}, seeds=(0, 1))) == 1.0


def test_a_grid_in_which_nothing_can_be_chosen_is_an_error(planted: Any, tmp_path: Path) -> None:
    record, recipe = tmp_path / "tuning.jsonl", tmp_path / "recipe.toml"
    planted(lambda _: "the disk is full")
    with pytest.raises(RunError, match="no point could be chosen: the disk is full"):
        irm(tmp_path, record=record, write=recipe)
    planted(lambda _: ended(None))
    with pytest.raises(RunError, match="accuracy is undefined on the validation data"):
        irm(tmp_path, record=record, write=recipe)
    assert not record.exists()
    assert not recipe.exists()


def test_gnnexplainer_s_metric_holds_for_its_own_grid_alone(
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
def test_a_method_s_grid_names_its_settings(key: Any, planted: Any, tmp_path: Path) -> None:
    method, dataset = (key, "spmotif-0.5") if isinstance(key, str) else key
    grid = grid_of(method, dataset)
    assert grid is GRIDS[key]
    planted(lambda _: ended(0.5, explanation_auc=0.5))
    settings = {"train_per_class": 9} if dataset.startswith("spmotif") else {}
    tuned = tune(dataset, method, settings=settings, out=tmp_path)
    count = 1
    for values in grid.values.values():
        count *= len(values)
    assert len({point.recipe_hash for point in tuned.points}) == len(tuned.points) == count
    assert [tuple(v) for v in tuned.record["grid"].values()] == list(grid.values.values())


def test_a_grid_is_written_as_settings_are() -> None:
    texts = ["lr=1e-3, 0.1", "attention=edge,node", "r_interval=1,2", 'aggregators=["sum"],["std"]']
    assert parse_grid(texts) == {
        "lr": [1e-3, 0.1],
        "attention": ["edge", "node"],
        "r_interval": [1, 2],
        "aggregators": [["sum"], ["std"]],
    }
    assert parse_grid(["environments=base"]) == {"environments": ["base"]}
    for wrong in ("lr", "lr=", "=1,2"):
        with pytest.raises(RecipeError, match="a grid is written KEY=V1,V2,…"):
            parse_grid([wrong])
    with pytest.raises(RecipeError, match="'lr' twice"):
        parse_grid(["lr=1", "lr=2"])


def test_equal_points_are_trained_once(planted: Any, tmp_path: Path) -> None:
    planted(lambda _: ended(0.5))
    tuned = irm(tmp_path, grid={"penalty": [1, 1.0, 2], "lr": [0.1]})
    assert tuned.record["grid"] == {"method.irm.penalty": [1.0, 2.0], "training.lr": [0.1]}
    assert len(tuned.points) == 2


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"grid": {"seed": [0, 1]}}, "'seed' can't be tuned"),
        ({"grid": {"graphs": [20, 30]}}, "'data.graphs' can't be tuned"),
        ({"grid": {"lr": [0.1], "training.lr": [0.2]}}, "'training.lr' twice"),
        ({"grid": {"lr": []}}, "at least one value of each"),
        ({"grid": {}}, "at least one setting"),
        ({"grid": {"penalti": [1]}}, "did you mean 'penalty'"),
        ({"grid": {"penalty": [1, -1]}}, "'method.irm.penalty': .*greater than or equal to 0"),
        ({"method": "erm"}, "there is no grid for erm; give one with --grid"),
        ({"metric": "roc_auc"}, "there is no metric 'roc_auc' on ba2motifs"),
        ({"metric": "explanation_auc"}, "IRM explains nothing"),
        ({"settings": {"seed": 4}}, "seed 0 is to be tuned with; set no other seed"),
    ],
)
def test_what_can_not_be_tuned_is_said_before_training(
    how: dict[str, Any], said: str, planted: Any, tmp_path: Path
) -> None:
    planted(lambda _: pytest.fail("nothing may be trained"))
    with pytest.raises(GSATError, match=said) as caught:
        tune("ba2motifs", **{"method": "irm", "settings": SMALL, "out": tmp_path, **how})
    assert "\n" not in str(caught.value)


def test_data_without_true_explanations_can_not_be_tuned_by_them(
    planted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(lambda _: pytest.fail("nothing may be trained"))
    data = gsat.load_dataset("ba2motifs", graphs=30)
    del data.store.arrays["edge_truth"]
    monkeypatch.setattr(module, "load_data", lambda recipe: data)
    with pytest.raises(GSATError, match="no true explanations to tune by; choose --metric acc"):
        tune("ba2motifs", metric="precision_at_5", settings=SMALL, out=tmp_path)
    with pytest.raises(GSATError, match="no true explanations by which alone an explainer can be"):
        explainers(tmp_path)


def explainers(tmp_path: Path) -> Tuned:
    return tune("ba2motifs", "pgexplainer", settings=SMALL, grid={"size": [0.1, 1.0]}, out=tmp_path)


def test_explainers_are_chosen_by_their_explanations(planted: Any, tmp_path: Path) -> None:
    """Also on a grid of the user's own: the accuracy of a frozen network is the same everywhere."""
    planted(lambda r: ended(0.9, loss=r.settings.size, explanation_auc=r.settings.size / 2))
    tuned = explainers(tmp_path)
    assert tuned.metric == "explanation_auc"
    assert tuned.chosen.settings == {"method.pgexplainer.size": 1.0}


def test_nothing_is_chosen_while_another_process_is_at_some_of_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some(runs: Runs, folder: Path, **how: Any) -> Any:
        *mine, theirs = runs
        return local.Outcome({n: {"seconds": 1.0, **ended(0.5)} for n in mine}, left=[theirs])

    monkeypatch.setattr(module, "train_each", some)
    record = tmp_path / "tuning.jsonl"
    with pytest.raises(Interrupted, match="another process is at 1 of 5 runs"):
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
    assert make_recipe("ba2motifs", file=recipe).training.lr != 0.01  # chosen for IRM alone
    (line,) = read_records(record, needs=())
    assert line == json.loads(json.dumps(tuned.record))
    assert line["grid"] == {"method.irm.penalty": [0.1, 0.2], "training.lr": [0.02, 0.01]}
    assert line["chosen"] == {"method.irm.penalty": 0.2, "training.lr": 0.01}
    irm(tmp_path, grid=grid, record=record, seeds=(1,))
    assert [line["seeds"] for line in read_records(record, needs=())] == [[0], [1]]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Runs trained in this process, one after the other; the names of those that were begun."""
    begun: list[str] = []

    def here(runs: Runs, folder: Path, **how: Any) -> Any:
        results = {}
        for name, recipe in runs.items():
            begun.append(name)
            there = (folder / name / "recipe.toml").exists()
            run = (
                gsat.resume(folder / name)
                if there
                else gsat.train(recipe, folder / name, checkpoint_seconds=0)
            )
            results[name] = run.result
        return local.Outcome(results)

    monkeypatch.setattr(module, "train_each", here)
    monkeypatch.setattr(files.os, "fsync", lambda handle: None)
    return begun


def test_a_stopped_tuning_goes_on_and_a_larger_grid_trains_what_is_new(
    trained: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = {"penalty": [0.1, 1.0, 10.0]}
    whole = irm(tmp_path / "whole", grid=grid)
    assert len(trained) == len(set(trained)) == 3
    epochs = 0

    def advance(self: Progress, status: str = "", steps: int = 1) -> None:
        nonlocal epochs
        epochs += 1
        if epochs == 5:  # in the second run
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "advance", advance)
        with pytest.raises(KeyboardInterrupt):
            irm(tmp_path, grid=grid)
    first = tmp_path / "runs" / trained[0] / "result.json"
    written = first.stat().st_mtime_ns
    trained.clear()
    again = irm(tmp_path, grid=grid)
    assert len(trained) == 2  # the one that was cut short, and the one not begun
    assert first.stat().st_mtime_ns == written

    def told(tuned: Tuned) -> list[Any]:
        return [{**vars(point), "seconds": 0} for point in tuned.points]

    assert told(again) == told(whole)
    trained.clear()
    larger = irm(tmp_path, grid={"penalty": [0.01, 0.1, 1.0, 10.0]}, seeds=(0, 1))
    assert len(trained) == 5
    assert [point.values[0] for point in larger.points[1:]] == [p.mean for p in whole.points]


def test_other_graphs_under_the_same_name_are_trained_anew(
    trained: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    irm(tmp_path, grid={"penalty": [1.0]})
    data = dataclasses.replace(gsat.load_dataset("ba2motifs", graphs=30), hash="other")
    monkeypatch.setattr(module, "load_data", lambda recipe: data)
    irm(tmp_path, grid={"penalty": [1.0]})
    assert len(set(trained)) == 2


def test_graphs_of_the_user_s_own_are_tuned_by_their_path(
    trained: list[str], tmp_path: Path
) -> None:
    gsat.load_dataset("ba2motifs", graphs=30).store.save(tmp_path / "graphs")
    settings = {name: value for name, value in SMALL.items() if name != "graphs"}
    grid = {"info_coef": [0.1, 1.0]}
    found = [
        tune(str(tmp_path / "graphs"), grid=grid, settings=settings, seeds=(0, 1), out=tmp_path)
        for _ in range(2)
    ]
    assert len(trained) == 4  # nothing again
    assert found[0].points == found[1].points
    assert found[0].record["data_hash"] == found[0].record["recipe"]["data"]["content"]
