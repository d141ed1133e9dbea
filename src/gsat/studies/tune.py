"""Choose settings on validation data: train every point of a grid, take the best.

A point is known by its recipe, its data and its seed: one that is finished is not trained again, so
a tuning that was stopped goes on, and a larger grid trains only what is new.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsat import metrics
from gsat.datasets.load import Dataset
from gsat.errors import DataError, GSATError, RecipeError, RunError
from gsat.io.files import append_line
from gsat.launch.local import train_each
from gsat.launch.progress import Progress
from gsat.methods import Method
from gsat.methods.posthoc import PosthocMethod
from gsat.studies.grids import grid_of
from gsat.training.loop import Interrupted
from gsat.training.recipe import Recipe, full_key, make_recipe, with_settings
from gsat.training.results import read_records, summarise
from gsat.training.run_directory import RunDirectory, environment, run_name
from gsat.training.toml_edit import change_settings
from gsat.training.train import RESULTS_VERSION, complete_recipe, load_data, make_method

_EXPLANATION = ("explanation_auc", "mean_graph_auc", "precision_at_5")
_LOWER_IS_BETTER = ("loss", "mae")
# A tuning with the same values of these is the same one: it is recorded once.
_IDENTITY = (
    "recipe", "grid", "seeds", "metric", "chosen", "data_hash", "results_version"
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One choice of settings and how it did on validation data.

    Attributes:
        settings: values by full key. recipe_hash: of the recipe with them.
        values: the metric for each seed. mean, std: over seeds; None where it is undefined or a run
            failed. loss: mean validation loss, which breaks ties. failed: why, if it did.
    """

    settings: dict[str, Any]
    recipe_hash: str
    values: list[float | None]
    mean: float | None
    std: float | None
    loss: float | None
    seconds: float
    failed: str | None = None


@dataclass(frozen=True)
class Tuned:
    """What was tried and what was chosen; ``record`` is the line for ``results/tuning.jsonl``."""

    metric: str
    points: list[Point]
    chosen: Point
    record: dict[str, Any]

    @property
    def ties(self) -> list[Point]:
        """Other points with the same mean; the chosen one has the lower loss or came first."""
        return [p for p in self.points if p is not self.chosen and p.mean == self.chosen.mean]

    @property
    def identical(self) -> list[list[Point]]:
        """Groups of points with the same values and loss: their settings made no difference."""
        groups: dict[tuple[Any, ...], list[Point]] = {}
        for point in self.points:
            if point.mean is not None:
                groups.setdefault((*point.values, point.loss), []).append(point)
        return [group for group in groups.values() if len(group) > 1]


