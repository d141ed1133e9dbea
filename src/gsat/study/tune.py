"""Choose settings on validation data: train every point of a grid and take the best.

A run is identified by its recipe, its data and its seed. Finished runs are not trained again, so
an interrupted tuning continues, and a larger grid trains only the new points.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from gsat.metric_names import EXPLANATION_METRICS
from gsat.study.grids import (
    LADDER_METHODS,
    Point,
    default_grid,
    expand_keys,
    make_rungs,
    setting,
)
from gsat.study.toml_edit import change_settings
from gsat.study.tune_audit import as_accurate, audit_points, most_faithful
from gsat.training.loop import make_method
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
from gsat.training.run_directory import RunDirectory, environment, run_label, run_name

# A tuning with the same values of these keys is recorded only once.
_IDENTITY = (
    "recipe", "grid", "seeds", "metric", "chosen", "data_hash", "results_version"
)  # fmt: skip


@dataclass(frozen=True)
class Tuned:
    """The result of a tuning."""

    metric: str  # the validation metric that decided
    points: list[Point]  # in the order of the grid; with a ladder, those that were tried
    chosen: Point
    record: dict[str, Any]  # the line for ``results/tuning.jsonl``
    # Other points with the mean of the chosen one: their loss is higher, or they come later.
    ties: list[Point] = field(default_factory=list)
    # Groups of points with bit-identical values and losses: their settings had no effect.
    identical: list[list[Point]] = field(default_factory=list)
    duplicates: dict[str, list[Any]] = field(default_factory=dict)  # repeated values by full key
    rungs: int | None = None  # number of settings of the ladder; None for a grid


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
        grid: Values to try by setting. (default: the method's grid in ``gsat.study.grids``; by
            audit, a ladder: settings are tried one after another until one predicts as well as
            the best so far and its explanations pass)
        metric: Validation metric to choose by. (default: that of the grid, else of the task)
        by: ``"metric"``, or ``"audit"``: among the points that predict as well as the best one,
            take one whose explanations pass the audit. (default: ``"metric"``)
        file: Recipe file of all points. (default: none)
        settings: Settings of all points, as for ``make_recipe``. (default: none)
        out: Folder of the runs. (default: one in ``runs/`` for each data set and method)
        jobs: Number of runs to train in parallel. (default: ``1``)
        record: JSON-lines file to append the grid and the choice to. (default: none)
        write: Recipe file to write the chosen settings to. (default: none)
        progress: Whether to show a progress bar. (default: ``False``)

    Returns:
        All points and the chosen one.

    Raises:
        GSATError: If the method has no grid, or can't be tuned by the metric.
        RecipeError: If the grid is invalid.
        RunError: If no point could be chosen.
        Interrupted: If another process is training some of the runs.
    """
    is_ladder = by == "audit" and grid is None and method in LADDER_METHODS
    default = default_grid(method, dataset)
    base = make_recipe(
        dataset, backbone=backbone, method=method, seed=seeds[0], file=file, settings=settings
    )
    if base.seed != seeds[0]:
        raise RecipeError(f"tuning uses seed {seeds[0]}, but the recipe sets seed {base.seed}")
    if grid is None:
        if default is None:
            raise GSATError(f"{method} has no default grid: give the values to try, as grid")
        metric = metric or (default.metric if by == "metric" else None)
    chosen_grid = default.values if grid is None and default else grid or {}
    values, duplicates = ({}, {}) if is_ladder else expand_keys(base, chosen_grid)
    data = load_data(base)
    base = complete_recipe(base, data)
    rungs = make_rungs(base, _given_keys(base, settings)) if is_ladder else []
    recipes = [recipe for recipe, _ in rungs] or [
        with_settings(base, dict(zip(values, combination, strict=True)))
        for combination in itertools.product(*values.values())
    ]
    trained = make_method(recipes[0], data)
    # A post-hoc explainer does not change the network, so prediction metrics are always the same.
    explainer = isinstance(trained, PostHocMethod) and by == "metric"
    metric = metric or ("explanation_auc" if explainer else data.task.metric)
    _check_metric(metric, by, data, trained)
    if record is not None:
        read_records(record, _IDENTITY)  # find a broken file before training, not after

    folder = Path(out or Path("runs") / f"tune-{run_label(base)}")
    tuning = _Tuning(data, metric, seeds, folder, jobs, progress)
    if rungs:
        points, chosen = tuning.climb(rungs)
    else:
        points = tuning.train(recipes, values)
        chosen = _best(points, metric)
        if by == "audit":
            points, chosen = tuning.choose_by_audit(points)
    line = _line(base, values, seeds, metric, points, chosen, data)
    line |= {"by": by} if by == "audit" else {}
    line |= {"ladder": [changes for _, changes in rungs]} if rungs else {}
    if record is not None:
        append_line(Path(record), line, unless=lambda: _is_recorded(Path(record), line))
    if write is not None:
        change_settings(Path(write), _keys_to_write(chosen.settings, method))
    if rungs:  # settings of a ladder may tie: snapshots do not change predictions
        return Tuned(metric, points, chosen, line, rungs=len(rungs))
    ties = [
        point
        for point in points
        if point is not chosen and point.mean == chosen.mean and point.gap == chosen.gap
    ]
    return Tuned(metric, points, chosen, line, ties, _identical(points), duplicates)


