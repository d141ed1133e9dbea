"""Ranks within graphs: AUC of each graph, agreement of two models on each graph."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.ranks import Floats, Ints, areas_within, correlations_within, ranks_within

SHARE: Final = 0.2  # of a graph's edges, for the overlap of two explanations


def graph_aucs(scores: NDArray[Any], truth: NDArray[np.bool_], ptr: NDArray[np.int64]) -> Floats:
    """The explanation AUC of each graph."""
    graph, count = _graphs(ptr)
    return areas_within(scores, truth, graph, count)


def agreements(
    first: NDArray[Any], second: NDArray[Any], ptr: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """How far two models agree on each graph."""
    graph, count = _graphs(ptr)
    a, b = (ranks_within(scores, graph, count) for scores in (first, second))
    correlation = correlations_within(a, b, graph, count)

    def number(chosen: NDArray[np.bool_]) -> Floats:
        return np.bincount(graph, chosen, count).astype(np.float64)

    counts = np.diff(ptr)
    least = (counts - np.ceil(SHARE * counts))[graph]
    chosen_a, chosen_b = a > least, b > least
    union = number(chosen_a | chosen_b)
    overlap = number(chosen_a & chosen_b) / np.maximum(union, 1)
    return correlation, np.where(union > 0, overlap, np.nan)


def _graphs(ptr: NDArray[np.int64]) -> tuple[Ints, int]:
    """The graph of each edge, ``[E]``, and the number of graphs."""
    counts = np.diff(ptr)
    return np.repeat(np.arange(len(counts)), counts), len(counts)