def tune(
    dataset: str,
    method: str = "gsat",
    *,
    backbone: str = "gin",
    seeds: Sequence[int] = (0,),
    grid: Mapping[str, Sequence[Any]] | None = None,
    metric: str | None = None,
    file: str | Path | None = None,
    settings: Mapping[str, Any] | Iterable[str] = (),
    out: str | Path | None = None,
    jobs: int = 1,
    record: str | Path | None = None,
    write: str | Path | None = None,
    progress: bool = False,
) -> Tuned:
    """Train every point of a grid and choose the one that is best on validation data.

    The runs are made by worker processes: a script calls this under
    ``if __name__ == "__main__":``.

    Args:
        dataset, method, backbone, file, settings: as in ``make_recipe``; what all points share.
        seeds: each point is trained with all of them, and judged by the mean.
        grid: values to try by setting; the method's own grid (``studies/grids.py``) if absent.
        metric: of the validation data; the grid's own, else the task's, if absent.
        out: folder of the runs. jobs: how many at a time.
        record: a JSON-lines file that gets the grid and the choice, once.
        write: a recipe file that gets the chosen settings.
    """
    known = grid_of(method, dataset)
    base = make_recipe(
        dataset, backbone=backbone, method=method, seed=seeds[0], file=file, settings=settings
    )
    if base.seed != seeds[0]:
        raise RecipeError(f"seed {seeds[0]} is to be tuned with; set no other seed")
    if grid is None and known is None:
        raise GSATError(f"there is no grid for {method}; give one with --grid KEY=V1,V2,…")
    values = _full(base, grid if grid is not None else known.values if known else {})
    data = load_data(base)
    base = complete_recipe(base, data)
    recipes = _points(base, values)
    made = make_method(recipes[0], data)
    # An explainer leaves the network as it is, so the task's metric would tell nothing.
    own = "explanation_auc" if isinstance(made, PosthocMethod) else data.task.metric
    metric = metric or (known.metric if known and grid is None else None) or own
    _check_metric(metric, data, made)
    if record is not None:
        read_records(record, _IDENTITY)  # a broken file is better known before training than after

    folder = Path(out or Path("runs") / f"tune-{base.data.label}-{backbone}-{method}")
    runs = {
        _name(recipe, data, seed): with_settings(recipe, {"seed": seed})
        for recipe in recipes
        for seed in seeds
    }
    folders = {name: RunDirectory(folder / name) for name in runs}
    results = {name: run.result for name, run in folders.items() if run.result_path.is_file()}
    left = {name: recipe for name, recipe in runs.items() if name not in results}
    bar = Progress(f"{base.data.label}, {len(recipes)} points", quiet=not progress)
    bar.start(len(runs), len(results))
    try:
        new = train_each(
            left,
            folder,
            jobs=jobs,
            done=lambda *_: bar.advance(),
            pretrained_cache=folder / "pretrained",
        )
    finally:
        bar.stop()
    if new.left:
        raise Interrupted(
            f"another process is at {len(new.left)} of {len(runs)} runs in {folder}; the same "
            f"command goes on when it has ended"
        )
    results |= new.results
    failures = new.failures
    points = []
    for recipe in recipes:
        names = [_name(recipe, data, seed) for seed in seeds]
        failed = next((failures[name] for name in names if name in failures), None)
        valid = [results[name]["valid"] for name in names if name in results]
        seconds = sum(results[name]["seconds"] for name in names if name in results)
        points.append(_judge(recipe, values, metric, valid, failed, seconds))
    chosen = _best(points, metric)
    line = _line(base, values, seeds, metric, points, chosen, data)
    if record is not None:
        _record_once(Path(record), line)
    if write is not None:
        change_settings(Path(write), _own_keys(chosen.settings, method))
    return Tuned(metric, points, chosen, line)


