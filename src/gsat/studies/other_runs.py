"""Recorded runs that no table shows: own data, other settings, data the paper does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsat.datasets.registry import is_own_data, options_type
from gsat.methods import METHODS
from gsat.studies.cells import MARKS, NETWORKS
from gsat.studies.records import Record, Records, Runs
from gsat.studies.renderers import Grid, Shown
from gsat.studies.study import PREDICTION, Cell, Table
from gsat.studies.tables import STUDIES, papers_cell
from gsat.training.recipe import make_recipe
from gsat.training.results import summarise

COLUMNS = (
    "data", "method", "seeds", "prediction", "paper", "explanation AUC", "paper",
    "precision@5", "paper",
)  # fmt: skip
NOTE = (
    "Prediction is accuracy unless it says otherwise; before: the pre-trained model, before "
    "fine-tuning."
)


def other_runs(records: Records) -> Grid | None:
    """The table of runs that no table of the paper shows, nor its sweeps of the regulariser; None
    if there are none."""
    shown = [s for s in STUDIES.values() if isinstance(s, Table) or s.name == "fig-regulariser"]
    hashes = {experiment.hash for study in shown for experiment in study.experiments}
    left = [runs for recipe, runs in records.items() if recipe not in hashes]
    if not left:
        return None
    rows = [tuple(map(Shown, row)) for row in map(_row, sorted(left, key=_order))]
    return Grid("Other recorded runs", COLUMNS, tuple(rows), (NOTE,))


def _any(runs: Runs) -> Record:
    return next(iter((runs.done or runs.failed).values()))


def _order(runs: Runs) -> tuple[str, ...]:
    first = _any(runs)
    return first["dataset"], first["method"], first["backbone"], str(first["recipe"]["data"])


def _row(runs: Runs) -> tuple[str, ...]:
    first, done = _any(runs), list(runs.done.values())
    key = (first["method"], first["backbone"], first["dataset"])
    matches = first.get("matches_paper", "yes")  # a run that failed does not say

    def published(metric: str) -> str:
        return paper_text(papers_cell(*key, metric) if matches != "different" else None)

    return (
        _data_name(first) + MARKS[matches],
        _method_name(first),
        seeds_text(runs),
        _prediction(done),
        published(PREDICTION),
        _cell(done, "explanation_auc"),
        published("explanation_auc"),
        _cell(done, "precision_at_5"),
        published("precision_at_5"),
    )


def seeds_text(runs: Runs) -> str:
    """How many seeds there are; which, if they have gaps; and how many failed."""
    shown = str(len(runs.done))
    if runs.has_gap:  # a gap would let a bad seed vanish
        shown = f"only seeds {', '.join(map(str, sorted(runs.done)))}"
    return shown + (f", {len(runs.failed)} failed" if runs.failed else "")


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
    shown = f"{NETWORKS.get(backbone, backbone)} + {METHODS[method].title}"
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
    """Accuracy or ROC AUC (also before fine-tuning, if there was any), or R² and mean absolute
    error."""
    if not runs:
        return "–"
    if "r2" in runs[0]["test"]:
        error = summarise(run["test"]["mae"] for run in runs)
        return f"R² {_cell(runs, 'r2')}" + (
            f", MAE {spread_text(*error, len(runs))}" if error else ""
        )
    # A post-hoc explainer leaves the answers as they are: there is no before and after.
    tuned = METHODS[runs[0]["method"]].reports == "best"
    before: list[Any] = [
        {"test": r["pretrained"]["test"]} for r in runs if tuned and r.get("pretrained")
    ]
    metric, name = ("roc_auc", "AUC ") if "roc_auc" in runs[0]["test"] else ("accuracy", "")
    after = name + _cell(runs, metric)
    return f"{after} (before: {_cell(before, metric)})" if before else after


def _cell(runs: list[Record], metric: str) -> str:
    spread = summarise(run["test"].get(metric) for run in runs)
    return "–" if spread is None else spread_text(100 * spread[0], 100 * spread[1], len(runs))


def spread_text(mean: float, std: float, count: int) -> str:
    """Mean and deviation; of a single run, which has none, the value."""
    return f"{mean:.2f}" + (f" ± {std:.2f}" if count > 1 else "")


def paper_text(cell: Cell | None) -> str:
    """The paper's figure, as published."""
    if cell is None:
        return "–"
    return f"{cell[0]:.2f}" + (f" ± {cell[1]:.2f}" if cell[1] is not None else "")
