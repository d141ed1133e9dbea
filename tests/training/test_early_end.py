"""A phase ends early when no epoch is better for long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gsat
import gsat.training.loop
from gsat.methods import METHODS, Phase
from training_harness import epochs_logged, small_recipe
from training_toy import Toy


class Impatient(Toy):
    """Its second phase ends after three epochs without a better one."""

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
def made_up(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``made_up(accuracies)``: validation says these, epoch by epoch, then 0."""
    monkeypatch.setitem(METHODS, Impatient.name, Impatient)

    valid = gsat.load_dataset("ba2motifs", graphs=60).splits["valid"]

    def make(accuracies: list[float]) -> None:
        def evaluate(store: Any, *_: Any, **__: Any) -> dict[str, Any]:
            if not np.array_equal(store.index, valid):
                return {"loss": 1.0, "accuracy": 0.0}
            return {"loss": 1.0, "accuracy": left.pop(0) if left else 0.0}

        left = list(accuracies)
        monkeypatch.setattr(gsat.training.loop, "measure", evaluate)

    return make


@pytest.mark.parametrize(
    ("accuracies", "best", "epochs"),
    [
        # Three warm epochs; the second phase has at least three of its own.
        ([0.9], 0, 6),
        ([0.1, 0.1, 0.1, 0.2], 3, 7),
        ([0.1, 0.1, 0.1, 0.2, 0.1, 0.1, 0.3, 0.3], 6, 10),
        ([0.01 * epoch for epoch in range(12)], 11, 12),
    ],
)
def test_a_phase_ends_when_patience_does(
    accuracies: list[float], best: int, epochs: int, made_up: Any, tmp_path: Path
) -> None:
    made_up(accuracies)
    recipe = small_recipe(method="impatient", epochs=12)
    run = gsat.train(recipe, tmp_path / "run")
    assert (run.result["best_epoch"], run.result["epochs"]) == (best, epochs)
    assert len(epochs_logged(tmp_path / "run")) == epochs
    assert run.result["begun"] == [
        "warm", "end of warm after 2", "play", f"end of play after {epochs - 4}"
    ]  # fmt: skip


def test_an_early_end_outlives_a_crash(made_up: Any, tmp_path: Path) -> None:
    """Killed after the last checkpoint and before the result was written: nothing is trained."""
    made_up([0.9])
    path = tmp_path / "run"
    run = gsat.train(small_recipe(method="impatient", epochs=12), path)
    (path / "result.json").unlink()
    logged = (path / "metrics.jsonl").read_bytes()
    again = gsat.resume(path)
    assert (path / "metrics.jsonl").read_bytes() == logged
    same = ("best_epoch", "epochs", "valid", "test")
    assert {k: again.result[k] for k in same} == {k: run.result[k] for k in same}