def parse_grid(texts: Iterable[str]) -> dict[str, list[Any]]:
    """``KEY=V1,V2,…`` texts as values by key; a bare word is a text."""
    grid: dict[str, list[Any]] = {}
    for text in texts:
        key, _, listed = text.partition("=")
        key = key.strip()
        if not key or not listed.strip():
            raise RecipeError(f"a grid is written KEY=V1,V2,…, not {text!r}")
        if key in grid:
            raise RecipeError(f"the grid has '{key}' twice; write all its values in one")
        try:
            grid[key] = tomllib.loads(f"v = [{listed}]")["v"]
        except tomllib.TOMLDecodeError:
            grid[key] = [_value(part.strip()) for part in listed.split(",")]
    return grid


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def _full(base: Recipe, grid: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The grid by full key, with values as the recipe holds them."""
    full: dict[str, list[Any]] = {}
    for short, values in grid.items():
        key = full_key(base.tables(), short)
        if key == "seed" or key.startswith("data."):
            raise RecipeError(f"'{key}' can't be tuned: all points are compared on the same data")
        if key in full:
            raise RecipeError(f"the grid has '{key}' twice; write all its values in one")
        held = [_held(with_settings(base, {key: value}), key) for value in values]
        full[key] = [value for i, value in enumerate(held) if value not in held[:i]]
    if not all(full.values()) or not full:
        raise RecipeError("a grid needs at least one setting, and at least one value of each")
    return full


def _held(recipe: Recipe, key: str) -> Any:
    value: Any = recipe.tables()
    for part in key.split("."):
        value = value[part]
    return value


def _points(base: Recipe, grid: Mapping[str, Sequence[Any]]) -> list[Recipe]:
    choices = itertools.product(*grid.values())
    return [with_settings(base, dict(zip(grid, choice, strict=True))) for choice in choices]


def _name(recipe: Recipe, data: Dataset, seed: int) -> str:
    return run_name(with_settings(recipe, {"seed": seed}), data.hash, RESULTS_VERSION)


def _check_metric(metric: str, data: Dataset, method: Method) -> None:
    """Say before training what could not be chosen by afterwards."""
    of_task = ("r2", "mae") if data.task.kind == "regression" else (data.task.metric,)
    if metric not in (*of_task, "loss", *_EXPLANATION):
        names = ", ".join((*of_task, "loss", *_EXPLANATION))
        raise GSATError(f"there is no metric '{metric}' on {data.name}: there are {names}")
    if metric in _EXPLANATION and not method.model.explains:
        raise GSATError(f"{method.title} explains nothing, so it can't be tuned by {metric}")
    if metric in _EXPLANATION and not data.valid.has("edge_truth"):
        advice = (
            "by which alone an explainer can be tuned; choose its settings with --set"
            if isinstance(method, PosthocMethod)
            else f"to tune by; choose --metric {of_task[0]}"
        )
        raise DataError(f"{data.name} has no true explanations {advice}")


def _judge(
    recipe: Recipe,
    grid: Mapping[str, Sequence[Any]],
    metric: str,
    valid: list[dict[str, Any]],
    failed: str | None,
    seconds: float,
) -> Point:
    values = [measured.get(metric) for measured in valid]
    spread = None if failed else summarise(values)
    loss = None if failed else summarise(measured["loss"] for measured in valid)
    return Point(
        settings={key: _held(recipe, key) for key in grid},
        recipe_hash=recipe.hash(),
        values=values,
        mean=spread[0] if spread else None,
        std=spread[1] if spread else None,
        loss=loss[0] if loss else None,
        seconds=round(seconds, 3),
        failed=failed,
    )


def _best(points: list[Point], metric: str) -> Point:
    """The highest mean (or lowest, where less is better); of equals the lower loss, then the first
    in the grid."""
    sign = -1.0 if metric in _LOWER_IS_BETTER else 1.0
    best: Point | None = None
    for point in points:
        merit = None if point.mean is None else sign * point.mean
        before = None if best is None or best.mean is None else sign * best.mean
        if metrics.better(merit, point.loss, before, best.loss if best else None):
            best = point
    if best is None:
        why = next((point.failed for point in points if point.failed), None)
        raise RunError(
            f"no point could be chosen: {why}"
            if why
            else f"no point could be chosen: {metric} is undefined on the validation data"
        )
    return best


def _own_keys(settings: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Settings of training are written for the method they were chosen with."""
    return {
        f"training.{method}.{key.removeprefix('training.')}"
        if key.startswith("training.")
        else key: value
        for key, value in settings.items()
    }


def _line(
    base: Recipe,
    grid: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
    metric: str,
    points: list[Point],
    chosen: Point,
    data: Dataset,
) -> dict[str, Any]:
    return {
        "dataset": base.data.name,
        "method": base.method,
        "backbone": base.backbone.name,
        "metric": metric,
        "seeds": list(seeds),
        "grid": {key: list(values) for key, values in grid.items()},
        "chosen": chosen.settings,
        "points": [vars(point) for point in points],
        "matches_paper": data.matches_paper,
        "data_hash": data.hash,
        "results_version": RESULTS_VERSION,
        "recipe": base.tables(),
        **environment(),
    }


def _record_once(path: Path, line: dict[str, Any]) -> None:
    def known() -> bool:
        others = read_records(path, _IDENTITY)
        return any(all(other.get(key) == line[key] for key in _IDENTITY) for other in others)

    append_line(path, line, unless=known)
