"""The runs in a folder, as a list. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gsat.core.errors import GSATError, RunError
from gsat.core.files import check_no_links, is_regular, read_file, read_json, read_toml
from gsat.core.locks import is_locked
from gsat.core.parsing import ParseError, check_model, parse_json
from gsat.metric_names import LOWER_IS_BETTER
from gsat.training.run_schemas import LogLine, RecipeSummary, ResultFile, TimingFile

State = Literal["finished", "running", "stopped"]


@dataclass(frozen=True)
class RunSummary:
    """One run directory in a list of runs.

    A run is ``"running"`` if another process trains it now.
    """

    path: Path
    dataset: str  # name or path
    method: str
    backbone: str
    seed: int
    state: State
    progress: str  # such as "epoch 12 of 100"; empty for a finished run
    test: dict[str, float | None]  # metrics of a finished run
    seconds: float  # of training

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self), "path": str(self.path)}


def check_run(path: str | Path) -> Path:
    """Raise unless a folder holds a run."""
    if not is_regular(Path(path) / "recipe.toml"):
        raise RunError(f"{path} is not a run: there is no recipe.toml in it")
    check_no_links(Path(path))
    return Path(path)


def list_runs(folder: str | Path = "runs", *, sort: str | None = None) -> list[RunSummary]:
    """List the runs in a folder and in the folders below it.

    Args:
        folder: Where to search. (default: ``"runs"``)
        sort: A test metric; the best run comes first and those without it come last.
            (default: by path)

    Returns:
        One summary per run. Run directories that can't be read are left out.

    Raises:
        GSATError: If there is no such folder, or no run has the metric.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise GSATError(f"there is no folder {folder} to list the runs of")
    summaries = [summary for path in _run_folders(folder) if (summary := _summarise(path))]
    if sort is None:
        return summaries
    metrics = sorted({name for run in summaries for name in run.test})
    if metrics and sort not in metrics:
        raise GSATError(f"no run has the metric '{sort}': there are {', '.join(metrics)}")
    sign = 1.0 if sort in LOWER_IS_BETTER else -1.0

    def place(run: RunSummary) -> tuple[bool, float]:
        value = run.test.get(sort)
        return value is None, 0.0 if value is None else sign * value

    return sorted(summaries, key=place)


def _run_folders(folder: Path) -> Iterator[Path]:
    """Find run directories, in the order of their names; there are none inside a run."""
    if is_regular(folder / "recipe.toml"):
        yield folder
        return
    try:
        # A link may lead back to here.
        inside = sorted(e.path for e in os.scandir(folder) if e.is_dir(follow_symlinks=False))
    except PermissionError:
        return
    for path in inside:
        yield from _run_folders(Path(path))


def _summarise(path: Path) -> RunSummary | None:
    """Read one run; None if its files are damaged."""
    try:
        check_no_links(path)
        recipe = check_model(RecipeSummary, read_toml(path / "recipe.toml", error=RunError))
        result = timing = None
        if (path / "result.json").exists():
            result = read_json(path / "result.json", ResultFile, error=RunError)
        if (path / "timing.json").exists():
            timing = read_json(path / "timing.json", TimingFile, error=RunError)
        state: State = (
            "finished" if result else "running" if is_locked(path / ".lock") else "stopped"
        )
        return RunSummary(
            path=path,
            dataset=recipe.data.name,
            method=recipe.method.name,
            backbone=recipe.backbone.name,
            seed=recipe.seed,
            state=state,
            progress="" if result else _progress(path / "metrics.jsonl", recipe),
            test=result["test"] if result else {},
            seconds=(result or timing or {"seconds": 0.0})["seconds"],
        )
    except (OSError, ParseError, GSATError):
        return None


def _progress(log: Path, recipe: RecipeSummary) -> str:
    """Say which epoch a run has reached; only the last phase has its length in the recipe."""
    if recipe.members is not None:
        folders = log.parent / "members"
        ended = sum((folder / "result.json").is_file() for folder in folders.glob("seed-*"))
        return f"{ended} of {recipe.members} members"
    content = read_file(log, error=RunError) if log.exists() else b""
    lines = content.split(b"\n")[:-1]
    if not lines:
        return "no epoch yet"
    last = check_model(LogLine, parse_json(lines[-1]))
    if last.phase == "train":
        return f"epoch {last.epoch + 1} of {recipe.training.epochs}"
    return f"epoch {last.epoch + 1} of phase {last.phase}"