class _Tuning:
    """Trains and audits the points of one tuning."""

    def __init__(
        self,
        data: Dataset,
        metric: str,
        seeds: Sequence[int],
        folder: Path,
        jobs: int,
        progress: bool,
    ) -> None:
        self.data, self.metric, self.seeds, self.folder = data, metric, seeds, folder
        self.jobs, self.progress = jobs, progress
        self._folders: dict[str, list[Path]] = {}  # of the runs, by recipe hash

    def train(self, recipes: Sequence[Recipe], keys: Collection[str]) -> list[Point]:
        """Train the runs that are not finished, and return a point for each recipe."""
        runs: dict[str, Recipe] = {}
        names: list[list[str]] = []  # of the runs of each recipe
        for recipe in recipes:
            seeded = [with_settings(recipe, {"seed": seed}) for seed in self.seeds]
            names.append([run_name(run, self.data.hash) for run in seeded])
            self._folders[recipe.hash()] = [self.folder / name for name in names[-1]]
            runs |= zip(names[-1], seeded, strict=True)
        folders = {name: RunDirectory(self.folder / name) for name in runs}
        results = {name: run.result for name, run in folders.items() if run.result_path.is_file()}
        left = {name: recipe for name, recipe in runs.items() if name not in results}
        label = f"{recipes[0].data.label}, {len(recipes)} points"
        with Progress(label, quiet=not self.progress).start(len(runs), len(results)) as bar:
            outcome = train_each(
                left,
                self.folder,
                jobs=self.jobs,
                done=lambda *_: bar.advance(),
                pretrained_cache=self.folder / "pretrained",
            )
        if outcome.unfinished:
            raise Interrupted(
                f"another process is training {len(outcome.unfinished)} of {len(runs)} runs in "
                f"{self.folder}; repeat the command when it has ended"
            )
        results |= outcome.results
        return [
            self._measure(recipe, keys, own, results, outcome.failures)
            for recipe, own in zip(recipes, names, strict=True)
        ]

    def climb(self, rungs: Sequence[tuple[Recipe, Mapping[str, Any]]]) -> tuple[list[Point], Point]:
        """Try settings in turn until one predicts as well as the best and passes the audit."""
        points: list[Point] = []
        for recipe, changes in rungs:
            points += self.train([recipe], changes)
            if points[-1].mean is None:
                continue
            best = _best(points, self.metric)
            if points[-1] in as_accurate(points, best, self.metric, self.data):
                points[-1:] = self._audit(points[-1:])
                if points[-1].passed == 1:
                    return points, points[-1]
        return self.choose_by_audit(points)

    def choose_by_audit(self, points: Sequence[Point]) -> tuple[list[Point], Point]:
        """Audit the points that predict as well as the best one, and choose among them."""
        best = _best(points, self.metric)
        audited = self._audit(as_accurate(points, best, self.metric, self.data))
        by_hash = {point.recipe_hash: point for point in audited}
        updated = [by_hash.get(point.recipe_hash, point) for point in points]
        return updated, most_faithful(audited, self.metric)

    def _audit(self, points: Sequence[Point]) -> list[Point]:
        bar = Progress("audit", quiet=not self.progress)
        return audit_points(points, [self._folders[point.recipe_hash] for point in points], bar)

    def _measure(
        self,
        recipe: Recipe,
        keys: Collection[str],
        names: Sequence[str],
        results: Mapping[str, dict[str, Any]],
        failures: Mapping[str, str],
    ) -> Point:
        """Return the point of a recipe, from the validation metrics of its runs."""
        failed = next((failures[name] for name in names if name in failures), None)
        done = [results[name] for name in names if name in results]
        values = [result["valid"].get(self.metric) for result in done]
        spread = None if failed else summarise(values)
        loss = None if failed else summarise(result["valid"]["loss"] for result in done)
        return Point(
            settings={key: setting(recipe, key) for key in keys},
            recipe_hash=recipe.hash(),
            values=values,
            mean=spread[0] if spread else None,
            std=spread[1] if spread else None,
            loss=loss[0] if loss else None,
            seconds=round(sum(result["seconds"] for result in done), 3),
            failed=failed,
        )


