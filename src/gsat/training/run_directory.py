"""A run is a directory: recipe, log, checkpoints, the best model and the result."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from llvmlite.binding import get_host_cpu_name
from torch.backends.cpu import get_cpu_capability

from gsat.errors import BusyError, RunError, TakenError
from gsat.io.files import disk_errors, write_durably, write_json
from gsat.models.saved import BEST, model_folder, read_model, write_model
from gsat.ops import engine
from gsat.training.checkpoint import Tensors
from gsat.training.process_group import ProcessGroup
from gsat.training.recipe import Recipe, read_recipe


class RunDirectory:
    """The files of one run.

    Attributes:
        path: the directory. checkpoints: ``ckpt`` in it.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "ckpt"

    @classmethod
    def create(cls, path: str | Path, recipe: Recipe) -> RunDirectory:
        """A new run; a folder that already holds something is refused."""
        run = cls(path)
        run._check_free()
        with disk_errors(run.path):
            run.path.mkdir(parents=True, exist_ok=True)
        with run.locked():  # another process may be here for the same
            run._check_free()
            run.clear_partial_files()
            write_json(run.path / "environment.json", environment())
            # Last: with it the folder is a run, which can be resumed.
            write_durably(run.path / "recipe.toml", recipe.toml().encode())
        return run

    def _check_free(self) -> None:
        if not self.path.exists() or (self.path.is_dir() and self.is_empty()):
            return
        if self.is_run():
            advice = "it is finished" if self.result_path.exists() else (
                f"go on with it by: gsat resume {self.path}"
            )  # fmt: skip
            raise TakenError(f"{self.path} holds another run ({advice}); choose another --out")
        raise RunError(f"{self.path} exists and is not an empty folder; choose another --out")

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """An existing run."""
        run = cls(path)
        if not run.is_run():
            raise RunError(f"{path} is not a run: there is no recipe.toml in it")
        return run

    def is_run(self) -> bool:
        """Whether the directory holds a run."""
        return (self.path / "recipe.toml").is_file()

    def is_empty(self) -> bool:
        """Whether nothing is in it but what a run killed at its very start leaves."""
        names = {file.name for file in self.path.iterdir() if file.suffix != ".partial"}
        return names <= {"environment.json", ".lock"}

    def clear_partial_files(self) -> None:
        """Remove what a killed process was writing."""
        for file in self.path.rglob(".*.partial"):
            file.unlink(missing_ok=True)

    @property
    def result_path(self) -> Path:
        """``result.json``; there only when the run is finished."""
        return self.path / "result.json"

    @property
    def recipe(self) -> Recipe:
        """The recipe it was started with."""
        return read_recipe(self.path / "recipe.toml")

    @property
    def result(self) -> dict[str, Any]:
        """What ``result.json`` holds."""
        if not self.result_path.is_file():
            raise RunError(
                f"{self.path} is not finished; go on with it by: gsat resume {self.path}"
            )
        return self._read_json("result.json")

    @property
    def environment(self) -> dict[str, Any]:
        """What the run was started in."""
        return self._read_json("environment.json")

    def _read_json(self, name: str) -> dict[str, Any]:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path}/{name} can't be read ({error})") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this directory."""
        with disk_errors(self.path), (self.path / ".lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BusyError(f"another process is training in {self.path} right now") from None
            yield

    def await_lock(self, seconds: float) -> None:
        """Wait, but not for ever, while another process trains in this directory: the worker of a
        command that was killed, or of a node given up for dead, may take some time to end."""
        until = time.monotonic() + seconds
        while True:
            try:
                with self.locked():
                    return
            except BusyError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.2)

    # -- the log --------------------------------------------------------------------------------

    def log(self, line: dict[str, Any]) -> None:
        """Append one epoch to ``metrics.jsonl``."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(line, allow_nan=False) + "\n")

    def read_log(self) -> list[dict[str, Any]]:
        """The epochs in ``metrics.jsonl``."""
        path = self.path / "metrics.jsonl"
        try:
            text = path.read_text(encoding="utf-8")
            return [json.loads(line) for line in text.split("\n") if line]
        except (OSError, ValueError) as error:
            raise RunError(
                f"{path} can't be read ({error}); the run has to be made again: remove {self.path}"
            ) from error

    def sync_log(self) -> None:
        """Make the log durable; a checkpoint must not outlive the lines that lead to it."""
        path = self.path / "metrics.jsonl"
        if path.is_file():
            with path.open("rb") as handle:
                os.fsync(handle.fileno())

    def cut_log(self, epochs: int) -> None:
        """Keep the first ``epochs`` lines: what came later is trained again."""
        path = self.path / "metrics.jsonl"
        lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
        write_durably(path, b"".join(lines[:epochs]))

    # -- the best model -------------------------------------------------------------------------

    def write_best(self, weights: Tensors, config: dict[str, Any], epoch: int) -> None:
        """Replace ``best/``: the weights first, then the description that names them."""
        write_model(self.path / BEST, weights, config, epoch)

    def read_best(self) -> tuple[Tensors, dict[str, Any]]:
        """The weights of the best epoch and the model's description."""
        return read_model(model_folder(self.path))

    def clear_best(self) -> None:
        """Forget the best model (a resumed run may stand before its first)."""
        shutil.rmtree(self.path / BEST, ignore_errors=True)

    # -- time -----------------------------------------------------------------------------------

    def read_seconds(self) -> float:
        """Seconds spent so far, over all sessions of this run."""
        path = self.path / "timing.json"
        try:
            return float(json.loads(path.read_text(encoding="utf-8"))["seconds"])
        except (OSError, ValueError, KeyError):
            return 0.0

    def write_seconds(self, seconds: float, epochs: int) -> None:
        """Record the time spent; kept apart, for it differs between equal runs."""
        write_json(self.path / "timing.json", {"seconds": round(seconds, 3), "epochs": epochs})


def run_name(recipe: Recipe, data_hash: str, version: int) -> str:
    """A folder's name that says what identifies a run: another recipe, other graphs, other
    numerics, another seed is another run."""
    what = f"{recipe.data.label}-{recipe.backbone.name}-{recipe.method}"
    return f"{what}-{recipe.hash()}-{data_hash}-{version}/seed-{recipe.seed}"


def environment() -> dict[str, Any]:
    """What the numbers may depend on besides the recipe."""
    packages = ("torch-gsat", "torch", "torch-geometric", "numba", "numpy")
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "unknown"
    return {
        "versions": versions,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": f"{get_host_cpu_name()} {get_cpu_capability()}",
        "system": platform.system(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "ops": engine(),
        **({"processes": processes} if (processes := ProcessGroup().size) > 1 else {}),
    }
