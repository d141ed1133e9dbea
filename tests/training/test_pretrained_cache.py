"""Backbones trained alone, shared by the runs that begin with them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import gsat
from gsat.core.errors import RunError
from gsat.methods.erm import ERMMethod
from gsat.training import checkpoint, pretrained_cache, run_directory
from gsat.training.many_runs import train_each
from gsat.training.pretrained_cache import PretrainedCache
from gsat.training.recipe import Recipe, load_data, make_recipe
from gsat.training.run_directory import RunDirectory
from gsat.training.train_method import make_method
from training_harness import (
    differing,
    epochs_logged,
    flip_byte,
    is_marked,
    mark,
    outcome,
    stopping,
)

EPOCHS = 4
SETTINGS: dict[str, Any] = {
    "graphs": 60, "epochs": EPOCHS, "batch_size": 32, "hidden": 8, "training.lr": 0.02
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "gsat-star": {"r_interval": 1},
    "gnnexplainer": {"iterations": 3},
    "pgexplainer": {"explain_epochs": 3},
    "graphmask": {"epochs_per_layer": 2},
}


def recipe(method: str, seed: int = 0, **settings: Any) -> Recipe:
    chosen = {**SETTINGS, **OWN[method], **settings}
    return make_recipe("ba2motifs", method=method, seed=seed, settings=chosen)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps of training a backbone alone there were, in a list of one."""
    made = [0]
    step = ERMMethod.step

    def count(self: ERMMethod, *args: Any) -> Any:
        made[0] += 1
        return step(self, *args)

    monkeypatch.setattr(ERMMethod, "step", count)
    return made


@pytest.mark.parametrize("first", ["gsat-star", "pgexplainer"])
def test_it_is_trained_once_and_nothing_else_changes(
    first: str, steps: list[int], tmp_path: Path
) -> None:
    """GSAT* keeps the last epoch, explainers the best; either leaves both to the others."""
    for method in (first, *(name for name in OWN if name != first)):
        gsat.train(
            recipe(method),
            tmp_path / "shared" / method,
            pretrained_cache=tmp_path / "pretrained_cache",
        )
    once = steps[0]
    for method in OWN:
        gsat.train(recipe(method), tmp_path / method)
        shared = tmp_path / "shared" / method
        assert differing(outcome(shared), outcome(tmp_path / method)) == []
    assert steps[0] - once == len(OWN) * once > 0


def test_the_best_epoch_and_the_last_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = ERMMethod.finish_epoch

    def second_is_best(self: ERMMethod, context: Any, valid: dict[str, Any]) -> None:
        valid["accuracy"] = 1.0 if context.epoch == 1 else 0.5
        finish(self, context, valid)

    monkeypatch.setattr(ERMMethod, "finish_epoch", second_is_best)
    for method, epoch in (("pgexplainer", 1), ("gsat-star", EPOCHS - 1), ("graphmask", 1)):
        run = gsat.train(
            recipe(method), tmp_path / method, pretrained_cache=tmp_path / "pretrained_cache"
        )
        assert run.result["pretrained"]["epoch"] == epoch
        alone = gsat.train(recipe(method))
        assert run.result["pretrained"] == alone.result["pretrained"]
        assert run.test == alone.test


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"training.lr": 0.01},
        {"hidden": 4},
        {"graphs": 50},
        {"batch_size": 16},
        {"data.split_seed": 5},
        {"data.data_seed": 3},
    ],
    ids=str,
)
def test_another_backbone_is_another(
    change: dict[str, Any], steps: list[int], tmp_path: Path
) -> None:
    gsat.train(
        recipe("pgexplainer"), tmp_path / "one", pretrained_cache=tmp_path / "pretrained_cache"
    )
    before = steps[0]
    gsat.train(
        recipe("graphmask", **change),
        tmp_path / "two",
        pretrained_cache=tmp_path / "pretrained_cache",
    )
    assert steps[0] > before


def test_everything_the_weights_depend_on_is_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    star = {"pretrain_epochs": EPOCHS, "pretrain_lr": 0.02}

    def place(**settings: Any) -> Path:
        made = recipe("gsat-star", **{**star, **settings})
        data = load_data(made)
        run = RunDirectory.create(tmp_path / uuid4().hex, made)
        method = make_method(made, data)
        monkeypatch.setattr(RunDirectory, "environment", pretrained_cache.environment())
        cache = PretrainedCache(tmp_path)
        entry = cache.entry(run, made, method, data.hash, results_version=2)
        assert entry is not None
        return entry.folder

    here = place()
    assert here == place(pretrain_ckpt="best") == place(r_final=0.6) == place(epochs=77)
    for change in ({"pretrain_epochs": 5}, {"pretrain_lr": 0.5}, {"pretrain_plateau": 3}):
        assert place(**change) != here
    known = run_directory.environment()
    for key in ("versions", "machine", "cpu", "threads", "ops"):
        monkeypatch.setattr(
            pretrained_cache, "environment", lambda key=key: {**known, key: "another"}
        )
        assert place() != here
    monkeypatch.undo()
    assert place() == here


