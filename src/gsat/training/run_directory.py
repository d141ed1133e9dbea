"""A run is a directory: recipe, log, checkpoints, the best model and the result."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from llvmlite.binding import get_host_cpu_name
from torch.backends.cpu import get_cpu_capability

from gsat.errors import RunError, RunExistsError
from gsat.io import atomic, locks
from gsat.io.disk import disk_errors
from gsat.models.saved import BEST, write_model
from gsat.ops import engine
from gsat.training.checkpoint import Tensors
from gsat.training.process_group import ProcessGroup
from gsat.training.recipe import Recipe, read_recipe
from gsat.training.results import results_version
from gsat.training.run_files import check_run, run_label


class RunDirectory:
    """The files of one run.

    Args:
        path: The directory; it need not exist.

    Attributes:
        path: The directory.
        checkpoints: ``ckpt`` in it, the folder of :mod:`gsat.training.checkpoint`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "ckpt"

    @classmethod
    def create(cls, path: str | Path, recipe: Recipe) -> RunDirectory:
        """Create the directory of a new run.

        Args:
            path: A folder that does not exist, is empty or holds what a run killed at its very
                start leaves; missing parents are created.
            recipe: Written to ``recipe.toml``.

        Raises:
            RunExistsError: If there is a run already.
            RunError: If there is something else.
            BusyError: If another process is creating a run there.
            DiskError: If nothing can be written there.
        """
        run = cls(path)
        run._check_free()
        with disk_errors(run.path):
            run.path.mkdir(parents=True, exist_ok=True)
        with run.locked():  # another process may be creating the same run
            run._check_free()
            run.clear_partial_files()
            atomic.write_json(run.path / "environment.json", environment())
            # Last: with it the folder is a run, which can be resumed.
            atomic.write_text(run.path / "recipe.toml", recipe.toml())
        return run

    def _check_free(self) -> None:
        if not self.path.exists() or (self.path.is_dir() and self.is_empty()):
            return
        if self.is_run():
            state = "it is finished" if self.result_path.exists() else (
                f"resume it with: gsat resume {self.path}"
            )  # fmt: skip
            raise RunExistsError(
                f"{self.path} already holds a run ({state}); choose another folder"
            )
        raise RunError(f"{self.path} exists and is not an empty folder; choose another folder")

    @classmethod
    def open(cls, path: str | Path) -> RunDirectory:
        """Open an existing run.

        Args:
            path: The directory.

        Raises:
            RunError: If there is no run in it.
        """
        return cls(check_run(path))

    def is_run(self) -> bool:
        """Whether the directory holds a run, finished or not."""
        return (self.path / "recipe.toml").is_file()

    def is_empty(self) -> bool:
        """Whether it holds nothing, or only what a run killed at its very start leaves."""
        names = {file.name for file in self.path.iterdir() if not atomic.is_partial(file)}
        return names <= {"environment.json", ".lock"}

    def clear_partial_files(self) -> None:
        """Remove what a killed process was writing; the directory must be locked."""
        atomic.clear_partial_files(self.path)

    @property
    def result_path(self) -> Path:
        """The path of ``result.json``, which exists once the run is finished."""
        return self.path / "result.json"

    @property
    def recipe(self) -> Recipe:
        """The recipe that the run was started with."""
        return read_recipe(self.path / "recipe.toml")

    @property
    def result(self) -> dict[str, Any]:
        """The content of ``result.json``.

        Raises:
            RunError: If the run is not finished, or the file is damaged.
        """
        if not self.result_path.is_file():
            raise RunError(f"{self.path} is not finished; resume it with: gsat resume {self.path}")
        return self._read_json("result.json")

    @property
    def environment(self) -> dict[str, Any]:
        """The :func:`environment` that the run was started in."""
        return self._read_json("environment.json")

    def _read_json(self, name: str) -> dict[str, Any]:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunError(f"{self.path}/{name} can't be read ({error})") from error

    # -- the lock -------------------------------------------------------------------------------

    @contextmanager
    def locked(self, wait: float = 0.0) -> Iterator[None]:
        """Keep other processes from training in this directory while the block runs.

        The lock ends with the process that holds it, even if it is killed.

        Args:
            wait: Seconds to wait while another process trains there. (default: 0)

        Raises:
            BusyError: If another process still trains there.
            DiskError: If the block, or the lock itself, could not write.
        """
        busy = f"another process is training in {self.path} right now"
        with disk_errors(self.path), locks.locked(self.path / ".lock", wait, busy=busy):
            yield

    def await_lock(self, seconds: float) -> None:
        """Wait until no other process trains in this directory.

        The worker of a command that was killed, or of a node given up for dead, may take some time
        to end.

        Args:
            seconds: How long to wait at most.

        Raises:
            BusyError: If the other process still trains there.
        """
        with self.locked(wait=seconds):
            pass

    # -- the log --------------------------------------------------------------------------------

    def log(self, line: dict[str, Any]) -> None:
        """Append one epoch to ``metrics.jsonl``.

        Args:
            line: Plain values; NaN and infinity are refused.
        """
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(line, allow_nan=False) + "\n")

    def read_log(self) -> list[dict[str, Any]]:
        """Read ``metrics.jsonl``: one entry per epoch.

        Raises:
            RunError: If the file is missing or damaged.
        """
        path = self.path / "metrics.jsonl"
        try:
            text = path.read_text(encoding="utf-8")
            return [json.loads(line) for line in text.split("\n") if line]
        except (OSError, ValueError) as error:
            raise RunError(
                f"{path} can't be read ({error}); remove {self.path} and train the run again"
            ) from error

    def sync_log(self) -> None:
        """Wait until the log is on disk: a checkpoint must not outlive the lines before it."""
        path = self.path / "metrics.jsonl"
        if path.is_file():
            with path.open("rb") as handle:
                os.fsync(handle.fileno())

    def cut_log(self, epochs: int) -> None:
        """Keep the first lines of the log; later epochs will be trained again.

        Args:
            epochs: How many lines to keep.
        """
        path = self.path / "metrics.jsonl"
        lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else []
        atomic.write_bytes(path, b"".join(lines[:epochs]))

    # -- the best model -------------------------------------------------------------------------

    def write_best(self, weights: Tensors, config: dict[str, Any], epoch: int) -> None:
        """Replace ``best/``: the weights first, then the description that names them."""
        write_model(self.path / BEST, weights, config, epoch)

    def clear_best(self) -> None:
        """Remove the best model; a run that is resumed from an early epoch may have none yet."""
        shutil.rmtree(self.path / BEST, ignore_errors=True)

    # -- time -----------------------------------------------------------------------------------

    def read_seconds(self) -> float:
        """Seconds spent on the run so far, in all processes that worked on it."""
        path = self.path / "timing.json"
        try:
            return float(json.loads(path.read_text(encoding="utf-8"))["seconds"])
        except (OSError, ValueError, KeyError):
            return 0.0

    def write_seconds(self, seconds: float, epochs: int) -> None:
        """Record the time spent, in a file of its own: it differs between equal runs.

        Args:
            seconds: So far.
            epochs: Epochs done in that time.
        """
        spent = {"seconds": round(seconds, 3), "epochs": epochs}
        atomic.write_json(self.path / "timing.json", spent)


def run_name(recipe: Recipe, data_hash: str) -> str:
    """The folder of a run, named after what identifies it.

    Args:
        recipe: The run's recipe, with its seed.
        data_hash: The hash of its data set.

    Returns:
        A relative path, ``DATA-BACKBONE-METHOD-RECIPE-DATA-VERSION/seed-SEED``.
    """
    version = results_version(recipe.backbone.name)
    return f"{run_label(recipe)}-{recipe.hash()}-{data_hash}-{version}/seed-{recipe.seed}"


def environment() -> dict[str, Any]:
    """What a run's numbers may depend on besides the recipe: versions, machine, threads, ops."""
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
