"""A small tuning; as a script, one to be killed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from gsat.launch.progress import Progress
from gsat.study import tune as module
from gsat.study.tune import Tuned, tune
from study_harness import train_here

SMALL = {"graphs": 30, "epochs": 3, "hidden": 8, "layers": 1}
GRID = {"penalty": [0.1, 1.0, 10.0]}


def irm(folder: Path, **options: Any) -> Tuned:
    """Tune IRM on small graphs."""
    return tune("ba2motifs", "irm", **{"settings": SMALL, "out": folder / "runs", **options})


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
    module.train_each = train_here([])
    irm(folder, grid=GRID, record=folder / "tuning.jsonl")


if __name__ == "__main__":
    wait_to_be_killed(Path(sys.argv[1]))
