"""The table of recorded runs that no table of the paper shows.

They are runs on users' data, with other settings, or on data sets that the paper does not have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsat.datasets.registry import is_own_data, options_type
from gsat.methods import METHODS
from gsat.study.records import Record, RecordedRuns, Records
from gsat.study.render import TextCell, TextTable, format_mean_std, format_published, format_seeds
from gsat.study.study import PREDICTION, MeanStd, shipped_studies
from gsat.study.table import DATA_MARKS, method_title
from gsat.training.recipe import make_recipe
from gsat.training.results import summarise

COLUMNS = (
    "data", "method", "seeds", "prediction", "paper", "explanation AUC", "paper",
    "precision@5", "paper",
)  # fmt: skip
NOTE = (
    "Prediction is accuracy unless marked otherwise; before: the pre-trained model, before "
    "fine-tuning."
)


def other_runs_table(records: Records) -> TextTable | None:
    """Make the table of runs that neither a table of the paper nor its sweep of r shows."""
    shown = [s for s in shipped_studies() if s.table or s.name == "fig-regulariser"]
    hashes = {experiment.hash for study in shown for experiment in study.experiments}
    left = [runs for recipe, runs in records.items() if recipe not in hashes]
    if not left:
        return None
    rows = [tuple(map(TextCell, row)) for row in map(_row, sorted(left, key=_order))]
    return TextTable("Other recorded runs", COLUMNS, tuple(rows), (NOTE,))


def find_published(method: str, backbone: str, dataset: str, metric: str) -> MeanStd | None:
    """Find the paper's number of a method without variant, in the first table that has it."""
    wanted = (method, backbone, "", dataset, metric)
    for study in shipped_studies():
        for cell in study.cells if study.in_paper else ():
            row = cell.row
            if wanted == (row.method, row.backbone, row.variant, cell.dataset, cell.table.metric):
                return cell.published
    return None


def _any_record(runs: RecordedRuns) -> Record:
    return next(iter((runs.done or runs.failed).values()))


def _order(runs: RecordedRuns) -> tuple[str, ...]:
    first = _any_record(runs)
    return first["dataset"], first["method"], first["backbone"], str(first["recipe"]["data"])


def _row(runs: RecordedRuns) -> tuple[str, ...]:
    first, done = _any_record(runs), list(runs.done.values())
    key = (first["method"], first["backbone"], first["dataset"])
    matches = first.get("matches_paper", "yes")  # a failed run has no such entry

    def published(metric: str) -> str:
        if matches == "different":
            return "–"
        return format_published(find_published(*key, metric)) or "–"

    return (
        _data_name(first) + DATA_MARKS[matches],
        _method_name(first),
        format_seeds(runs),
        _prediction(done),
        published(PREDICTION),
        _mean_std(done, "explanation_auc"),
        published("explanation_auc"),
        _mean_std(done, "precision_at_5"),
        published("precision_at_5"),
    )


def _data_name(record: Record) -> str:
    """The data set, with the options that differ from their defaults."""
    given, options = record["recipe"]["data"], options_type(record["dataset"]).model_fields
    if is_own_data(record["dataset"]):  # most of its options were inferred from the data
        options = {n: o for n, o in options.items() if n in ("split", "folds", "fold")}
    changed = [f"{n}={given[n]}" for n, o in options.items() if given.get(n) != o.default]
    return Path(record["dataset"]).name + (f" ({', '.join(changed)})" if changed else "")


def _method_name(record: Record) -> str:
    """Backbone and method, with the settings that differ from the shipped recipe."""
    method, backbone = record["method"], record["backbone"]
    shown = method_title(method, backbone)
    if backbone == "wrapped":
        return shown
    shipped = make_recipe(record["dataset"], backbone=backbone, method=method).tables()
    tables = {
        "backbone": (record["recipe"]["backbone"], shipped["backbone"]),
        "training": (record["recipe"]["training"], shipped["training"]),
        "method": (record["recipe"]["method"][method], shipped["method"][method]),
    }
    changed = [
        f"{name}={value}"
        for table, default in tables.values()
        for name, value in table.items()
        if value != default.get(name)
    ]
    return shown + (f" ({', '.join(changed)})" if changed else "")


def _prediction(runs: list[Record]) -> str:
    """Accuracy or ROC AUC (and the value before fine-tuning), or R² and mean absolute error."""
    if not runs:
        return "–"
    if "r2" in runs[0]["test"]:
        error = summarise(run["test"]["mae"] for run in runs)
        return f"R² {_mean_std(runs, 'r2')}" + (
            f", MAE {format_mean_std(*error, len(runs))}" if error else ""
        )
    # A post-hoc explainer leaves the predictions as they are: there is no before and after.
    tuned = METHODS[runs[0]["method"]].reports == "best"
    before: list[Any] = [
        {"test": r["pretrained"]["test"]} for r in runs if tuned and r.get("pretrained")
    ]
    metric, name = ("roc_auc", "AUC ") if "roc_auc" in runs[0]["test"] else ("accuracy", "")
    after = name + _mean_std(runs, metric)
    return f"{after} (before: {_mean_std(before, metric)})" if before else after


def _mean_std(runs: list[Record], metric: str) -> str:
    """A metric in per cent over runs; a dash where it is undefined."""
    spread = summarise(run["test"].get(metric) for run in runs)
    return "–" if spread is None else format_mean_std(100 * spread[0], 100 * spread[1], len(runs))
