"""Small runs, their files, and a process in which they are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from gsat.launch.jobs import Backend, Job, Outcome, perform
from gsat.launch.progress import Progress
from gsat.training import checkpoint
from gsat.training.recipe import Recipe, make_recipe
from gsat.training.train import train_job

NO_TIME = {"seconds": 0.0, "cpu_seconds": 0.0}  # in place of what differs between equal runs
# Selectable are the epochs 11, 12 and 13: r settles in epoch 4, two steps an epoch.
SMALL: dict[str, Any] = {
    "graphs": 60,
    "epochs": 14,
    "batch_size": 32,
    "hidden": 8,
    "layers": 1,
    "r_interval": 1,
}


def small_recipe(seed: int = 0, method: str = "gsat", **settings: Any) -> Recipe:
    """A run of a third of a second."""
    chosen = {**SMALL, **settings}
    if method != "gsat":
        del chosen["r_interval"]
    return make_recipe("ba2motifs", method=method, seed=seed, settings=chosen)


@contextmanager
def stopping(epochs: int) -> Iterator[None]:
    """Interrupt training after this number of logged epochs, the last one unsaved."""
    left = [epochs]

    def advance(self: Progress, status: str = "", steps: int = 1) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Progress, "advance", advance)
        yield


def outcome(path: Path) -> dict[str, bytes]:
    """Files of a finished run that must not depend on interruptions."""
    last = path / "ckpt" / (path / "ckpt" / "LAST").read_text().strip()
    files = [path / "metrics.jsonl", *(path / "best").iterdir(), *last.iterdir()]
    found = {str(file.relative_to(path)): file.read_bytes() for file in files}
    result = json.loads((path / "result.json").read_text())
    assert result.pop("seconds") > 0
    assert result.pop("cpu_seconds", 1) > 0  # absent where an earlier version began the run
    return {**found, "result.json": json.dumps(result).encode()}


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Names of the files that differ between two runs."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def epochs_logged(path: Path) -> list[dict[str, Any]]:
    """The lines of ``metrics.jsonl``."""
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def left_over(path: Path) -> list[str]:
    """Files that were being written when a run was killed."""
    return sorted(str(file.relative_to(path)) for file in path.rglob("*.partial"))


def flip_byte(file: Path, where: float = 0.5) -> None:
    """Damage a file in one bit, at a fraction of its length."""
    content = bytearray(file.read_bytes())
    content[int(len(content) * where)] ^= 1
    file.write_bytes(content)


def mark(pretrained_cache: Path) -> None:
    """Mark the cached backbone: the loss of its first epoch becomes 42."""
    (kept,) = pretrained_cache.glob("*/seed-0")
    state, _ = checkpoint.read(kept)
    state.values["log"][0]["train"]["loss"] = 42.0
    checkpoint.write(kept, state)


def is_marked(run: Path) -> bool:
    """Whether a run began with the marked backbone."""
    return epochs_logged(run)[0]["train"]["loss"] == 42.0


def forget_recipe(path: Path) -> None:
    """Make a run one of an earlier version, which did not record its recipe's checksum."""
    file = path / "environment.json"
    known = json.loads(file.read_text())
    del known["recipe_check"]
    file.write_text(json.dumps(known))


def one_line(error: BaseException) -> str:
    """The message of an error, which must be one line that says something."""
    text = str(error)
    assert text.strip()
    assert "\n" not in text
    return text


class Victim:
    """A client of ``training_victim.py``, which forks a fresh child for every run."""

    def __enter__(self) -> Self:
        script = Path(__file__).with_name("training_victim.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(timeout=60)

    def train(self, recipe: Recipe, out: Path, **how: Any) -> dict[str, Any]:
        """Train in a child; the script describes requests and answers."""
        assert self.process.stdin
        assert self.process.stdout
        request = {"tables": recipe.tables(), "out": str(out), **how}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class InProcess(Backend):
    """Jobs one after the other in this process: a worker takes seconds to import everything."""

    tries: ClassVar[int] = 2
    mortal: ClassVar[list[int]] = []  # seeds in the middle of which a worker dies

    def __init__(self, workers: int) -> None:
        self.capacity = workers
        self.submitted: list[tuple[str, Job]] = []

    @property
    def running(self) -> int:
        return len(self.submitted)

    def submit(self, name: str, job: Job) -> None:
        self.submitted.append((name, job))

    def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
        name, job = self.submitted.pop(0)
        seed = job.payload["recipe"]["seed"]
        if seed in self.mortal:
            self.mortal.remove(seed)
            with stopping(9), suppress(KeyboardInterrupt):
                train_job(job.payload)
            return [(name, Outcome("died", "its process died (exit code -9)"))]
        return [(name, Outcome.from_json(perform(job.function, json.dumps(job.payload))))]

    def interrupt(self) -> None:
        self.submitted.clear()

    def end_jobs(self) -> None:
        self.submitted.clear()

    def close(self) -> None:
        pass
