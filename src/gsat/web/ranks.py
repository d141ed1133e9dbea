"""Ranks within graphs: AUC of each graph, agreement of two models on each graph."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SHARE: Final = 0.2  # of a graph's edges, for the overlap of two explanations


def graph_ranks(values: NDArray[Any], ptr: NDArray[np.int64]) -> Floats:
    """Rank values within each graph from 1 on; equal values share their mean rank.

    Args:
        values: One per edge, ``[E]``.
        ptr: First edge of each graph, ``[G + 1]``.

    Returns:
        The ranks, ``[E]``.
    """
    counts = np.diff(ptr)
    graph = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((values, graph))
    ordered = values[order]
    place = np.arange(len(values)) - np.repeat(ptr[:-1], counts) + 1.0
    new = np.ones(len(values), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]) | (graph[1:] != graph[:-1])
    group = np.cumsum(new) - 1
    mean = np.bincount(group, place) / np.maximum(np.bincount(group), 1)
    out = np.empty(len(values))
    out[order] = mean[group] if len(values) else 0.0
    return out


def graph_aucs(scores: NDArray[Any], truth: NDArray[np.bool_], ptr: NDArray[np.int64]) -> Floats:
    """The explanation AUC of each graph.

    Args:
        scores: One per edge, ``[E]``.
        truth: Whether an edge is true, ``[E]``.
        ptr: First edge of each graph, ``[G + 1]``.

    Returns:
        ``[G]``; NaN for a graph without true edges, or without others.
    """
    counts = np.diff(ptr)
    graph = np.repeat(np.arange(len(counts)), counts)
    ranks = graph_ranks(scores, ptr)
    positive = np.bincount(graph, truth, len(counts))
    total = np.bincount(graph, ranks * truth, len(counts))
    pairs = positive * (counts - positive)
    with np.errstate(divide="ignore", invalid="ignore"):
        area = (total - positive * (positive + 1) / 2) / pairs
    return np.where(pairs > 0, area, np.nan)


def agreements(
    first: NDArray[Any], second: NDArray[Any], ptr: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """How far two models agree on each graph.

    Args:
        first: Scores of the edges by one, ``[E]``.
        second: By the other, ``[E]``.
        ptr: First edge of each graph, ``[G + 1]``.

    Returns:
        Spearman's rank correlation of the scores, ``[G]``, NaN where one of them is constant; and
        the overlap (intersection over union) of the fifth of the edges that each scores highest.
    """
    counts = np.diff(ptr)
    graph = np.repeat(np.arange(len(counts)), counts)
    a, b = graph_ranks(first, ptr), graph_ranks(second, ptr)
    middle = ((counts + 1) / 2)[graph]
    a0, b0 = a - middle, b - middle

    def sums(values: NDArray[Any]) -> Floats:
        return np.bincount(graph, values, len(counts)).astype(np.float64)

    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = sums(a0 * b0) / np.sqrt(sums(a0**2) * sums(b0**2))
    least = (counts - np.ceil(SHARE * counts))[graph]
    chosen_a, chosen_b = a > least, b > least
    union = sums(1.0 * (chosen_a | chosen_b))
    overlap = sums(1.0 * (chosen_a & chosen_b)) / np.maximum(union, 1)
    return correlation, np.where(union > 0, overlap, np.nan)
