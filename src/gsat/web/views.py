"""What the pages show: values for the templates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from gsat.core.errors import GSATError
from gsat.explanation import Explanation
from gsat.metric_names import METRIC_TITLES
from gsat.training.members import member_recipes
from gsat.training.recipe import describe_origin
from gsat.training.run_audit import weaknesses
from gsat.training.run_files import shown_metrics
from gsat.web.charts import line_chart, scatter
from gsat.web.curves import mean_curves, member_logs, shown_curves
from gsat.web.loaded import LoadedRun
from gsat.web.pictures import Picture, draw_picture, node_names
from gsat.web.scored import ScoredSplit

HEATS: Final = 8  # shades of a confusion matrix
MOST_CLASSES: Final = 30  # of a confusion matrix
MOST_FEATURES: Final = 40  # columns of a table of node features
MOST_NODES: Final = 400


@dataclass(frozen=True)
class Card:
    """A graph in a gallery.

    Attributes:
        row: Its row in the split.
        title: Its name.
        predicted: The prediction.
        true: What is true; empty if unknown.
        right: Whether the prediction is right; None if unknown.
        confidence: Its probability; NaN in regression.
        auc: Explanation AUC; NaN if undefined.
        similarity: Similarity to another graph, if that is why it is shown.
    """

    row: int
    title: str
    predicted: str
    true: str
    right: bool | None
    confidence: float
    auc: float
    similarity: float | None = None


def card(scored: ScoredSplit, row: int, outputs: Sequence[str], near: float | None = None) -> Card:
    """Describe a row of a split."""
    return Card(
        row=scored.number(row),
        title=scored.title(row),
        predicted=in_words(scored, scored.decided[row], outputs),
        true="" if scored.labels is None else in_words(scored, scored.labels[row], outputs),
        right=None if scored.right[row] < 0 else bool(scored.right[row]),
        confidence=float(scored.confidence[row]),
        auc=float(scored.auc[row]),
        similarity=near,
    )


def in_words(scored: ScoredSplit, value: Any, outputs: Sequence[str]) -> str:
    """Write a class, labels or numbers in words; empty where they are not known."""
    values = np.asarray(value, dtype=np.float64).reshape(-1)
    known = ~np.isnan(values)
    if not known.any():
        return ""
    if scored.task.kind == "regression":
        shown = [f"{v:.4g}" for v in values[known]]
        return ", ".join(shown)
    if scored.decided.ndim == 1:
        place = int(values[0])
        return outputs[place] if 0 <= place < len(outputs) else ""
    on = [outputs[i] for i in np.flatnonzero(values == 1).tolist()]
    return ", ".join(on[:3]) + (f" and {len(on) - 3} more" if len(on) > 3 else "") or "none"


@dataclass(frozen=True)
class Score:
    """A metric of a finished run.

    Attributes:
        title: Its name.
        valid: On validation data.
        test: On test data.
        members: Mean and standard deviation on test data over the members of an ensemble, each by
            itself. (default: ``None``)
    """

    title: str
    valid: float | None
    test: float | None
    members: tuple[float, float] | None = None


def score_table(loaded: LoadedRun) -> list[Score]:
    """Metrics of a finished run."""
    run = loaded.run
    if not run.finished:
        return []
    valid, test = (shown_metrics(part, has_truth=False) for part in (run.valid, run.test))
    each = [shown_metrics(one["test"], has_truth=False) for one in run.result.get("members", ())]
    return [
        Score(title, valid.get(title), test.get(title), _mean_of(one.get(title) for one in each))
        for title in METRIC_TITLES.values()
        if title in test
    ]


def _mean_of(values: Iterable[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (float(np.mean(known)), float(np.std(known))) if known else None


def facts(loaded: LoadedRun) -> list[tuple[str, str]]:
    """What was trained on what."""
    run, recipe = loaded.run, loaded.run.recipe
    out = [
        ("data", recipe.data.label),
        ("method", recipe.method),
        ("network", recipe.backbone.name),
        ("settings", describe_origin(recipe)),
    ]
    if recipe.members is not None:
        seeds = [member.seed for member in member_recipes(recipe).values()]
        out.append(("members", f"{recipe.members}, with seeds {seeds[0]} to {seeds[-1]}"))
    else:
        out.append(("seed", str(recipe.seed)))
    if run.finished and recipe.members is None:
        out.append(("reported epoch", str(run.result["best_epoch"])))
    try:
        task = loaded.task
    except GSATError:  # it has no model yet
        return out
    what = {"binary": "one of two classes", "multiclass": f"one of {task.classes} classes",
            "multilabel": f"{task.classes} labels", "regression": "a number"}  # fmt: skip
    per = f"for each {task.level}"
    out.append(("predicts", f"{what.get(task.kind, task.kind)} {per}"))
    if task.kind != "regression" and len(loaded.outputs) <= 12:
        out.append(
            ("classes" if task.kind != "multilabel" else "labels", ", ".join(loaded.outputs))
        )
    return out


def notes(loaded: LoadedRun) -> list[str]:
    """Where the model is weak."""
    try:
        return weaknesses(loaded.run)
    except (GSATError, OSError):
        return []


def charts(loaded: LoadedRun) -> list[dict[str, Any]]:
    """Learning curves; of an ensemble, the mean of those of its members."""
    logs = member_logs(loaded.run)
    log = loaded.run.log
    single = loaded.run.finished and not logs
    selected = loaded.run.result["best_epoch"] if single else None
    first = next((i for i, line in enumerate(log) if line["phase"] == "train"), 0)
    if selected is not None:
        selected += first  # epochs of a phase are counted from 0
    return [
        {
            "title": title,
            "members": len(logs),
            "names": list(lines),
            "svg": Markup(line_chart(title, lines, selected=selected)),
        }
        for title, lines in (mean_curves(logs) if logs else shown_curves(log))
    ]


def confusion(scored: ScoredSplit, outputs: Sequence[str]) -> dict[str, Any] | None:
    """Count predicted and true classes; None if these are no classes, or are not known."""
    one_each = scored.decided.ndim == 1 and scored.task.kind in ("binary", "multiclass")
    if not one_each or scored.labels is None or len(outputs) > MOST_CLASSES:
        return None
    known = scored.right >= 0
    if not known.any():
        return None
    counts = np.zeros((len(outputs), len(outputs)), dtype=np.int64)
    true = scored.labels[known].astype(np.int64)
    np.add.at(counts, (true, scored.decided[known].astype(np.int64)), 1)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    heat = np.ceil(share * (HEATS - 1)).astype(int)
    rows = [
        {
            "name": outputs[t],
            "cells": [
                {"count": int(counts[t, p]), "heat": int(heat[t, p]), "true": t, "predicted": p,
                 "share": float(share[t, p])}
                for p in range(len(outputs))
            ],
        }
        for t in range(len(outputs))
    ]  # fmt: skip
    return {"rows": rows, "names": list(outputs), "total": int(counts.sum())}


def predicted_against_true(scored: ScoredSplit) -> Markup | None:
    """Draw the numbers of a regression; None if it is none, or the truth is not known."""
    if scored.task.kind != "regression" or scored.labels is None:
        return None
    true = scored.labels.reshape(len(scored), -1)[:, 0].astype(np.float64)
    predicted = scored.decided.reshape(len(scored), -1)[:, 0].astype(np.float64)
    return Markup(scatter(true, predicted))


def bars(scored: ScoredSplit, row: int, outputs: Sequence[str]) -> list[tuple[str, float]]:
    """Probabilities of a row by name, the highest first."""
    probabilities = scored.probabilities[row]
    order = np.argsort(-probabilities, kind="stable")[:12]
    return [(outputs[i], float(probabilities[i])) for i in order.tolist() if i < len(outputs)]


def features(explanation: Explanation) -> dict[str, Any] | None:
    """The node features of a graph as a table; None if it has none."""
    x = explanation.get("x")
    if x is None or x.ndim != 2:
        return None
    names = node_names(explanation)
    types = explanation.get("node_types")
    rows = []
    for i, values in enumerate(x[:MOST_NODES, :MOST_FEATURES].tolist()):
        rows.append((names[i], [f"{value:g}" for value in values]))
    columns = [str(i) for i in range(min(x.shape[1], MOST_FEATURES))]
    if types is not None and len(types) == x.shape[1]:
        columns = [str(name) for name in types[:MOST_FEATURES]]
    cut = x.shape[0] > MOST_NODES or x.shape[1] > MOST_FEATURES
    return {"columns": columns, "rows": rows, "shape": list(x.shape), "cut": cut}


def picture_of(
    loaded: LoadedRun, split: str, row: int, *, top: int | None, truth: bool
) -> tuple[Picture, Markup]:
    """Draw a row of a split, large."""
    explanation = loaded.explanation(split, row)
    made = draw_picture(loaded, (split, row), explanation, top=top, truth=truth)
    return made, Markup(made.svg)


def thumbnail(loaded: LoadedRun, split: str, row: int) -> str:
    """Draw a row of a split, small."""

    def make() -> str:
        explanation = loaded.explanation(split, row)
        return draw_picture(loaded, (split, row), explanation, small=True).svg

    return loaded.kept(("thumbnail", split, row), make, 12_000)


def caption(explanation: Explanation) -> str:
    """The prediction and the truth in words."""
    return explanation.caption()
