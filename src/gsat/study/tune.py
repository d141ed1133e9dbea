"""Choose settings on validation data: train every point of a grid and take the best.

A run is identified by its recipe, its data and its seed. One that is finished is not trained again,
so a tuning that was stopped or killed resumes, and a larger grid trains only what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gsat import metrics
from gsat.core.errors import DataError, GSATError, Interrupted, RecipeError, RunError
from gsat.core.settings import parse_setting
from gsat.core.writing import append_line
from gsat.datasets.load import Dataset
from gsat.launch.progress import Progress
from gsat.methods import Method
from gsat.methods.post_hoc import PostHocMethod
from gsat.metric_names import EXPLANATION_METRICS, LOWER_IS_BETTER
from gsat.study.grids import (
    LADDER_METHODS,
    default_grid,
    expand_keys,
    make_points,
    make_rungs,
    setting,
)
from gsat.study.tune_audit import as_accurate, audit_points, most_faithful
from gsat.training.many_runs import train_each
from gsat.training.recipe import (
    Recipe,
    complete_recipe,
    full_key,
    load_data,
    make_recipe,
    with_settings,
)
from gsat.training.results import read_records, results_version, summarise
from gsat.training.run_directory import RunDirectory, environment, run_name
from gsat.training.run_files import run_label
from gsat.training.toml_edit import change_settings
from gsat.training.train_method import make_method

# Tunings with the same values of these are the same one, which is recorded once.
_IDENTITY = (
    "recipe", "grid", "seeds", "metric", "chosen", "data_hash", "results_version"
)  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One combination of settings, and its results on validation data.

    Attributes:
        settings: Values by full key.
        recipe_hash: Hash of the recipe with these settings.
        values: The metric for each seed.
        mean: Mean over seeds; None where it is undefined or a run failed.
        std: Population standard deviation over seeds; None as for ``mean``.
        loss: Mean validation loss, which breaks ties.
        seconds: Training time of all seeds.
        failed: Why a run failed; None if none did. (default: ``None``)
        outcomes: Outcome of the audit of each run; None if they were not audited.
            (default: ``None``)
        passed: Share of its runs whose explanations passed the audit; None as for ``outcomes``.
            (default: ``None``)
        gap: How necessary the explanations are, the mean of the audit's gap. (default: ``None``)
    """

    settings: dict[str, Any]
    recipe_hash: str
    values: list[float | None]
    mean: float | None
    std: float | None
    loss: float | None
    seconds: float
    failed: str | None = None
    outcomes: list[str] | None = None
    passed: float | None = None
    gap: float | None = None


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning.

    Attributes:
        metric: The validation metric it was chosen by.
        points: All points, in the order of the grid; of a ladder, those that were tried.
        chosen: The best point.
        record: The line for ``results/tuning.jsonl``.
        ties: Other points with the same mean as the chosen one, which has the lower validation
            loss or, with an equal loss, came first. (default: none)
        identical: Groups of points that gave the same values and the same loss, to the last bit:
            the settings they differ by had no effect. (default: none)
        duplicates: Values that the grid has more than once, by full key; they are tried once.
            (default: none)
        rungs: Number of rungs of the ladder; None for a grid. (default: ``None``)
    """

    metric: str
    points: list[Point]
    chosen: Point
    record: dict[str, Any]
    ties: list[Point] = field(default_factory=list)
    identical: list[list[Point]] = field(default_factory=list)
    duplicates: dict[str, list[Any]] = field(default_factory=dict)
    rungs: int | None = None


def tune(
    dataset: str,
    method: str = "gsat",
    *,
    backbone: str = "",
    seeds: Sequence[int] = (0,),
    grid: Mapping[str, Sequence[Any]] | None = None,
    metric: str | None = None,
    by: Literal["metric", "audit"] = "metric",
    file: str | Path | None = None,
    settings: Mapping[str, Any] | Iterable[str] = (),
    out: str | Path | None = None,
    jobs: int = 1,
    record: str | Path | None = None,
    write: str | Path | None = None,
    progress: bool = False,
) -> Tuned:
    """Train every point of a grid and choose the one that is best on validation data.

    Runs are trained by worker processes. The same call resumes a tuning that was stopped.

    Args:
        dataset: Name of the data set, or the path of your own.
        method: Name of the method. (default: ``"gsat"``)
        backbone: Name of the backbone. (default: as in :func:`gsat.make_recipe`)
        seeds: Each point is trained with all of them and judged by the mean. (default: ``(0,)``)
        grid: Values to try by setting. (default: the method's grid in ``studies/grids.py``; by
            audit, its ladder: settings are tried one after another, until one predicts as well as
            the best so far and its explanations pass)
        metric: Metric of the validation data to choose by. (default: the grid's, else the task's)
        by: ``"metric"``, or ``"audit"``: of the points that predict as well as the best one, take
            the one whose explanations pass the audit. (default: ``"metric"``)
        file: A recipe file that all points share. (default: none)
        settings: Single settings that all points share, as for ``make_recipe``. (default: none)
        out: Folder of the runs. (default: one in ``runs/`` for each data set and method)
        jobs: How many runs at a time. (default: ``1``)
        record: A JSON-lines file to which grid and choice are appended, once. (default: none)
        write: A recipe file that gets the chosen settings. (default: none)
        progress: Whether a progress bar is shown. (default: ``False``)

    Returns:
        All points and the chosen one.

    Raises:
        GSATError: If the method has no grid, or can't be tuned by the metric.
        RecipeError: If the grid is invalid.
        RunError: If no point could be chosen.
        Interrupted: If another process is training some of the runs.
    """
    climbs = by == "audit" and grid is None and method in LADDER_METHODS
    default = default_grid(method, dataset)
    base = make_recipe(
        dataset, backbone=backbone, method=method, seed=seeds[0], file=file, settings=settings
    )
    if base.seed != seeds[0]:
        raise RecipeError(f"tuning uses seed {seeds[0]}, but the recipe sets seed {base.seed}")
    if grid is None and default is None:
        raise GSATError(f"there is no default grid for {method}: give the values to try, as grid")
    tried = grid if grid is not None else default.values if default else {}
    values, duplicates = ({}, {}) if climbs else expand_keys(base, tried)
    data = load_data(base)
    base = complete_recipe(base, data)
    fixed = _given_keys(base, settings)
    rungs = make_rungs(base, fixed) if climbs else None
    recipes = [recipe for recipe, _ in rungs] if rungs else make_points(base, values)
    made = make_method(recipes[0], data)
    # A post-hoc explainer leaves the network as it is, so the task's metric is always the same.
    own: str = "explanation_auc" if isinstance(made, PostHocMethod) else data.task.metric
    if by == "audit":  # among points that predict equally well
        own = data.task.metric
    elif default and grid is None:
        own = default.metric or own
    metric = metric or own
    _check_metric(metric, data, made)
    if by == "audit":
        _check_audit(metric, made)
    if record is not None:
        read_records(record, _IDENTITY)  # find a broken file before training, not after

    folder = Path(out or Path("runs") / f"tune-{run_label(base)}")
    of_hash = {recipe.hash(): recipe for recipe in recipes}

    def trained(some: Sequence[Recipe], keys: Iterable[str]) -> list[Point]:
        results, failures = _train_points(some, seeds, data, folder, jobs, progress)
        return [
            _measure(r, keys, metric, results, failures, [_name(r, data, seed) for seed in seeds])
            for r in some
        ]

    def audited(some: Sequence[Point]) -> list[Point]:
        return audit_points(
            some,
            lambda p: [folder / _name(of_hash[p.recipe_hash], data, seed) for seed in seeds],
            Progress("audit", quiet=not progress),
        )

    if rungs:
        points, chosen = _climb(rungs, trained, audited, metric, data)
    else:
        points = trained(recipes, values)
        chosen = _best(points, metric)
        if by == "audit":
            points, chosen = _most_faithful(points, chosen, audited, metric, data)
    line = _line(base, values, seeds, metric, points, chosen, data)
    line |= {"by": by} if by == "audit" else {}
    line |= {"ladder": [changes for _, changes in rungs]} if rungs else {}
    if record is not None:
        _record_once(Path(record), line)
    if write is not None:
        change_settings(Path(write), _keys_to_write(chosen.settings, method))
    if rungs:  # the order decides between equals, and snapshots change explanations only
        return Tuned(metric, points, chosen, line, rungs=len(rungs))
    ties = [
        point
        for point in points
        if point is not chosen and point.mean == chosen.mean and point.gap == chosen.gap
    ]
    return Tuned(metric, points, chosen, line, ties, _identical(points), duplicates)


def _climb(
    rungs: Sequence[tuple[Recipe, Mapping[str, Any]]],
    trained: Callable[[Sequence[Recipe], Iterable[str]], list[Point]],
    audited: Callable[[Sequence[Point]], list[Point]],
    metric: str,
    data: Dataset,
) -> tuple[list[Point], Point]:
    """Try settings one after another until one predicts as well as any, and passes the audit."""
    points: list[Point] = []
    for recipe, changes in rungs:
        points += trained([recipe], changes)
        if points[-1].mean is None:
            continue
        if points[-1] in as_accurate(points, _best(points, metric), metric, data):
            points[-1:] = audited(points[-1:])
            if points[-1].passed == 1:
                return points, points[-1]
    return _most_faithful(points, _best(points, metric), audited, metric, data)


def _most_faithful(
    points: list[Point],
    best: Point,
    audited: Callable[[Sequence[Point]], list[Point]],
    metric: str,
    data: Dataset,
) -> tuple[list[Point], Point]:
    """The points, audited if they predict as well as the best one, and the most faithful one."""
    found = audited(as_accurate(points, best, metric, data))
    known = {point.recipe_hash: point for point in found}
    return [known.get(p.recipe_hash, p) for p in points], most_faithful(found, metric)


def _given_keys(base: Recipe, settings: Mapping[str, Any] | Iterable[str]) -> list[str]:
    """The full keys of settings that the caller gave."""
    if not isinstance(settings, Mapping):
        settings = dict(parse_setting(text) for text in settings)
    return [full_key(base.tables(), key) for key in settings]


def _train_points(
    recipes: Sequence[Recipe],
    seeds: Sequence[int],
    data: Dataset,
    folder: Path,
    jobs: int,
    progress: bool,
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Train what is not finished: results, and reasons of failures, by name of the run."""
    runs = {
        _name(recipe, data, seed): with_settings(recipe, {"seed": seed})
        for recipe in recipes
        for seed in seeds
    }
    folders = {name: RunDirectory(folder / name) for name in runs}
    results = {name: run.result for name, run in folders.items() if run.result_path.is_file()}
    left = {name: recipe for name, recipe in runs.items() if name not in results}
    bar = Progress(f"{recipes[0].data.label}, {len(recipes)} points", quiet=not progress)
    bar.start(len(runs), len(results))
    try:
        outcome = train_each(
            left,
            folder,
            jobs=jobs,
            done=lambda *_: bar.advance(),
            pretrained_cache=folder / "pretrained",
        )
    finally:
        bar.stop()
    if outcome.unfinished:
        raise Interrupted(
            f"another process is training {len(outcome.unfinished)} of {len(runs)} runs in "
            f"{folder}; run the same again when it has ended"
        )
    return results | outcome.results, outcome.failures


