"""Faults during saving: every operation on a file fails once, or is the last one.

All changes of files go through :mod:`gsat.core.system`. Its functions are replaced by ones that
count, and fail at a chosen operation: with a system error, with half of the content written, or
like a killed process, after which the disk does not change any more. Then the run is resumed
without faults and compared, byte by byte, with an uninterrupted run.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gsat
from gsat.core import system
from gsat.core.errors import GSATError, RecipeError
from gsat.core.registry import METHODS
from gsat.training.recipe import Recipe

OPERATIONS = (
    "create", "open_to_append", "open_to_lock", "write", "sync", "rename", "make_folder",
    "make_folders", "remove", "remove_tree",
)  # fmt: skip
KINDS = ("ENOSPC", "EIO", "EACCES", "cut off", "kill")
SETTINGS: dict[str, dict[str, Any]] = {  # for the shortest training
    "gsat": {"r_interval": 1},
    "gsat-star": {"pretrain_epochs": 1},
    "gnnexplainer": {"pretrain_epochs": 1, "iterations": 1},
    "pgexplainer": {"pretrain_epochs": 1, "explain_epochs": 1},
    "graphmask": {"pretrain_epochs": 1, "epochs_per_layer": 1},
}


class Killed(BaseException):
    """The process is killed here."""


class Faults:
    """Counts operations, and fails at operation ``at``, counted from 1; never at 0."""

    def __init__(self, at: int = 0, kind: str = "EIO") -> None:
        self.at, self.kind = at, kind
        self.count, self.dead, self.failed = 0, False, ""

    def wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """Replace a function of the layer."""

        def operation(*args: Any, **how: Any) -> Any:
            if self.dead:
                raise Killed
            self.count += 1
            if self.count != self.at:
                return real(*args, **how)
            self.failed = name
            if name == "write" and self.kind in ("cut off", "kill"):
                handle, content = args
                real(handle, memoryview(content).cast("B")[: len(content) // 2])
            if self.kind == "kill":
                self.dead = True
                raise Killed
            number = getattr(errno, self.kind, errno.EIO)
            raise OSError(number, os.strerror(number))

        return operation


@contextmanager
def injected(faults: Faults) -> Iterator[None]:
    """Inject faults while the block runs."""
    real = {name: getattr(system, name) for name in OPERATIONS}
    for name, function in real.items():
        setattr(system, name, faults.wrap(name, function))
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(system, name, function)


def tiny_recipe(method: str) -> Recipe:
    """A run of a few tenths of a second."""
    settings = {"graphs": 20, "epochs": 2, "batch_size": 16, "hidden": 4, "layers": 1}
    names = {info.name for info in _settings_of(method)}
    more = {key: value for key, value in SETTINGS.get(method, {}).items() if key in names}
    return gsat.make_recipe("ba2motifs", method=method, settings={**settings, **more})


def _settings_of(method: str) -> list[Any]:
    from gsat.core.settings import describe

    return describe(METHODS[method].Settings)


def trial(recipe: Recipe, out: Path, faults: Faults, whole: dict[str, bytes]) -> str:
    """Train with a fault, then without, and compare with the files of an uninterrupted run.

    Returns ``"resumed"``, ``"refused"`` (with a message of one line), or the problem.
    """
    try:
        with injected(faults):
            gsat.train(recipe, out, checkpoint_seconds=0)
    except Killed:
        pass
    except GSATError as error:
        if not _one_line(error):
            return f"message: {str(error)[:200]!r}"
    except Exception as error:
        return f"{faults.kind} in {faults.failed}: {type(error).__name__}: {error}"
    try:
        if (out / "recipe.toml").exists():
            gsat.resume(out, checkpoint_seconds=0)
        else:
            gsat.train(recipe, out, checkpoint_seconds=0)
    except GSATError as error:
        return "refused" if _one_line(error) else f"message: {str(error)[:200]!r}"
    except Exception as error:
        return f"then: {type(error).__name__}: {error}"
    files = outcome(out)
    wrong = sorted(
        name for name in files.keys() | whole.keys() if files.get(name) != whole.get(name)
    )
    left = [file.name for file in out.rglob(".*.partial")]
    return f"differs: {wrong + left}" if wrong or left else "resumed"


def outcome(path: Path) -> dict[str, bytes]:
    """Read the files of a finished run that must not depend on interruptions."""
    last = path / "ckpt" / (path / "ckpt" / "LAST").read_text().strip()
    files = [path / "metrics.jsonl", *(path / "best").iterdir(), *last.iterdir()]
    contents = {str(file.relative_to(path)): file.read_bytes() for file in files}
    result = json.loads((path / "result.json").read_text())
    del result["seconds"], result["cpu_seconds"]
    return {**contents, "result.json": json.dumps(result).encode()}


def run_trials(folder: Path, trials: int, methods: list[str] | None = None) -> dict[str, Any]:
    """Run trials over methods (by default all), kinds of faults and operations."""
    methods = methods or sorted(METHODS.names())
    counts = dict.fromkeys(("resumed", "refused"), 0)
    findings: list[str] = []
    done = dict.fromkeys(KINDS, 0)
    operations: dict[str, int] = {}
    share = -(-trials // len(methods))
    for method in methods:
        recipe = tiny_recipe(method)
        counting = Faults()
        whole = folder / f"{method}-whole"
        try:
            with injected(counting):
                gsat.train(recipe, whole, checkpoint_seconds=0)
        except RecipeError:  # the method starts from another run
            continue
        operations[method] = counting.count
        expected = outcome(whole)
        chosen = [(at, kind) for at in range(1, counting.count + 1) for kind in KINDS]
        random.Random(f"{method} 0").shuffle(chosen)
        for at, kind in chosen[:share]:
            out = folder / f"{method}-{at}-{kind.replace(' ', '-')}"
            result = trial(recipe, out, Faults(at, kind), expected)
            shutil.rmtree(out, ignore_errors=True)
            done[kind] += 1
            if result in counts:
                counts[result] += 1
            else:
                findings.append(f"{method}, operation {at}, {kind}: {result}"[:400])
    return {
        "trials": sum(done.values()),
        "methods": list(operations),
        "operations_of_a_run": operations,
        "by_kind": done,
        **counts,
        "findings": findings,
    }


def _one_line(error: GSATError) -> bool:
    return 0 < len(str(error)) <= 300 and str(error).isprintable()