def _given_keys(base: Recipe, settings: Mapping[str, Any] | Iterable[str]) -> list[str]:
    """Return the full keys of the caller's settings."""
    if not isinstance(settings, Mapping):
        settings = dict(parse_setting(text) for text in settings)
    return [full_key(base.tables(), key) for key in settings]


def _check_metric(metric: str, by: str, data: Dataset, method: Method) -> None:
    """Raise, before anything is trained, if the metric or the audit can't decide."""
    of_task = ("r2", "mae", "rmse") if data.task.kind == "regression" else (data.task.metric,)
    if metric not in (*of_task, "loss", *EXPLANATION_METRICS):
        names = ", ".join((*of_task, "loss", *EXPLANATION_METRICS))
        raise GSATError(f"there is no metric '{metric}' on {data.name}: available: {names}")
    explains = metric in EXPLANATION_METRICS
    if by == "audit" and explains:
        raise GSATError(
            "the audit chooses among settings that predict equally well: choose a prediction "
            f"metric, not {metric}"
        )
    if (by == "audit" or explains) and not method.model.explains:
        use = "audit" if by == "audit" else f"tune by {metric}"
        raise GSATError(f"{method.title} gives no explanations, so there is nothing to {use}")
    if explains and not data.valid.has("edge_truth"):
        explainer = isinstance(method, PostHocMethod)
        advice = "set the explainer's settings by hand" if explainer else f"try {of_task[0]}"
        raise DataError(f"{data.name} has no true explanations to tune by {metric}; {advice}")


def _best(points: Sequence[Point], metric: str) -> Point:
    """Return the point with the best mean; ties go to the lower loss, then to the first."""
    best: Point | None = None
    for point in points:
        before = (best.merit(metric), best.loss) if best else (None, None)
        if metrics.better(point.merit(metric), point.loss, *before):
            best = point
    if best is None:
        failed = next((point.failed for point in points if point.failed), None)
        reason = failed or f"{metric} is undefined on the validation data"
        raise RunError(f"no point could be chosen: {reason}")
    return best


def _identical(points: Iterable[Point]) -> list[list[Point]]:
    """Group points with the same values and loss; groups of one are left out."""
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for point in points:
        if point.mean is not None:
            groups.setdefault((*point.values, point.loss), []).append(point)
    return [group for group in groups.values() if len(group) > 1]


def _keys_to_write(settings: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Return the keys of a recipe file; training settings apply to this method only."""
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
    points: Sequence[Point],
    chosen: Point,
    data: Dataset,
) -> dict[str, Any]:
    """Return the record of a tuning."""
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


def _is_recorded(path: Path, line: dict[str, Any]) -> bool:
    records = read_records(path, _IDENTITY)
    return any(all(record.get(key) == line[key] for key in _IDENTITY) for record in records)