def _name(recipe: Recipe, data: Dataset, seed: int) -> str:
    return run_name(with_settings(recipe, {"seed": seed}), data.hash)


def _check_metric(metric: str, data: Dataset, method: Method) -> None:
    """Raise, before anything is trained, if the metric will not be there to choose by."""
    of_task = ("r2", "mae", "rmse") if data.task.kind == "regression" else (data.task.metric,)
    if metric not in (*of_task, "loss", *EXPLANATION_METRICS):
        names = ", ".join((*of_task, "loss", *EXPLANATION_METRICS))
        raise GSATError(f"there is no metric '{metric}' on {data.name}: available: {names}")
    if metric in EXPLANATION_METRICS and not method.model.explains:
        raise GSATError(f"{method.title} gives no explanations, so it can't be tuned by {metric}")
    if metric in EXPLANATION_METRICS and not data.valid.has("edge_truth"):
        advice = (
            "which an explainer needs to be tuned; choose its settings by hand"
            if isinstance(method, PostHocMethod)
            else f"to tune by; choose another metric, such as {of_task[0]}"
        )
        raise DataError(f"{data.name} has no true explanations {advice}")


def _check_audit(metric: str, method: Method) -> None:
    """Raise if an audit can't choose."""
    if metric in EXPLANATION_METRICS:
        raise GSATError(
            f"the audit chooses among settings that predict equally well: choose by a metric of "
            f"prediction, not by {metric}"
        )
    if not method.model.explains:
        raise GSATError(f"{method.title} gives no explanations, so there is nothing to audit")


