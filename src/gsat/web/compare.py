"""Comparison of runs: agreement of their predictions and explanations, graph by graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from gsat.graphs.build import ranges
from gsat.ranks import Floats, Ints
from gsat.training.run_files import shown_metrics
from gsat.web.library import LoadedRun
from gsat.web.pictures import draw_picture
from gsat.web.requests import BadInputError, NotFoundError
from gsat.web.scored import ScoredSplit, agreement
from gsat.web.views import card_values

PAGE: Final = 24  # graphs in the list


@dataclass(frozen=True, eq=False)
class Comparison:
    """R runs on the G graphs that they have in common."""

    runs: Sequence[LoadedRun]
    splits: Sequence[ScoredSplit]  # of each run
    data_rows: Ints  # the graphs as rows of the data set, [G]
    rows: Ints  # the graphs as rows of each split, [R, G]
    correlation: Floats  # mean rank correlation of edge scores, [G]; NaN where undefined
    overlap: Floats  # mean overlap of the highest-scored fifth of the edges, [G]
    same: NDArray[np.bool_]  # whether all predict the same, [G]

    def most_different(self) -> Ints:
        """Order the graphs by agreement, the lowest first, ``[G]``."""
        return np.lexsort((self.overlap, np.nan_to_num(self.correlation, nan=np.inf)))


def compare(runs: Sequence[LoadedRun], split: str) -> Comparison:
    """Compare the predictions and explanations of runs."""
    if len(runs) < 2:
        raise BadInputError("a comparison needs at least two runs")
    if any(run.task.level == "node" for run in runs):
        raise BadInputError("explanations of nodes can't be compared here: choose runs on graphs")
    if len({run.run.dataset.hash for run in runs}) > 1:
        names = ", ".join(f"{run.name} ({run.run.recipe.data.label})" for run in runs)
        raise BadInputError(f"only runs on the same data can be compared, not {names}")
    splits = [run.split(split) for run in runs]
    common = splits[0].store.index
    for scored in splits[1:]:
        common = np.intersect1d(common, scored.store.index)
    if not len(common):
        raise BadInputError(
            f"the runs have no graph of the split '{split}' in common: they were split by "
            "different seeds; compare them on the split 'all'"
        )
    rows = np.stack([_positions(scored.store.index, common) for scored in splits])
    counts = splits[0].store.edge_counts[rows[0]]
    ptr = np.concatenate([[0], np.cumsum(counts)])
    scores = [
        scored.scores[ranges(scored.edge_ptr[positions], counts)]
        for scored, positions in zip(splits, rows, strict=True)
    ]
    pairs = [agreement(first, second, ptr) for first, second in combinations(scores, 2)]
    predicted = [scored.predicted[at] for scored, at in zip(splits, rows, strict=True)]
    same = np.ones(len(common), dtype=bool)
    for other in predicted[1:]:
        same &= np.isclose(other, predicted[0]).reshape(len(common), -1).all(axis=1)
    correlation, overlap = np.mean(pairs, axis=0)
    return Comparison(runs, splits, common, rows, correlation, overlap, same)


def comparison_values(
    comparison: Comparison, split: str, row: int | None, page: int
) -> dict[str, Any]:
    """Gather what the page of a comparison shows."""
    order = comparison.most_different()
    pages = max(1, -(-len(order) // PAGE))
    page = min(page, pages)
    first_rows = comparison.rows[0]
    place = int(order[0])
    if row is not None:
        places = np.flatnonzero(first_rows == row)
        if not len(places):
            raise NotFoundError(f"the runs do not have graph {row} in common")
        place = int(places[0])
    names = [run.name for run in comparison.runs]
    scores = [
        {"name": run.name, "scores": shown_metrics(run.run.test, has_truth=False)}
        for run in comparison.runs
        if run.run.finished
    ]
    return {
        "runs": scores,
        "titles": list(dict.fromkeys(title for run in scores for title in run["scores"])),
        "names": names,
        "split": split,
        "query": urlencode([*(("run", name) for name in names), ("split", split)]),
        "count": len(order),
        "page": page,
        "pages": pages,
        "mean_correlation": _mean(comparison.correlation),
        "mean_overlap": _mean(comparison.overlap),
        "same": float(comparison.same.mean()),
        "place": _agreement_of(comparison, place),
        "pictures": [_picture(comparison, number, place, split) for number in range(len(names))],
        "listed": [
            _agreement_of(comparison, int(i)) for i in order[(page - 1) * PAGE : page * PAGE]
        ],
        "previous": int(first_rows[place - 1]) if place > 0 else None,
        "following": int(first_rows[place + 1]) if place + 1 < len(order) else None,
    }


def _agreement_of(comparison: Comparison, place: int) -> dict[str, Any]:
    row = int(comparison.rows[0][place])
    return {
        "row": row,
        "title": comparison.splits[0].title(row),
        "correlation": float(comparison.correlation[place]),
        "overlap": float(comparison.overlap[place]),
        "same": bool(comparison.same[place]),
    }


def _picture(comparison: Comparison, number: int, place: int, split: str) -> dict[str, Any]:
    """Draw one run's explanation of a graph; all runs share the layout."""
    run, row = comparison.runs[number], int(comparison.rows[number][place])
    explanation = run.explanation(split, row)
    key = ("data", int(comparison.data_rows[place]))
    picture = draw_picture(comparison.runs[0], key, explanation)
    card = card_values(comparison.splits[number], row, run.outputs)
    return {"run": run, "card": card, "picture": picture}


def _positions(index: Ints, rows: Ints) -> Ints:
    """Find the position of each row in an index."""
    order = np.argsort(index, kind="stable")
    return order[np.searchsorted(index, rows, sorter=order)]


def _mean(values: Floats) -> float:
    defined = values[np.isfinite(values)]
    return float(defined.mean()) if len(defined) else float("nan")
