"""Values that the templates of the pages show."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from gsat.core.errors import GSATError
from gsat.draw.pages import largest_effect, odds_factor
from gsat.draw.scales import DASHES, SPREADS, scale_colours
from gsat.explanation import Explanation
from gsat.metric_names import shown_metrics
from gsat.training.members import member_recipes
from gsat.training.recipe import describe_origin
from gsat.web.charts import line_chart, mean_curves, member_logs, scatter, selected_epoch
from gsat.web.library import LoadedRun
from gsat.web.pictures import (
    draw_picture,
    node_names,
    ranked_edges,
    unit_spreads,
)
from gsat.web.requests import SORTS, SPLITS
from gsat.web.scored import ScoredSplit

MAX_CLASSES: Final = 30  # in a confusion matrix
MAX_FEATURES: Final = 40  # columns of the table of node features
MAX_NODES: Final = 400  # rows of the table of node features
MAX_EDGES: Final = 500  # rows of the table of edges
FRAGMENTS: Final = 8

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
    for title, value in test.items():
        values = [score for member in each if (score := member.get(title)) is not None]
        members = (float(np.mean(values)), float(np.std(values))) if values else None
        rows.append({"title": title, "valid": valid.get(title), "test": value, "members": members})
    return rows


def warnings(loaded: LoadedRun) -> list[str]:
    """Weaknesses of the model."""
    try:
        return loaded.run.weaknesses()
    except (GSATError, OSError):
        return []


def charts(loaded: LoadedRun) -> list[dict[str, Any]]:
    """Learning curves; of an ensemble, the mean over its members."""
    members, selected = member_logs(loaded.run), selected_epoch(loaded.run)
    return [
        {
            "title": title,
            "members": len(members),
            "names": list(lines),
            "svg": Markup(line_chart(title, lines, selected=selected)),
        }
        for title, lines in mean_curves(members or [loaded.run.log]).items()
    ]


def confusion(scored: ScoredSplit) -> NDArray[np.int64] | None:
    """Count graphs by true and predicted class, ``[C, C]``; None without classes or labels."""
    single = scored.predicted.ndim == 1 and scored.task.kind in ("binary", "multiclass")
    known = scored.right >= 0
    if not single or scored.labels is None or not known.any() or len(scored.outputs) > MAX_CLASSES:
        return None
    counts = np.zeros((len(scored.outputs),) * 2, dtype=np.int64)
    classes = (scored.labels[known], scored.predicted[known])
    np.add.at(counts, tuple(values.astype(np.int64) for values in classes), 1)
    return counts


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


def sort_titles(scored: ScoredSplit, has_truth: bool) -> list[tuple[str, str]]:
    """Sort keys of a gallery, with titles."""
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
    fragments = []
    if molecule is not None:
        fragments = [
            (fragment, molecule.effect(fragment), odds_factor(molecule.log_odds(fragment)))
            for fragment in molecule.fragments[:FRAGMENTS]
        ]
    return {
        **picture_values(loaded, split, row, top, truth),
        "splits": SPLITS,
        "scored": scored,
        "place": place,
        "edges": edges[:MAX_EDGES],
        "spreads": unit_spreads(explanation),
        "edge_count": len(edges),
        "bars": _bars(scored, place),
        "features": features(explanation),
        "molecule": molecule,
        "fragments": fragments,
        "longest": largest_effect([effect for _, effect, _ in fragments]),
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


def _bars(scored: ScoredSplit, row: int) -> list[tuple[str, float]]:
    """Probabilities of a row by name, the highest first."""
    named = zip(scored.outputs, scored.probabilities[row].tolist(), strict=False)
    return sorted(named, key=lambda pair: -pair[1])[:12]


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
