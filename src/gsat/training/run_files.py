"""Run directories as files: names for new ones, lists of those there are. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gsat.core.errors import GSATError, RunError
from gsat.core.files import check_no_links, is_regular, read_file, read_toml
from gsat.core.locks import is_locked
from gsat.core.parsing import ParseError, parse_json
from gsat.metric_names import EXPLANATION_METRICS, LOWER_IS_BETTER, METRIC_TITLES

if TYPE_CHECKING:
    from gsat.training.recipe import Recipe
    from gsat.training.run_schemas import RecipeSummary

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


def shown_metrics(metrics: dict[str, Any], has_truth: bool) -> dict[str, float | None]:
    """Choose the metrics that people read, by their titles."""
    return {
        title: metrics[name]
        for name, title in METRIC_TITLES.items()
        if name in metrics
        and (has_truth or name not in EXPLANATION_METRICS or metrics[name] is not None)
    }


def check_run(path: str | Path) -> Path:
    """Raise unless a folder holds a run."""
    if not is_regular(Path(path) / "recipe.toml"):
        raise RunError(f"{path} is not a run: there is no recipe.toml in it")
    check_no_links(Path(path))
    return Path(path)


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
    # Not at the top: `gsat --help` would wait for pydantic.
    from gsat.core.files import read_json
    from gsat.core.parsing import check_model
    from gsat.training.run_schemas import RecipeSummary, ResultFile, TimingFile

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
    from gsat.core.parsing import check_model
    from gsat.training.run_schemas import LogLine

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
