"""Values that the templates of the pages show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from gsat.core.errors import GSATError
from gsat.draw.molecule import formula, formula_svg
from gsat.draw.pages import SHOWN, SIGNIFICANT, largest_effect, odds_factor
from gsat.draw.scales import DASHES, SPREADS, ColourScale, scale_colours
from gsat.explain.molecules import ExplainedMolecule
from gsat.explanation import Explanation
from gsat.metric_names import METRIC_TITLES
from gsat.training.members import member_recipes
from gsat.training.recipe import describe_origin
from gsat.training.run_audit import weaknesses
from gsat.training.run_files import shown_metrics
from gsat.web.charts import line_chart, mean_curves, member_logs, scatter, shown_curves
from gsat.web.library import LoadedRun
from gsat.web.pictures import (
    draw_picture,
    node_names,
    ranked_edges,
    unit_spreads,
    without_styles,
)
from gsat.web.requests import SORTS, SPLITS
from gsat.web.scored import ScoredSplit

HEATS: Final = 8  # shades of a confusion matrix
MAX_CLASSES: Final = 30  # of a confusion matrix
MAX_FEATURES: Final = 40  # columns of a table of node features
MAX_NODES: Final = 400  # rows of it
MAX_EDGES: Final = 500  # rows of the table of edges
FRAGMENTS: Final = 8
EXAMPLE: Final = (180, 130)  # size of a molecule among patterns

# -- overview -------------------------------------------------------------------------------------


def facts(loaded: LoadedRun) -> list[tuple[str, str]]:
    """Rows of the summary table."""
    run, recipe = loaded.run, loaded.run.recipe
    rows = [
        ("data", recipe.data.label),
        ("method", recipe.method),
        ("network", recipe.backbone.name),
        ("settings", describe_origin(recipe)),
    ]
    if recipe.members is not None:
        seeds = [member.seed for member in member_recipes(recipe).values()]
        rows.append(("members", f"{recipe.members}, with seeds {seeds[0]} to {seeds[-1]}"))
    else:
        rows.append(("seed", str(recipe.seed)))
        if run.finished:
            rows.append(("reported epoch", str(run.result["best_epoch"])))
    try:
        task = loaded.task
    except GSATError:  # there is no model yet
        return rows
    what = {
        "binary": "one of two classes",
        "multiclass": f"one of {task.classes} classes",
        "multilabel": f"{task.classes} labels",
        "regression": "a number",
    }
    rows.append(("predicts", f"{what[task.kind]} for each {task.level}"))
    if task.kind != "regression" and len(loaded.outputs) <= 12:
        name = "labels" if task.kind == "multilabel" else "classes"
        rows.append((name, ", ".join(loaded.outputs)))
    return rows


def score_table(loaded: LoadedRun) -> list[dict[str, Any]]:
    """Metrics of a finished run; of an ensemble also their mean and deviation over the members."""
    run = loaded.run
    if not run.finished:
        return []
    valid, test = (shown_metrics(part, has_truth=False) for part in (run.valid, run.test))
    each = [shown_metrics(one["test"], has_truth=False) for one in run.result.get("members", ())]
    rows = []
    for title in METRIC_TITLES.values():
        if title in test:
            values = [value for one in each if (value := one.get(title)) is not None]
            members = (float(np.mean(values)), float(np.std(values))) if values else None
            rows.append(
                {"title": title, "valid": valid.get(title), "test": test[title], "members": members}
            )
    return rows


def warnings(loaded: LoadedRun) -> list[str]:
    """Weaknesses of the model."""
    try:
        return weaknesses(loaded.run)
    except (GSATError, OSError):
        return []


def charts(loaded: LoadedRun) -> list[dict[str, Any]]:
    """Learning curves; of an ensemble, the mean over its members."""
    logs, log = member_logs(loaded.run), loaded.run.log
    selected = None
    if loaded.run.finished and not logs:
        # Epochs of a phase are counted from 0.
        first = next((i for i, line in enumerate(log) if line["phase"] == "train"), 0)
        selected = first + loaded.run.result["best_epoch"]
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
    """Count predicted and true classes; None without classes or labels."""
    single = scored.predicted.ndim == 1 and scored.task.kind in ("binary", "multiclass")
    if not single or scored.labels is None or len(outputs) > MAX_CLASSES:
        return None
    known = scored.right >= 0
    if not known.any():
        return None
    counts = np.zeros((len(outputs), len(outputs)), dtype=np.int64)
    true = scored.labels[known].astype(np.int64)
    np.add.at(counts, (true, scored.predicted[known].astype(np.int64)), 1)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    heat = np.ceil(share * (HEATS - 1)).astype(int)
    rows = [
        {
            "name": name,
            "cells": [
                {
                    "count": int(counts[t, p]),
                    "heat": int(heat[t, p]),
                    "true": t,
                    "predicted": p,
                    "share": float(share[t, p]),
                }
                for p in range(len(outputs))
            ],
        }
        for t, name in enumerate(outputs)
    ]
    return {"rows": rows, "names": list(outputs), "total": int(counts.sum())}


def predicted_against_true(scored: ScoredSplit) -> Markup | None:
    """Draw the numbers of a regression; None for other tasks, or without labels."""
    if scored.task.kind != "regression" or scored.labels is None:
        return None
    true, predicted = (
        values.reshape(len(scored), -1)[:, 0].astype(np.float64)
        for values in (scored.labels, scored.predicted)
    )
    return Markup(scatter(true, predicted))


# -- gallery --------------------------------------------------------------------------------------


def card_values(
    scored: ScoredSplit, row: int, outputs: Sequence[str], similarity: float | None = None
) -> dict[str, Any]:
    """Describe a row of a split, for a gallery."""
    return {
        "row": scored.number(row),
        "title": scored.title(row),
        "predicted": _in_words(scored, scored.predicted[row], outputs),
        "true": "" if scored.labels is None else _in_words(scored, scored.labels[row], outputs),
        "right": None if scored.right[row] < 0 else bool(scored.right[row]),
        "confidence": float(scored.confidence[row]),
        "auc": float(scored.auc[row]),
        "similarity": similarity,
    }


def _in_words(scored: ScoredSplit, value: Any, outputs: Sequence[str]) -> str:
    """Write a class, labels or numbers in words; empty where they are unknown."""
    values = np.asarray(value, dtype=np.float64).reshape(-1)
    known = ~np.isnan(values)
    if not known.any():
        return ""
    if scored.task.kind == "regression":
        return ", ".join(f"{v:.4g}" for v in values[known])
    if scored.predicted.ndim == 1:
        number = int(values[0])
        return outputs[number] if 0 <= number < len(outputs) else ""
    names = [outputs[i] for i in np.flatnonzero(values == 1).tolist()]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more or "none"


def sort_titles(scored: ScoredSplit, has_truth: bool) -> list[tuple[str, str]]:
    """What a gallery can be sorted by, with titles."""
    titles = {"auc": "explanation AUC", "value": "prediction"}
    left_out = {"confidence"} if scored.task.kind == "regression" else {"error", "value"}
    if not has_truth:
        left_out.add("auc")
    return [(name, titles.get(name, name)) for name in SORTS if name not in left_out]


def thumbnail(loaded: LoadedRun, split: str, row: int) -> str:
    """Draw a row of a split, small."""

    def make() -> str:
        explanation = loaded.explanation(split, row)
        return draw_picture(loaded, (split, row), explanation, small=True).svg

    return loaded.cached(("thumbnail", split, row), make, 12_000)


# -- one graph ------------------------------------------------------------------------------------


def graph_values(loaded: LoadedRun, split: str, row: int, top: int, truth: bool) -> dict[str, Any]:
    """Gather what the page of a graph shows."""
    scored, place = loaded.row(split, row)
    explanation = loaded.explanation(split, row)
    molecule = loaded.molecule(split, row)
    edges = ranked_edges(explanation)
    return {
        **picture_values(loaded, split, row, top, truth),
        "splits": SPLITS,
        "scored": scored,
        "card": card_values(scored, place, loaded.outputs),
        "edges": edges[:MAX_EDGES],
        "spreads": unit_spreads(explanation),
        "edge_count": len(edges),
        "bars": _bars(scored, place, loaded.outputs),
        "features": features(explanation),
        "molecule": molecule,
        "fragments": [] if molecule is None else _fragments(molecule),
        "size": loaded.count(split),
    }


def picture_values(
    loaded: LoadedRun, split: str, row: int, top: int, truth: bool
) -> dict[str, Any]:
    """Gather what the picture of a graph and its legend show."""
    explanation = loaded.explanation(split, row)
    count = explanation.num_units
    top = min(top, count)
    shown_top = top if 0 < top < count else None
    picture = draw_picture(loaded, (split, row), explanation, top=shown_top, truth=truth)
    return {
        "split": split,
        "row": row,
        "explanation": explanation,
        "picture": picture,
        "colours": scale_colours(5),
        "top": top,
        "count": count,
        "truth": truth,
        "has_truth": any(explanation.get(k) is not None for k in ("edge_truth", "node_truth")),
        "dashes": [] if explanation.get("edge_spread") is None else _dashes(),
    }


def _dashes() -> list[tuple[str, str]]:
    """Meaning and dash array of lines whose score is uncertain."""
    low, high = SPREADS
    texts = (f"members differ by {low:g} or more", f"by {high:g} or more")
    return [
        (text, " ".join(f"{3 * part:g}" for part in dash))
        for text, dash in zip(texts, DASHES[1:], strict=True)
    ]


def _fragments(molecule: ExplainedMolecule) -> list[dict[str, Any]]:
    fragments = molecule.fragments[:FRAGMENTS]
    effects = [molecule.effect(fragment) for fragment in fragments]
    longest = largest_effect(effects)
    return [
        {
            "fragment": fragment,
            "effect": effect,
            "odds": odds_factor(molecule.log_odds(fragment)),
            "bar": _bar(effect, longest),
        }
        for fragment, effect in zip(fragments, effects, strict=True)
    ]


def _bar(effect: float | None, longest: float) -> tuple[float, float] | None:
    """Start and length of the bar of an effect, in per cent."""
    if effect is None:
        return None
    length = 50 * min(abs(effect) / longest, 1) if longest else 0.0
    return (50.0 if effect >= 0 else 50 - length), length


def _bars(scored: ScoredSplit, row: int, outputs: Sequence[str]) -> list[tuple[str, float]]:
    """Probabilities of a row by name, the highest first."""
    probabilities = scored.probabilities[row]
    order = np.argsort(-probabilities, kind="stable")[:12]
    return [(outputs[i], float(probabilities[i])) for i in order.tolist() if i < len(outputs)]


def features(explanation: Explanation) -> dict[str, Any] | None:
    """Table of the node features of a graph; None without features."""
    x = explanation.get("x")
    if x is None or x.ndim != 2:
        return None
    names, types = node_names(explanation), explanation.get("node_types")
    columns = [str(i) for i in range(min(x.shape[1], MAX_FEATURES))]
    if types is not None and len(types) == x.shape[1]:
        columns = [str(name) for name in types[:MAX_FEATURES]]
    rows = [
        (names[i], [f"{value:g}" for value in values])
        for i, values in enumerate(x[:MAX_NODES, :MAX_FEATURES].tolist())
    ]
    cut = x.shape[0] > MAX_NODES or x.shape[1] > MAX_FEATURES
    return {"columns": columns, "rows": rows, "shape": list(x.shape), "cut": cut}


# -- patterns -------------------------------------------------------------------------------------


def pattern_values(loaded: LoadedRun, split: str) -> dict[str, Any]:
    """Gather what the page of patterns shows."""
    report = loaded.patterns(split)
    shown = [[p for p in group.patterns if p.odds_ratio > 1][:SHOWN] for group in report.groups]
    examples = sorted({i for patterns in shown for pattern in patterns for i in pattern.examples})
    scale = ColourScale.of([report.molecules[i].explanation for i in examples])
    groups = [
        {
            "name": group.name,
            "size": group.size,
            "total": group.total,
            "effect_of": report.info.effect_of(group.target),
            "patterns": [
                {
                    "pattern": pattern,
                    "significant": pattern.q_value <= SIGNIFICANT,
                    "examples": [_example(report.molecules[i], scale) for i in pattern.examples],
                }
                for pattern in patterns
            ],
        }
        for group, patterns in zip(report.groups, shown, strict=True)
    ]
    return {
        "groups": groups,
        "notes": report.info.notes,
        "tests": sum(len(group.patterns) for group in report.groups),
        "limit": SIGNIFICANT,
        "regression": report.info.regression,
    }


def _example(molecule: ExplainedMolecule, scale: ColourScale) -> dict[str, Any]:
    drawn = formula(molecule.explanation, molecule=molecule.molecule)
    svg = "" if drawn is None else formula_svg(drawn, scale, EXAMPLE, compact=True)
    return {
        "row": molecule.number,
        "svg": Markup(without_styles(svg)),
        "caption": molecule.explanation.caption().removeprefix("predicted "),
        "name": molecule.name or f"graph {molecule.number}",
    }
