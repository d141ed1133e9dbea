"""The loop: which epoch is selected, what is evaluated when, what is logged, what breaks it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gsat
import gsat.training.loop
from gsat.core.errors import RunError
from gsat.graphs import GraphStore
from gsat.methods import METHODS, Phase
from gsat.methods.gsat import GSATMethod
from gsat.training.evaluation import evaluate
from gsat.training.loop import cut_into_batches
from gsat.training.recipe import load_data
from training_harness import NO_TIME, SMALL, epochs_logged, small_recipe
from training_toy import Toy


class Impatient(Toy):
    """A method whose second phase ends after three epochs without a better one."""

    name = "impatient"

    def phases(self) -> tuple[Phase, ...]:
        warm = self.settings.warm_epochs  # type: ignore[attr-defined]
        return (
            Phase("warm", warm, selectable_from=0),
            Phase("play", self.training.epochs - warm, patience=3),
        )

    def finish_phase(self, context: Any, measure: Any) -> None:
        self.begun.append(f"end of {context.phase} after {context.epoch}")

    def report(self) -> dict[str, Any]:
        return {"begun": self.begun}


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, run_path: Path) -> Callable[..., dict[str, Any]]:
    """``play(epochs, {epoch: (metric, loss)})``: train with validation metrics made up.

    Returns the result, the lines of the log and the epochs that the test set was evaluated after.
    """

    def run(
        epochs: int, validation: dict[int, tuple[float | None, float]], **settings: Any
    ) -> dict[str, Any]:
        monkeypatch.setitem(METHODS, Impatient.name, Impatient)
        recipe = small_recipe(epochs=epochs, **settings)
        test = load_data(recipe).splits["test"]
        at = [-1]
        tested: list[int] = []

        def evaluate(store: GraphStore, *_: Any, **__: Any) -> dict[str, Any]:
            if np.array_equal(store.index, test):
                tested.append(at[0])
                return {"loss": 0.5, "accuracy": at[0] / 1000}
            at[0] += 1
            metric, loss = validation.get(at[0], (0.25, 1.0))
            return {"loss": loss, "accuracy": metric}

        monkeypatch.setattr(gsat.training.loop, "measure", evaluate)
        result = gsat.train(recipe, run_path).result
        return {**result, "lines": epochs_logged(run_path), "tested": tested}

    return run


def selected(played: dict[str, Any]) -> list[int]:
    return [line["epoch"] for line in played["lines"] if line["selected"]]


# -- selection (check 22 of the spec) -------------------------------------------------------------


@pytest.mark.parametrize(("interval", "first"), [(1, 11), (4, 16)])
def test_epochs_before_the_twelfth_and_before_r_is_final_are_never_selected(
    interval: int, first: int, play: Callable[..., dict[str, Any]]
) -> None:
    perfect = dict.fromkeys(range(first), (1.0, 0.0))
    played = play(first + 4, {**perfect, first + 2: (0.5, 0.9)}, r_interval=interval)
    assert selected(played) == [first, first + 2]
    assert (played["best_epoch"], played["selected"]) == (first + 2, "best")
    assert played["valid"]["accuracy"] == 0.5


def test_an_equal_metric_and_a_lower_loss_replace_the_best(
    play: Callable[..., dict[str, Any]],
) -> None:
    validation = {
        11: (0.5, 0.7),
        12: (0.5, 0.6),  # a tie with a lower loss
        13: (0.5, 0.6),  # no better
        14: (0.5, 0.65),  # a tie with a higher loss
        15: (0.4, 0.1),  # a lower loss is not enough
        16: (0.6, 2.0),  # a better metric is, whatever the loss
        17: (None, 0.1),  # undefined never wins
        18: (0.6, 1.9),
    }
    played = play(20, validation)
    assert selected(played) == [11, 12, 16, 18]
    assert played["best_epoch"] == 18
    assert played["valid"] == {"loss": 1.9, "accuracy": 0.6}


def test_the_test_set_is_evaluated_once_at_the_end(
    play: Callable[..., dict[str, Any]],
) -> None:
    played = play(18, {11: (0.3, 1.0), 14: (0.4, 1.0), 15: (0.4, 0.9), 16: (0.1, 0.1)})
    assert selected(played) == [11, 14, 15]
    assert played["tested"] == [17]  # after the last epoch
    assert played["test"] == {"loss": 0.5, "accuracy": 0.017}


@pytest.mark.parametrize(
    ("epochs", "validation", "settings", "accuracy"),
    [
        (8, {3: (1.0, 0.0)}, {}, 0.25),
        (20, {12: (1.0, 0.0)}, {"selection": "last"}, 0.25),
        (13, {11: (None, 0.1), 12: (None, 0.2)}, {}, None),
    ],
    ids=["too few epochs", "by the recipe", "an undefined metric"],
)
def test_the_last_epoch_is_reported_where_none_is_selected(
    epochs: int, validation: Any, settings: Any, accuracy: float | None, play: Any
) -> None:
    played = play(epochs, validation, **settings)
    assert (played["best_epoch"], played["selected"]) == (epochs - 1, "last")
    assert selected(played) == []
    assert played["tested"] == [epochs - 1]
    assert played["valid"]["accuracy"] == accuracy


def test_the_model_is_that_of_the_selected_epoch(
    play: Callable[..., dict[str, Any]], run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, dict[str, torch.Tensor]] = {}

    def spy(self: GSATMethod, context: Any, valid: Any) -> None:
        seen[context.epoch] = {k: v.clone() for k, v in self.model.state_dict().items()}

    monkeypatch.setattr(GSATMethod, "finish_epoch", spy)
    assert play(16, {12: (0.9, 0.1)})["best_epoch"] == 12
    loaded = gsat.load(run_path).state_dict()
    assert all(torch.equal(loaded[name], seen[12][name]) for name in loaded)
    assert not all(torch.equal(loaded[name], seen[15][name]) for name in loaded)


# -- what is written ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> gsat.Run:
    """A small run, nothing made up."""
    return gsat.train(small_recipe(), tmp_path_factory.mktemp("loop") / "run")


def test_the_result_says_what_the_design_promises(finished: gsat.Run) -> None:
    assert finished.path
    result = json.loads((finished.path / "result.json").read_text())
    assert result == finished.result
    keys = {"dataset", "method", "backbone", "seed", "best_epoch", "selected", "valid", "test",
            "seconds", "cpu_seconds", "matches_paper", "recipe_hash", "data_hash",
            "results_version"}  # fmt: skip
    assert keys <= result.keys()
    named = (result["dataset"], result["method"], result["backbone"], result["seed"])
    assert named == ("ba2motifs", "gsat", "gin", 0)
    assert result["recipe_hash"] == small_recipe().hash()
    assert result["matches_paper"] == "different"
    for split in ("valid", "test"):
        for metric in ("accuracy", "explanation_auc", "precision_at_5"):
            assert 0 <= result[split][metric] <= 1
    assert finished.test == result["test"]
    assert finished.valid == result["valid"]
    record = finished.record()
    assert record.items() >= result.items()
    assert record["versions"]["torch"] == torch.__version__


def test_every_epoch_is_a_line_of_the_log(finished: gsat.Run) -> None:
    assert finished.path
    lines = epochs_logged(finished.path)
    assert [line["epoch"] for line in lines] == list(range(SMALL["epochs"]))
    for line in lines:
        assert line.keys() >= {"phase", "epoch", "train", "valid", "selected"}
        assert line["train"].keys() == {"loss", "info", "total"}
        assert line["train"]["total"] == pytest.approx(
            line["train"]["loss"] + line["train"]["info"]
        )
        assert {"loss", "accuracy", "explanation_auc", "precision_at_5"} <= line["valid"].keys()
        assert "test" not in line
    assert lines[11]["selected"]
    (best,) = (line for line in lines if line["epoch"] == finished.result["best_epoch"])
    assert best["valid"] == finished.valid


def test_the_reported_numbers_are_those_of_the_returned_model(finished: gsat.Run) -> None:
    data = load_data(finished.recipe)
    for split, reported in (("valid", finished.valid), ("test", finished.test)):
        measured = evaluate(finished.model, data.split(split), batch_size=32)
        assert {k: reported[k] for k in measured} == measured


def test_the_run_directory_holds_what_the_design_lists(finished: gsat.Run) -> None:
    assert finished.path
    path = finished.path
    names = {file.name for file in path.iterdir() if not file.name.startswith(".")}
    assert names == {"recipe.toml", "metrics.jsonl", "ckpt", "best", "result.json",
                     "timing.json", "environment.json"}  # fmt: skip
    assert (path / "ckpt" / "LAST").read_text() == "epoch-14\n"
    assert json.loads((path / "timing.json").read_text())["epochs"] == 14
    recorded = json.loads((path / "environment.json").read_text())
    assert (recorded["threads"], recorded["ops"]) == (1, "numba")
    assert recorded["versions"]["torch"] == torch.__version__


def test_without_a_directory_the_same_is_trained_and_nothing_written(
    finished: gsat.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = gsat.train(small_recipe())
    assert run.path is None
    assert list(tmp_path.iterdir()) == []
    assert {**run.result, **NO_TIME} == {**finished.result, **NO_TIME}
    for name, tensor in finished.model.state_dict().items():
        assert torch.equal(tensor, run.model.state_dict()[name]), name


def test_networks_are_in_training_mode_in_steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    modes: dict[str, list[bool]] = {"step": [], "evaluate": []}

    def watch(name: str) -> None:
        real = getattr(GSATMethod, name)

        def spy(self: GSATMethod, *args: Any) -> Any:
            modes[name].append(self.model.training)
            return real(self, *args)

        monkeypatch.setattr(GSATMethod, name, spy)

    for name in modes:
        watch(name)
    gsat.train(small_recipe(epochs=2))
    assert all(modes["step"])
    assert modes["evaluate"]
    assert not any(modes["evaluate"])


@pytest.mark.parametrize(
    ("nodes", "parts", "batches"),
    [
        ([3, 3, 3, 3, 2], 1, [[0, 1], [2, 3], [4]]),
        ([3, 3, 3, 3, 1], 1, [[0, 1], [2, 3, 4]]),
        ([1, 0, 3, 3, 3, 3], 1, [[0, 1, 2, 3], [4, 5]]),
        ([1], 1, [[0]]),
        ([3, 3, 3, 3], 2, [[0, 1], [2, 3]]),
        ([3, 3, 3, 1], 2, [[0, 1, 2, 3]]),
    ],
)
def test_every_part_of_a_batch_has_two_nodes(
    nodes: list[int], parts: int, batches: list[list[int]]
) -> None:
    order = np.arange(len(nodes))
    cut = cut_into_batches(order, 2, np.array(nodes), lambda rows: np.array_split(rows, parts))
    assert [rows.tolist() for rows in cut] == batches


# -- what breaks it -------------------------------------------------------------------------------


def test_a_loss_that_is_not_a_number_stops_the_run(
    run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = GSATMethod.step

    def broken(self: GSATMethod, batch: Any, context: Any) -> dict[str, torch.Tensor]:
        parts = step(self, batch, context)
        return {**parts, "info": parts["info"] * float("nan")} if context.epoch == 3 else parts

    monkeypatch.setattr(GSATMethod, "step", broken)
    with pytest.raises(RunError, match=r"epoch 3: info = nan; lower the learning rate"):
        gsat.train(small_recipe(), run_path)
    assert len(epochs_logged(run_path)) == 3
    assert not (run_path / "result.json").exists()


@pytest.mark.parametrize("in_memory", [True, False])
def test_weights_that_explode_stop_the_run(in_memory: bool, run_path: Path) -> None:
    """The last step of an epoch may be the one that breaks: then validation shows it."""
    recipe = small_recipe(lr=1e30, batch_size=64)
    with pytest.raises(RunError, match="broke down in epoch 0"):
        gsat.train(recipe, None if in_memory else run_path)


def test_features_that_are_not_numbers_stop_the_run() -> None:
    data = load_data(small_recipe())
    x = data.store.arrays["x"].copy()
    x[:] = np.nan
    broken = dataclasses.replace(data, store=GraphStore({**data.store.arrays, "x": x}, {}))
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1))
    with pytest.raises(RunError, match="check the features for NaN"):
        gsat.fit(model, broken, epochs=2, batch_size=32)


# -- methods of several phases --------------------------------------------------------------------


def test_phases_follow_each_other(run_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, Toy.name, Toy)
    made: list[Toy] = []
    create = Toy.create.__func__  # type: ignore[attr-defined]

    def spy(cls: type[Toy], *args: Any) -> Toy:
        made.append(create(cls, *args))
        return made[0]

    monkeypatch.setattr(Toy, "create", classmethod(spy))
    run = gsat.train(small_recipe(method="toy", epochs=8), run_path)
    lines = epochs_logged(run_path)
    places = [(line["phase"], line["epoch"]) for line in lines]
    assert places == [("warm", e) for e in range(3)] + [("play", e) for e in range(5)]
    assert made[0].begun == ["warm", "play"]
    assert made[0].steps == 16
    assert lines[0]["train"].keys() == {"loss"}
    assert lines[3]["train"].keys() == {"loss", "gap"}
    # Epoch 3 is the first of its phase, which selects from its second.
    assert not any(line["selected"] for line in lines[:4])
    assert lines[4]["selected"]
    assert run.result["selected"] == "best"
    assert run.result["best_epoch"] >= 4


@pytest.mark.parametrize(
    ("accuracies", "best", "epochs"),
    [
        # Three warm epochs; the second phase has at least three of its own.
        ([0.9], 0, 6),
        ([0.3, 0.3, 0.3, 0.4], 3, 7),
        ([0.3, 0.3, 0.3, 0.4, 0.3, 0.3, 0.5, 0.5], 6, 10),
        ([0.3 + 0.01 * epoch for epoch in range(12)], 11, 12),
    ],
)
def test_a_phase_ends_when_no_epoch_is_better_for_long(
    accuracies: list[float], best: int, epochs: int, play: Any, run_path: Path
) -> None:
    validation = {epoch: (accuracy, 1.0) for epoch, accuracy in enumerate(accuracies)}
    played = play(12, validation, method="impatient")
    assert (played["best_epoch"], played["epochs"], len(played["lines"])) == (best, epochs, epochs)
    assert played["begun"] == [
        "warm", "end of warm after 2", "play", f"end of play after {epochs - 4}"
    ]  # fmt: skip
    # Killed after the last checkpoint and before the result was written: nothing is trained.
    (run_path / "result.json").unlink()
    again = gsat.resume(run_path).result
    assert epochs_logged(run_path) == played["lines"]
    assert all(again[key] == played[key] for key in ("best_epoch", "epochs", "valid", "test"))
