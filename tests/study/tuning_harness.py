"""A small tuning, with runs trained in this process; as a script, one to be killed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gsat
from gsat.launch.pool import PoolResult
from gsat.launch.progress import Progress
from gsat.study import tune as module
from gsat.study.tune import Tuned, tune
from gsat.training.recipe import Recipe

SMALL = {"graphs": 30, "epochs": 3, "hidden": 8, "layers": 1}
GRID = {"penalty": [0.1, 1.0, 10.0]}


def irm(folder: Path, **options: Any) -> Tuned:
    """Tune IRM on small graphs."""
    return tune("ba2motifs", "irm", **{"settings": SMALL, "out": folder / "runs", **options})


def train_here(started: Callable[[str], None]) -> Callable[..., PoolResult]:
    """A stand-in for ``train_each`` that trains in this process and resumes what was started."""

    def train_each(runs: Mapping[str, Recipe], folder: Path, **_: Any) -> PoolResult:
        results = {}
        for name, recipe in runs.items():
            started(name)
            if (folder / name / "recipe.toml").exists():
                run = gsat.resume(folder / name)
            else:
                run = gsat.train(recipe, folder / name, checkpoint_seconds=0)
            results[name] = run.result
        return PoolResult(results)

    return train_each


def wait_to_be_killed(folder: Path) -> None:
    """Tune, and wait for ever in the second epoch of the second run, with a file that says so."""
    epochs = 0

    def advance(self: Progress, status: str = "", steps: int = 1) -> None:
        nonlocal epochs
        epochs += 1
        if epochs == SMALL["epochs"] + 2:
            (folder / "waiting").touch()
            time.sleep(600)

    Progress.advance = advance  # type: ignore[method-assign]
    os.fsync = lambda handle: None
    module.train_each = train_here(lambda name: None)
    irm(folder, grid=GRID, record=folder / "tuning.jsonl")


if __name__ == "__main__":
    wait_to_be_killed(Path(sys.argv[1]))