def test_a_first_phase_begun_elsewhere_is_not_left_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With other kernels, say: half of its weights are theirs."""
    pretrained_cache, run = tmp_path / "pretrained_cache", tmp_path / "run"
    with stopping(3), pytest.raises(KeyboardInterrupt):
        gsat.train(
            recipe("pgexplainer"), run, checkpoint_seconds=0, pretrained_cache=pretrained_cache
        )
    begun = json.loads((run / "environment.json").read_text())
    (run / "environment.json").write_text(json.dumps({**begun, "ops": "others"}))
    gsat.resume(run, pretrained_cache=pretrained_cache)
    assert not pretrained_cache.exists()


def test_a_log_that_was_cut_is_not_left_to_others(tmp_path: Path) -> None:
    pretrained_cache, run = tmp_path / "pretrained_cache", tmp_path / "run"
    with stopping(3), pytest.raises(KeyboardInterrupt):
        gsat.train(
            recipe("pgexplainer"), run, checkpoint_seconds=0, pretrained_cache=pretrained_cache
        )
    (run / "metrics.jsonl").unlink()
    with pytest.raises(RunError, match=r"metrics\.jsonl has 0 of the 2 lines that the checkpoint"):
        gsat.resume(run, pretrained_cache=pretrained_cache)
    assert not pretrained_cache.exists()


def test_what_only_the_explainer_has_does_not_count(steps: list[int], tmp_path: Path) -> None:
    for number, rate in enumerate((0.1, 0.01)):
        gsat.train(
            recipe("pgexplainer", explain_lr=rate),
            tmp_path / str(number),
            pretrained_cache=tmp_path / "s",
        )
    assert steps[0] == EPOCHS * 2  # 48 graphs, 32 at a time


@pytest.mark.parametrize("again", [True, False], ids=["with the pretrained_cache", "without it"])
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_run_that_took_it_resumes_exactly(epochs: int, again: bool, tmp_path: Path) -> None:
    """Killed before its first checkpoint, or after."""
    pretrained_cache = tmp_path / "pretrained_cache"
    gsat.train(recipe("pgexplainer"), tmp_path / "other", pretrained_cache=pretrained_cache)
    with stopping(epochs), pytest.raises(KeyboardInterrupt):
        gsat.train(
            recipe("graphmask"),
            tmp_path / "run",
            checkpoint_seconds=0,
            pretrained_cache=pretrained_cache,
        )
    assert len(epochs_logged(tmp_path / "run")) == EPOCHS + epochs
    gsat.resume(tmp_path / "run", pretrained_cache=pretrained_cache if again else None)
    gsat.train(recipe("graphmask"), tmp_path / "whole")
    assert differing(outcome(tmp_path / "run"), outcome(tmp_path / "whole")) == []


def test_a_run_stopped_in_the_first_phase_leaves_it_whole(steps: list[int], tmp_path: Path) -> None:
    pretrained_cache = tmp_path / "pretrained_cache"
    with stopping(3), pytest.raises(KeyboardInterrupt):
        gsat.train(
            recipe("pgexplainer"),
            tmp_path / "run",
            checkpoint_seconds=0,
            pretrained_cache=pretrained_cache,
        )
    assert not pretrained_cache.exists()
    gsat.resume(tmp_path / "run", pretrained_cache=pretrained_cache)
    before = steps[0]
    gsat.train(recipe("graphmask"), tmp_path / "shared", pretrained_cache=pretrained_cache)
    assert steps[0] == before
    gsat.train(recipe("graphmask"), tmp_path / "alone")
    assert differing(outcome(tmp_path / "shared"), outcome(tmp_path / "alone")) == []


@pytest.mark.parametrize("name", ["state.safetensors", "best.safetensors", "state.json"])
def test_a_damaged_one_is_trained_again_and_mended(
    name: str, steps: list[int], tmp_path: Path
) -> None:
    pretrained_cache = tmp_path / "pretrained_cache"
    for method, trained in (("pgexplainer", 8), ("graphmask", 16), ("gnnexplainer", 16)):
        gsat.train(recipe(method), tmp_path / method, pretrained_cache=pretrained_cache)
        assert steps[0] == trained
        if method == "pgexplainer":
            (file,) = pretrained_cache.rglob(name)
            flip_byte(file)
    gsat.train(recipe("graphmask"), tmp_path / "alone")
    assert differing(outcome(tmp_path / "graphmask"), outcome(tmp_path / "alone")) == []


def test_the_time_it_took_counts(tmp_path: Path) -> None:
    """So that a method's cost does not depend on which one was the first."""
    pretrained_cache = tmp_path / "pretrained_cache"
    gsat.train(recipe("pgexplainer"), tmp_path / "one", pretrained_cache=pretrained_cache)
    (kept,) = pretrained_cache.glob("*/seed-0")
    state, _ = checkpoint.read(kept)
    checkpoint.write(kept, replace(state, values={**state.values, "seconds": 1000.0}))
    run = gsat.train(recipe("graphmask"), tmp_path / "two", pretrained_cache=pretrained_cache)
    assert 1000 < run.result["seconds"] < 1100


def test_without_a_run_directory_nothing_is_shared(steps: list[int], tmp_path: Path) -> None:
    gsat.train(recipe("pgexplainer"), pretrained_cache=tmp_path / "pretrained_cache")
    assert not (tmp_path / "pretrained_cache").exists()


def test_methods_that_begin_with_their_own_have_none(tmp_path: Path) -> None:
    small = make_recipe("ba2motifs", settings={**SETTINGS, "r_interval": 1})
    gsat.train(small, tmp_path / "run", pretrained_cache=tmp_path / "pretrained_cache")
    assert not (tmp_path / "pretrained_cache").exists()


def test_workers_share_it(tmp_path: Path) -> None:
    pretrained_cache = tmp_path / "pretrained_cache"
    train_each({"one": recipe("pgexplainer")}, tmp_path, pretrained_cache=pretrained_cache)
    mark(pretrained_cache)
    train_each({"two": recipe("graphmask")}, tmp_path, pretrained_cache=pretrained_cache)
    assert is_marked(tmp_path / "two")
