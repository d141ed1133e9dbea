"""Snapshots of a run: which epochs are kept, exact resume, bounded disk; score stability."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import gsat
from gsat.core.errors import CheckpointError, GSATError
from gsat.methods import Phase
from gsat.tasks import Task
from gsat.training import checkpoint
from gsat.training.selection import Best, ScoreStability, Snapshots, more_stable, noise
from training_harness import (
    epochs_logged,
    forget_recipe,
    small_recipe,
    stopping,
)

KEPT = {"snapshots": 2}


def test_the_last_epochs_are_kept_and_explain_by_their_mean(run_path: Path) -> None:
    run = gsat.train(small_recipe(**KEPT), run_path)
    assert len(run.model.snapshots) == 2
    kept = checkpoint.read(run_path / "ckpt")[0].snapshots
    assert list(kept) == [12, 13]  # of 14 epochs
    graphs = run.graphs()
    scores = []
    for state in kept.values():
        run.model.take_snapshots([])
        run.model.load_state_dict(state)
        scores.append(run.model.score_edges(graphs)[1])
    opened = gsat.open_run(run_path)
    expected = torch.stack(scores).mean(dim=0)
    torch.testing.assert_close(opened.model.score_edges(graphs)[1], expected)
    for split in ("valid", "test"):
        known = opened.evaluate(split=split)
        assert known == pytest.approx({name: run.result[split][name] for name in known})


def test_predictions_are_those_of_the_best_epoch(run_path: Path, tmp_path: Path) -> None:
    plain, kept = gsat.train(small_recipe()), gsat.train(small_recipe(**KEPT), run_path)
    assert kept.result["best_epoch"] == plain.result["best_epoch"]
    assert torch.equal(kept.predict().logits, plain.predict().logits)
    scores = [run.model.score_edges(run.graphs())[1] for run in (kept, plain)]
    assert not torch.equal(*scores)


def test_disk_is_bounded(run_path: Path) -> None:
    gsat.train(small_recipe(**KEPT, epochs=24), run_path, checkpoint_seconds=0)
    files = list(run_path.rglob("snapshots.safetensors"))
    assert len(files) == 2  # of the last checkpoint and the one before
    assert len(list((run_path / "best").glob("*.safetensors"))) == 1


def test_a_run_too_short_to_select_has_no_snapshots(run_path: Path) -> None:
    run = gsat.train(small_recipe(**KEPT, epochs=3), run_path)
    assert run.model.snapshots is None
    assert gsat.open_run(run_path).evaluate()["loss"] > 0


def test_methods_without_snapshots_refuse_them() -> None:
    with pytest.raises(GSATError, match=r"training\.snapshots is for models of GSAT"):
        gsat.train(small_recipe(method="erm", **KEPT))


def test_a_checkpoint_with_foreign_snapshots_is_refused(run_path: Path) -> None:
    recipe = small_recipe(**KEPT)
    with stopping(13), pytest.raises(KeyboardInterrupt):
        gsat.train(recipe, run_path, checkpoint_seconds=0)
    state, _ = checkpoint.read(run_path / "ckpt")
    state.snapshots = {1: {"extractor.last.weight": torch.zeros(3)}}
    checkpoint.write(run_path / "ckpt", state)
    with pytest.raises(GSATError, match="does not fit this model"):
        gsat.resume(run_path)


def test_snapshots_are_named_by_their_epochs(tmp_path: Path) -> None:
    weights = {"w": torch.zeros(1)}

    def saved(name: Any) -> dict[int, dict[str, torch.Tensor]]:
        state = checkpoint.State(1, weights, best=weights, snapshots={name: weights})
        checkpoint.write(tmp_path, state)
        return checkpoint.read(tmp_path)[0].snapshots

    for epoch in (7, 10**10 - 1):
        assert saved(epoch) == {epoch: weights}
    for name in ("x", "9" * 11):
        with pytest.raises(CheckpointError, match=name):
            saved(name)


def test_no_more_are_restored_than_are_kept() -> None:
    class Kept:
        training = small_recipe(**KEPT).training
        model = gsat.train(small_recipe(epochs=1)).model
        title = "GSAT"

        def phases(self) -> tuple[Phase, ...]:
            return ()

    state = Kept.model.state_dict()
    with pytest.raises(GSATError, match="3 snapshots, and the recipe keeps 2"):
        Snapshots(Kept()).restore(dict.fromkeys(range(3), state), Kept.model)


# -- score stability ---------------------------------------------------------------------------


def test_score_stability_is_the_rank_correlation_with_the_epoch_before() -> None:
    rng, stability = np.random.default_rng(0), ScoreStability()
    first, second = rng.random(50), rng.random(50).round(1)
    stability.see(first)
    assert stability.value is None
    stability.see(second)
    assert stability.value == pytest.approx(stats.spearmanr(first, second).statistic)
    stability.see(np.zeros(50))
    assert stability.value is None  # equal scores have no order


def test_every_epoch_is_logged_with_it(run_path: Path) -> None:
    gsat.train(small_recipe(), run_path)
    values = [line["score_stability"] for line in epochs_logged(run_path)]
    assert values[0] is None
    assert all(-1 <= value <= 1 for value in values[2:])  # at first, all scores are equal


def test_runs_with_its_former_name_are_read_and_resumed(run_path: Path) -> None:
    recipe = small_recipe(selection="stable")
    with stopping(13), pytest.raises(KeyboardInterrupt):
        gsat.train(recipe, run_path, checkpoint_seconds=0.0)
    expected = [line["score_stability"] for line in epochs_logged(run_path)]
    for name in ("metrics.jsonl", "recipe.toml"):
        text = (run_path / name).read_text().replace("score_stability", "settledness")
        (run_path / name).write_text(text.replace('"stable"', '"settledness"'))
    forget_recipe(run_path)
    state, _ = checkpoint.read(run_path / "ckpt")
    best = state.values["best"]
    del best["score_stability"]
    best["settledness"] = 1.0  # no later epoch can be more stable
    checkpoint.write(run_path / "ckpt", state)
    assert [line["score_stability"] for line in gsat.open_run(run_path).log] == expected
    assert gsat.resume(run_path).result["best_epoch"] == best["epoch"]


def best(metric: float, stability: float | None, epoch: int = 0) -> Best:
    return Best(epoch, {"accuracy": metric, "loss": 1.0}, stability)


def test_the_most_stable_epoch_within_noise_is_chosen() -> None:
    task, chosen, taken = Task("binary"), None, []
    epochs = [(0.90, 0.9), (0.97, 0.1), (0.98, 0.5), (0.97, 0.8), (0.80, 1.0), (0.97, 0.7)]
    for number, (metric, stability) in enumerate(epochs):
        chosen, new = more_stable(task, best(metric, stability, number), chosen, 100)
        taken.append(new)
    # 0.90 is out of the noise of 0.97 (0.02), 0.97 is within that of 0.98.
    assert taken == [True, True, True, True, False, False]
    assert chosen is not None
    assert (chosen.epoch, chosen.top) == (3, 0.98)
    undefined = Best(6, {"accuracy": None, "loss": 1.0}, 1.0)
    assert more_stable(task, undefined, chosen, 100) == (chosen, False)


def test_of_equal_metrics_without_noise_the_more_stable_is_chosen() -> None:
    task = Task("regression", 1, metric="r2")
    first, less, more = (Best(0, {"r2": 0.5, "loss": 1.0}, value) for value in (0.5, 0.4, 0.6))
    chosen, _ = more_stable(task, first, None, 100)
    assert more_stable(task, less, chosen, 100) == (first, False)
    assert more_stable(task, more, chosen, 100) == (more, True)


def test_a_metric_that_is_not_a_share_has_no_noise() -> None:
    assert noise(Task("regression", 1, metric="r2"), 0.9, 100) == 0
    assert 0 < noise(Task("binary"), 1.0, 100) < 0.02
    correct = [1] * (90 + 2) + [0] * (10 + 2)  # 90 of 100, and two more of each
    expected = np.std(correct) / np.sqrt(len(correct))
    assert noise(Task("binary"), 0.9, 100) == pytest.approx(expected)


def test_the_chosen_epoch_is_within_noise_of_the_best(run_path: Path) -> None:
    run = gsat.train(small_recipe(selection="stable", epochs=30), run_path)
    lines = epochs_logged(run_path)[11:]
    error = noise(run.model.task, max(line["valid"]["accuracy"] for line in lines), 6)
    top = max(line["valid"]["accuracy"] for line in lines)
    best_epoch = lines[run.result["best_epoch"] - 11]
    assert best_epoch["valid"]["accuracy"] >= top - error
    assert json.loads((run_path / "result.json").read_text())["valid"] == best_epoch["valid"]


def test_spread_snapshots_cover_all_selectable_epochs(run_path: Path) -> None:
    run = gsat.train(small_recipe(snapshots=3, snapshot_epochs="spread", epochs=20), run_path)
    assert list(checkpoint.read(run_path / "ckpt")[0].snapshots) == [13, 16, 19]  # from 11 on
    assert len(run.model.snapshots) == 3


def test_predictions_do_not_run_the_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    run = gsat.train(small_recipe(**KEPT))
    expected = run.predict().logits
    monkeypatch.setattr(gsat.GSAT, "_refine", None)
    assert torch.equal(run.predict().logits, expected)
