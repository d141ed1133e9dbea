"""A run is a directory: recipe, log, checkpoints, the best model and the result."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from llvmlite.binding import get_host_cpu_name
from torch.backends.cpu import get_cpu_capability

from gsat.core import locks, system, writing
from gsat.core.errors import RecipeError, RunError, RunExistsError
from gsat.core.files import check_no_links, checksum, is_regular, read_file, read_json, read_toml
from gsat.core.limits import check_size, json_bytes
from gsat.core.parsing import FileModel, ParseError, check_model, parse_json, parse_toml
from gsat.core.writing import disk_errors
from gsat.models.saved import BEST, write_model
from gsat.ops import engine
from gsat.training.checkpoint import Tensors
from gsat.training.list_runs import check_run
from gsat.training.recipe import Recipe, read_recipe
from gsat.training.results import results_version
from gsat.training.run_schemas import EnvironmentFile, LogLine, ResultFile, TimingFile
from gsat.training.time_spent import Spent

LOG = "metrics.jsonl"
LOG_BYTES = 64 << 20


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "ckpt"
        self._identity: tuple[int, int] | None = None  # of the folder that was locked

    @classmethod
    def create(cls, path: str | Path, recipe: Recipe, processes: int = 1) -> RunDirectory:
        """Create the directory of a new run, which this number of processes trains."""
        text = recipe.toml()
        try:
            values = parse_toml(text)
        except ParseError as error:  # such as a file name with an escape sequence
            raise RecipeError(f"the recipe can't be written: {error}; rename it") from None
        run = cls(path)
        run._check_free()
        with disk_errors(run.path):
            system.make_folders(run.path)
        with run.locked():  # another process may be creating the same run
            run._check_free()
            run.clear_partial_files()
            where = {**environment(processes), "recipe_check": checksum(values)}
            writing.write_json(run.path / "environment.json", where)
            # recipe.toml last: it marks a run that can be resumed.
            writing.write_text(run.path / "recipe.toml", text)
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
        """Open an existing run."""
        return cls(check_run(path))

    def is_run(self) -> bool:
        """Whether the directory holds a run, finished or not."""
        return is_regular(self.path / "recipe.toml")

    def is_empty(self) -> bool:
        """Whether it holds no files, or only those of a run killed before it had a recipe."""
        names = {file.name for file in self.path.iterdir() if not writing.is_partial(file)}
        return names <= {"environment.json", ".lock"}

    def clear_partial_files(self) -> None:
        """Remove partial files of a killed process; the directory must be locked."""
        writing.clear_partial_files(self.path)

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
        """The content of ``result.json``."""
        if not is_regular(self.result_path):
            raise RunError(f"{self.path} is not finished; resume it with: gsat resume {self.path}")
        return self._read_json("result.json", ResultFile)

    @property
    def environment(self) -> dict[str, Any]:
        """The :func:`environment` that the run was started in."""
        values = self._read_json("environment.json", EnvironmentFile)
        return {key: value for key, value in values.items() if key != "recipe_check"}

    def check_recipe(self) -> None:
        """Raise if the recipe is not the one that the run was started with."""
        # Runs of earlier versions have no such checksum.
        check = self._read_json("environment.json", EnvironmentFile).get("recipe_check")
        path = self.path / "recipe.toml"
        if check is not None and checksum(read_toml(path, error=RunError)) != check:
            raise RunError(
                f"{path} is not the recipe that the run was started with; restore it, or train it "
                "as a new run"
            )

    def check_same_recipe(self, recipe: Recipe) -> None:
        """Raise if the directory holds a run with another recipe."""
        if self.is_run() and self.recipe != recipe:
            raise RunError(f"{self.path} holds a run with another recipe; choose another folder")

    def _read_json(self, name: str, model: type[FileModel]) -> dict[str, Any]:
        return read_json(self.path / name, model, error=RunError)

    # -- the lock -------------------------------------------------------------------------------

    @contextmanager
    def locked(self, wait: float = 0.0) -> Iterator[None]:
        """Keep other processes from training in this directory while the block runs.

        The lock ends with the process that holds it, even if it is killed.
        """
        busy = f"another process is training in {self.path} right now"
        with disk_errors(self.path), locks.locked(self.path / ".lock", wait, busy=busy):
            check_no_links(self.path)
            status = self.path.stat()
            self._identity = status.st_dev, status.st_ino
            yield

    def check_here(self) -> None:
        """Raise if the directory that was locked is no longer at its path.

        Files would otherwise be written to another directory.
        """
        if self._identity is None:
            return
        try:
            status = self.path.stat()
            here = (status.st_dev, status.st_ino) == self._identity and self.is_run()
        except OSError:
            here = False
        if not here:
            raise RunError(
                f"the run directory {self.path} was removed or replaced while the run was training "
                "in it; its files are lost: train it again"
            )

    # -- the log --------------------------------------------------------------------------------

    def log(self, line: dict[str, Any]) -> None:
        """Append one epoch to ``metrics.jsonl``."""
        self.check_here()
        handle = system.open_to_append(self.path / LOG)
        try:
            system.write(handle, (json.dumps(line, allow_nan=False) + "\n").encode())
        finally:
            os.close(handle)

    def read_log(self) -> list[dict[str, Any]]:
        """Read ``metrics.jsonl``: one entry per epoch."""
        return [_log_line(line, self.path, n) for n, line in enumerate(self._log_lines(), start=1)]

    def _log_lines(self) -> list[bytes]:
        """The lines of the log; the last may be half a line."""
        content = read_file(self.path / LOG, error=RunError, limit=LOG_BYTES)
        check_size(json_bytes(content), str(self.path / LOG), RunError)
        return [line for line in content.split(b"\n") if line]

    def sync_log(self) -> None:
        """Wait until the log is on disk: a checkpoint must not outlive the lines before it."""
        path = self.path / LOG
        if is_regular(path):
            handle = system.open_to_append(path)
            try:
                system.sync(handle)
            finally:
                os.close(handle)

    def cut_log(self, epochs: int) -> None:
        """Keep the first lines of the log; later epochs will be trained again."""
        lines = self._log_lines() if is_regular(self.path / LOG) else []
        if len(lines) < epochs:
            raise RunError(
                f"{self.path / LOG} has {len(lines)} of the {epochs} lines that the checkpoint "
                "needs; restore it, or train the run again"
            )
        for number, line in enumerate(lines[:epochs], start=1):
            _log_line(line, self.path, number)
        writing.write_blocks(self.path / LOG, [line + b"\n" for line in lines[:epochs]])

    # -- the best model -------------------------------------------------------------------------

    def write_best(self, weights: Tensors, config: dict[str, Any], epoch: int) -> None:
        """Replace ``best/``: the weights first, then the description that names them."""
        self.check_here()
        write_model(self.path / BEST, weights, config, epoch)

    def clear_best(self) -> None:
        """Remove the best model; a run that is resumed from an early epoch may have none yet."""
        system.remove_tree(self.path / BEST)

    # -- time -----------------------------------------------------------------------------------

    def read_spent(self) -> Spent:
        """Time spent on the run so far, by all processes that worked on it one after another."""
        if not (self.path / "timing.json").exists():  # nothing is saved yet
            return Spent()
        return Spent.read(self._read_json("timing.json", TimingFile))

    def write_spent(self, spent: Spent, epochs: int) -> None:
        """Record the time spent, in a separate file, since it differs between equal runs."""
        writing.write_json(self.path / "timing.json", {**spent.values(), "epochs": epochs})

    def write_result(self, result: dict[str, Any]) -> None:
        """Write ``result.json``, with which the run is finished."""
        self.check_here()
        writing.write_json(self.result_path, result)


def _log_line(line: bytes, run: Path, number: int) -> dict[str, Any]:
    try:
        values: dict[str, Any] = parse_json(line)
        check_model(LogLine, values)
    except ParseError as error:
        raise RunError(
            f"{run / LOG} can't be read, line {number}: {error}; remove {run} and train the run "
            "again"
        ) from None
    if "settledness" in values:  # its name in earlier versions
        values.setdefault("score_stability", values.pop("settledness"))
    return values


def run_label(recipe: Recipe) -> str:
    """A name of the data, the backbone and the method of a recipe."""
    return f"{recipe.data.label}-{recipe.backbone.name}-{recipe.method}"


def new_run_folder(recipe: Recipe, folder: str | Path = "runs") -> Path:
    """Choose a run directory that does not exist yet."""
    return unused_path(Path(folder) / f"{run_label(recipe)}-seed-{recipe.seed}")


def unused_path(path: Path) -> Path:
    """Return the path, or the first of path-2, path-3, … that does not exist."""
    candidate, number = path, 2
    while candidate.exists():
        candidate, number = path.with_name(f"{path.name}-{number}"), number + 1
    return candidate


def run_name(recipe: Recipe, data_hash: str) -> str:
    """The folder of a run, named after what identifies it."""
    version = results_version(recipe.backbone.name)
    return f"{run_label(recipe)}-{recipe.hash()}-{data_hash}-{version}/seed-{recipe.seed}"


def environment(processes: int = 1) -> dict[str, Any]:
    """The environment that results depend on: versions, machine, threads, ops."""
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
        **({"processes": processes} if processes > 1 else {}),
    }
