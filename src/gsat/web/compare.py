"""Runs beside each other: how far their explanations agree, graph by graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gsat.graphs.build import ranges
from gsat.web.errors import BadInputError
from gsat.web.loaded import LoadedRun
from gsat.web.ranks import agreements
from gsat.web.scored import ScoredSplit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Runs on the graphs that they have in common.

    Attributes:
        runs: The runs, at least two.
        splits: The split of each of them.
        data_rows: The graphs as rows of the data set, ``[G]``.
        rows: The same as rows of each split, ``[R, G]``.
        correlation: Spearman's rank correlation of the edge scores, a mean over pairs of runs,
            ``[G]``; NaN where a run scores all edges alike.
        overlap: Overlap of the highest-scored fifth of the edges, a mean over pairs, ``[G]``.
        same: Whether all predict the same, ``[G]``.
    """

    runs: Sequence[LoadedRun]
    splits: Sequence[ScoredSplit]
    data_rows: Ints
    rows: Ints
    correlation: Floats
    overlap: Floats
    same: NDArray[np.bool_]

    def most_different(self) -> Ints:
        """Order the graphs: those on which the runs disagree most come first, ``[G]``."""
        return np.lexsort((self.overlap, np.nan_to_num(self.correlation, nan=np.inf)))


def compare(runs: Sequence[LoadedRun], split: str) -> Comparison:
    """Compare the explanations of runs."""
    if len(runs) < 2:
        raise BadInputError("a comparison needs at least two runs")
    if any(run.task.level == "node" for run in runs):
        raise BadInputError("explanations of nodes can't be compared here: choose runs on graphs")
    hashes = {run.run.dataset.hash for run in runs}
    if len(hashes) > 1:
        names = ", ".join(f"{run.name} ({run.run.recipe.data.label})" for run in runs)
        raise BadInputError(f"only runs on the same data can be compared, not {names}")
    splits = [run.split(split) for run in runs]
    common = splits[0].store.index
    for scored in splits[1:]:
        common = np.intersect1d(common, scored.store.index)
    if not len(common):
        raise BadInputError(
            f"the runs have no graph of the split '{split}' in common: they were split by other "
            "seeds; compare them on the split 'all'"
        )
    rows = np.stack([_positions(scored.store.index, common) for scored in splits])
    counts = splits[0].store.edge_counts[rows[0]]
    ptr = np.concatenate([[0], np.cumsum(counts)])
    scores = [
        scored.scores[ranges(scored.edge_ptr[own], counts)]
        for scored, own in zip(splits, rows, strict=True)
    ]
    pairs = [agreements(first, second, ptr) for first, second in combinations(scores, 2)]
    decided = [scored.decided[own] for scored, own in zip(splits, rows, strict=True)]
    same = np.ones(len(common), dtype=bool)
    for other in decided[1:]:
        equal = np.isclose(other, decided[0]).reshape(len(common), -1)
        same &= equal.all(axis=1)
    return Comparison(
        runs=runs,
        splits=splits,
        data_rows=common,
        rows=rows,
        correlation=np.mean([pair[0] for pair in pairs], axis=0),
        overlap=np.mean([pair[1] for pair in pairs], axis=0),
        same=same,
    )


def _positions(index: Ints, wanted: Ints) -> Ints:
    """Where each of the wanted rows is in an index."""
    order = np.argsort(index, kind="stable")
    return order[np.searchsorted(index, wanted, sorter=order)]
