"""kill -9 at any moment, and Ctrl-C: what is left can be resumed, to the same bytes.

The runs are real processes. They are killed just before a file operation, with the file at hand
half-written, so that rare moments are covered, too.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gsat
from gsat.core.errors import RunError
from training_harness import (
    SMALL,
    Victim,
    differing,
    epochs_logged,
    left_over,
    outcome,
    small_recipe,
)

pytestmark = pytest.mark.medium

MOMENTS = {
    "the first line of the log": ("open", "metrics.jsonl", 1),
    "the first checkpoint": ("open", "epoch-1/.state.safetensors", 1),
    "the description of the first checkpoint": ("os.rename", "epoch-1/state.json", 1),
    "naming the first checkpoint": ("open", ".LAST", 1),
    "naming the second checkpoint": ("os.rename", "ckpt/LAST", 2),
    "removing an old checkpoint": ("shutil.rmtree", "epoch-3", 1),
    "the weights of the best epoch": ("open", "best/.model-", 1),
    "the description of the best epoch": ("open", "best/.model.json", 1),
    "between the best epoch and the log": ("open", "metrics.jsonl", 12),
    "between the log and the checkpoint": ("os.mkdir", "epoch-12", 1),
    "the last checkpoint": ("os.rename", "ckpt/LAST", 14),
    "the result": ("open", ".result.json", 1),
    "naming the result": ("os.rename", "result.json", 1),
}


def resume_and_compare(path: Path, uninterrupted: dict[str, bytes]) -> None:
    warnings: list[str] = []
    gsat.resume(path, warn=warnings.append)
    assert warnings == []  # a kill damages nothing
    assert differing(outcome(path), uninterrupted) == []
    assert left_over(path) == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_while_writing(
    moment: str, victim: Victim, run_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    assert victim.train(small_recipe(), run_path, kill=MOMENTS[moment])["killed"] == signal.SIGKILL
    resume_and_compare(run_path, uninterrupted)


def test_killed_at_random_moments(
    victim: Victim, tmp_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    whole = victim.train(small_recipe(), tmp_path / "whole")
    assert (whole["error"], whole["killed"]) == (None, None)
    assert differing(outcome(tmp_path / "whole"), uninterrupted) == []
    assert whole["operations"] > 150
    for operation in random.Random(5).sample(range(5, whole["operations"]), 5):
        path = tmp_path / str(operation)
        killed = victim.train(small_recipe(), path, kill_after=operation)["killed"]
        assert killed == signal.SIGKILL, operation
        resume_and_compare(path, uninterrupted)


@pytest.mark.parametrize("name", [".environment.json", ".recipe.toml"])
def test_killed_before_the_recipe_is_written(
    name: str, victim: Victim, run_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    """There is nothing to resume, and the same command works."""
    assert victim.train(small_recipe(), run_path, kill=("open", name, 1))["killed"]
    assert left_over(run_path) != []
    with pytest.raises(RunError, match="is not a run"):
        gsat.resume(run_path)
    gsat.train(small_recipe(), run_path)
    assert differing(outcome(run_path), uninterrupted) == []
    assert left_over(run_path) == []


# -- Ctrl-C ---------------------------------------------------------------------------------------


def test_one_interrupt_finishes_the_epoch_and_saves(
    victim: Victim, run_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    answer = victim.train(small_recipe(), run_path, interrupt=[5, 1], checkpoint_seconds=1e9)
    kind, message = answer["error"]
    assert kind == "Interrupted"
    assert message == f"stopped after epoch 6 of 14; resume with: gsat resume {run_path}"
    assert answer["handler"]
    assert [line["epoch"] for line in epochs_logged(run_path)] == list(range(6))
    assert (run_path / "ckpt" / "LAST").read_text() == "epoch-6\n"
    assert left_over(run_path) == []
    resume_and_compare(run_path, uninterrupted)


def test_an_interrupt_in_the_last_epoch_changes_nothing(
    victim: Victim, run_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    assert victim.train(small_recipe(), run_path, interrupt=[13, 1])["error"] is None
    assert differing(outcome(run_path), uninterrupted) == []


def test_a_second_interrupt_stops_at_once(
    victim: Victim, run_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    answer = victim.train(small_recipe(), run_path, interrupt=[5, 2])
    assert answer["error"][0] == "KeyboardInterrupt"
    assert answer["handler"]
    assert len(epochs_logged(run_path)) == 5
    resume_and_compare(run_path, uninterrupted)


def test_the_command_stops_on_a_signal_and_says_how_to_resume(
    run_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    # As `gsat train`, but with epochs slow enough to be interrupted.
    program = (
        "import sys, time, gsat.cli, gsat.launch.progress as p; "
        "p.Progress.advance = lambda *_: time.sleep(0.2); gsat.cli.main()"
    )
    settings = [part for key in SMALL for part in ("--set", f"{key}={SMALL[key]}")]
    command = [sys.executable, "-c", program, "train", "ba2motifs", "--out", str(run_path)]
    process = subprocess.Popen(
        [*command, *settings], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    log = run_path / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while process.poll() is None and not (log.exists() and log.read_text().count("\n") > 1):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130  # as a shell says of what Ctrl-C ended
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("gsat: stopped after epoch ")
    assert line.endswith(f"resume with: gsat resume {run_path}")
    assert 2 <= len(epochs_logged(run_path)) < 14
    resume_and_compare(run_path, uninterrupted)