def _measure(
    recipe: Recipe,
    keys: Iterable[str],
    metric: str,
    results: Mapping[str, dict[str, Any]],
    failures: Mapping[str, str],
    names: Sequence[str],
) -> Point:
    """A point with the settings of these keys, from the validation metrics of its runs."""
    failed = next((failures[name] for name in names if name in failures), None)
    valid = [results[name]["valid"] for name in names if name in results]
    seconds = sum(results[name]["seconds"] for name in names if name in results)
    values = [measured.get(metric) for measured in valid]
    spread = None if failed else summarise(values)
    loss = None if failed else summarise(measured["loss"] for measured in valid)
    return Point(
        settings={key: setting(recipe, key) for key in keys},
        recipe_hash=recipe.hash(),
        values=values,
        mean=spread[0] if spread else None,
        std=spread[1] if spread else None,
        loss=loss[0] if loss else None,
        seconds=round(seconds, 3),
        failed=failed,
    )


def _best(points: list[Point], metric: str) -> Point:
    """The point with the best mean; of equals, the one with the lower loss, then the first."""
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    best: Point | None = None
    for point in points:
        merit = None if point.mean is None else sign * point.mean
        before = None if best is None or best.mean is None else sign * best.mean
        if metrics.better(merit, point.loss, before, best.loss if best else None):
            best = point
    if best is None:
        failed = next((point.failed for point in points if point.failed), None)
        reason = failed or f"{metric} is undefined on the validation data"
        raise RunError(f"no point could be chosen: {reason}")
    return best


def _identical(points: Iterable[Point]) -> list[list[Point]]:
    """Groups of at least two points with the same values and loss."""
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for point in points:
        if point.mean is not None:
            groups.setdefault((*point.values, point.loss), []).append(point)
    return [group for group in groups.values() if len(group) > 1]


def _keys_to_write(settings: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Settings by their keys in a recipe file; those of training apply to this method only."""
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
    """The record of a tuning."""
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
        "results_version": results_version(base.backbone.name),
        "recipe": base.tables(),
        **environment(),
    }


def _record_once(path: Path, line: dict[str, Any]) -> None:
    def known() -> bool:
        records = read_records(path, _IDENTITY)
        return any(all(record.get(key) == line[key] for key in _IDENTITY) for record in records)

    append_line(path, line, unless=known)
