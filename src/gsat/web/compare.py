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
from gsat.metric_names import shown_metrics
from gsat.ranks import Floats, Ints
from gsat.web.library import LoadedRun
from gsat.web.pictures import Picture, draw_picture
from gsat.web.requests import BadInputError, NotFoundError
from gsat.web.scored import ScoredSplit, agreement

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
    rows = np.stack([np.intersect1d(common, s.store.index, return_indices=True)[2] for s in splits])
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
    order, first_rows = comparison.most_different(), comparison.rows[0]
    pages = max(1, -(-len(order) // PAGE))
    page = min(page, pages)
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
        "comparison": comparison,
        "runs": scores,
        "titles": list(dict.fromkeys(title for run in scores for title in run["scores"])),
        "names": names,
        "split": split,
        "query": urlencode([*(("run", name) for name in names), ("split", split)]),
        "page": page,
        "pages": pages,
        "mean_correlation": _mean(comparison.correlation),
        "mean_overlap": _mean(comparison.overlap),
        "place": place,
        "pictures": _pictures(comparison, place, split),
        "listed": order[(page - 1) * PAGE : page * PAGE].tolist(),
    }


def _pictures(comparison: Comparison, place: int, split: str) -> list[Picture]:
    """Draw each run's explanation of a graph, in one layout."""
    key = ("data", int(comparison.data_rows[place]))
    rows = comparison.rows[:, place].tolist()
    return [
        draw_picture(comparison.runs[0], key, run.explanation(split, row))
        for run, row in zip(comparison.runs, rows, strict=True)
    ]


def _mean(values: Floats) -> float:
    defined = values[np.isfinite(values)]
    return float(defined.mean()) if len(defined) else float("nan")
