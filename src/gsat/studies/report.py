"""Recorded runs as a table, ours beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gsat.datasets.registry import OWN_DATA, find_entry
from gsat.errors import GSATError
from gsat.methods import METHODS
from gsat.studies import paper
from gsat.training.recipe import make_recipe
from gsat.training.results import read_records, summarise
from gsat.training.train import RESULTS_VERSION

COLUMNS = (
    "data", "method", "seeds", "prediction", "paper", "explanation AUC", "paper",
    "precision@5", "paper",
)  # fmt: skip
NAMES = {"gin": "GIN", "pna": "PNA", "leconv": "LEConv"}
MARKS = {"yes": "", "rebuilt": "°", "different": "†"}
NOTE = (
    "Test set, mean ± standard deviation over seeds in per cent; seeds are 0 to n − 1. Prediction "
    "is accuracy unless it says otherwise; before: the pre-trained model, before fine-tuning. "
    "° the graphs are made again by the paper's rules. † not the paper's data or split."
)


def rows(records: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """One row per recipe with recorded runs of the current results version, each trained by one
    process."""
    groups: dict[str, dict[int, dict[str, Any]]] = {}
    for record in records:
        if record["results_version"] == RESULTS_VERSION and "processes" not in record:
            groups.setdefault(record["recipe_hash"], {})[record["seed"]] = record
    return [_row(list(runs.values())) for _, runs in sorted(groups.items(), key=_order)]


def markdown(path: str | Path) -> str:
    """The table of a file of recorded runs, in Markdown."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows(read_records(path))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{NOTE}\n"


def _order(group: tuple[str, Mapping[int, dict[str, Any]]]) -> tuple[str, ...]:
    first = next(iter(group[1].values()))
    return first["dataset"], first["method"], first["backbone"], str(first["recipe"]["data"])


def _row(runs: list[dict[str, Any]]) -> tuple[str, ...]:
    first = runs[0]
    seeds = sorted(run["seed"] for run in runs)
    # A gap would let a bad seed vanish.
    count = str(len(seeds)) if seeds == list(range(len(seeds))) else f"{seeds} (gaps)"
    key = (first["method"], first["backbone"], first["dataset"])
    comparable = first["matches_paper"] != "different"
    return (
        _data_name(first) + MARKS[first["matches_paper"]],
        _method_name(first),
        count,
        _prediction(runs),
        _paper(paper.PREDICTION.get(key) if comparable else None),
        _cell(runs, "explanation_auc"),
        _paper(paper.EXPLANATION_AUC.get(key) if comparable else None),
        _cell(runs, "precision_at_5"),
        _paper(paper.PRECISION_AT_5.get(key) if comparable else None),
    )


def _data_name(record: dict[str, Any]) -> str:
    """The data set, with the options that differ from their defaults."""
    entry = find_entry(record["dataset"])
    given, options = record["recipe"]["data"], entry.options
    if entry is OWN_DATA:  # most of its options were told from the data
        options = {n: o for n, o in options.items() if n in ("split", "folds", "fold")}
    changed = [f"{n}={given[n]}" for n, o in options.items() if given.get(n) != o.default]
    return Path(record["dataset"]).name + (f" ({', '.join(changed)})" if changed else "")


def _method_name(record: dict[str, Any]) -> str:
    """Backbone and method, with the settings that differ from the shipped recipe."""
    method, backbone = record["method"], record["backbone"]
    shown = f"{NAMES.get(backbone, backbone)} + {METHODS[method].title}"
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


def _prediction(runs: list[dict[str, Any]]) -> str:
    """Accuracy or ROC AUC (also before fine-tuning, if there was any), or R² and mean absolute
    error."""
    if "r2" in runs[0]["test"]:
        error = summarise(run["test"]["mae"] for run in runs)
        return f"R² {_cell(runs, 'r2')}" + (
            f", MAE {error[0]:.2f} ± {error[1]:.2f}" if error else ""
        )
    # A post-hoc explainer leaves the answers as they are: there is no before and after.
    tuned = METHODS[runs[0]["method"]].reports == "best"
    before = [{"test": r["pretrained"]["test"]} for r in runs if tuned and r.get("pretrained")]
    metric, name = ("roc_auc", "AUC ") if "roc_auc" in runs[0]["test"] else ("accuracy", "")
    after = name + _cell(runs, metric)
    return f"{after} (before: {_cell(before, metric)})" if before else after


def _cell(runs: list[dict[str, Any]], metric: str) -> str:
    spread = summarise(run["test"].get(metric) for run in runs)
    return "–" if spread is None else f"{100 * spread[0]:.2f} ± {100 * spread[1]:.2f}"


def _paper(cell: paper.Cell | None) -> str:
    return "–" if cell is None else f"{cell[0]:.2f} ± {cell[1]:.2f}"


def write_between_marks(path: Path, table: str) -> None:
    """Replace what stands between the two result marks of a document."""
    begin, end = "<!-- results:begin -->\n", "<!-- results:end -->"
    text = path.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        raise GSATError(f"{path} has no marks {begin.strip()} and {end} to put the table between")
    head, rest = text.split(begin, 1)
    path.write_text(f"{head}{begin}\n{table}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")
