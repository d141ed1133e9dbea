"""Prediction and explanation metrics.

Functions of arrays: they take whatever :func:`numpy.asarray` accepts, CPU tensors included.
An undefined value (a single class, no labels, no graphs) is ``None``, which JSON writes as
``null``, never 0 or NaN. Entries whose target is NaN are missing and do not count. NaN or infinite
scores and predictions, labels other than 0 and 1, and shapes that do not match raise
:class:`ValueError`. Shapes: ``G`` graphs, ``T`` tasks or predicted numbers, ``E`` stored edges;
graph ``g`` owns the edges ``ptr[g]:ptr[g + 1]``, and ``truth`` is 1 for the edges of its true
explanation, else 0.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from gsat.ranks import (
    Floats,
    Ints,
    areas_within,
    correlations_within,
    order_within,
    ranks_within,
)


def accuracy(predicted: ArrayLike, target: ArrayLike) -> float | None:
    """Compute the share of correct predictions; any shape.

    Example:
        >>> accuracy([0, 1, 1, 0, 1], [0, 1, 0, 0, float("nan")])
        0.75
    """
    guess, truth = _labelled(predicted, target)
    return float(np.mean(guess == truth)) if len(truth) else None


def roc_auc(scores: ArrayLike, target: ArrayLike) -> float | None:
    """Compute the area under the ROC curve of scores of class 1, ``[G]`` or ``[G, T]``.

    Ties count one half. As in OGB, it is the mean over tasks whose labels have both classes.

    Example:
        >>> roc_auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        0.75
        >>> roc_auc([[0.1, 0.5], [0.9, 0.5], [0.2, 0.5]], [[0, 1], [1, 1], [0, float("nan")]])
        1.0
    """
    values, truth = _pair(scores, target)
    _require(values.ndim in (1, 2), f"scores must have shape [G] or [G, T], got {values.shape}")
    if values.ndim == 1:
        values, truth = values[:, None], truth[:, None]
    kept = ~np.isnan(truth)
    _require(np.isin(truth[kept], (0, 1)).all(), "target must hold only 0, 1 and NaN")
    return _mean_defined(
        areas_within(values[kept], truth[kept], np.nonzero(kept)[1], values.shape[1])
    )


def explanation_auc(scores: ArrayLike, truth: ArrayLike) -> float | None:
    """Compute the explanation AUC: one ROC area over the pooled edges of all graphs, ``[E]``.

    Example:
        >>> explanation_auc([0.9, 0.2, 0.6, 0.6], [True, False, True, False])
        0.875
    """
    values, labels = _edges(scores, truth)
    return _mean_defined(areas_within(values, labels, np.zeros(len(values), dtype=np.intp), 1))


def mean_graph_auc(scores: ArrayLike, truth: ArrayLike, ptr: ArrayLike) -> float | None:
    """Average the explanation AUC of single graphs, over graphs that have both kinds of edge.

    Example:
        >>> mean_graph_auc([0.9, 0.2, 0.6, 0.6, 0.3], [1, 0, 1, 0, 0], [0, 2, 4, 5])
        0.75
    """
    values, labels = _edges(scores, truth)
    graph, start = _graph_of_edge(ptr, len(values))
    return _mean_defined(areas_within(values, labels, graph, len(start)))


def precision_at_k(scores: ArrayLike, truth: ArrayLike, ptr: ArrayLike, k: int = 5) -> float | None:
    """Average the share of true edges among the ``k`` highest-scored ones over all graphs.

    Of equal scores, the edge stored first counts. The divisor is ``k`` even for graphs with fewer
    edges, and a graph without edges counts as 0.

    Example:
        >>> precision_at_k([0.9, 0.5, 0.5, 0.1], [1, 0, 1, 0], [0, 3, 4], k=2)
        0.25
    """
    _require(k >= 1, f"k must be at least 1, got {k}")
    values, labels = _edges(scores, truth)
    graph, start = _graph_of_edge(ptr, len(values))
    if len(values) == 0:
        return None
    # Keep the edges that score at least the k-th best of their graph: few are left to be sorted.
    size = np.bincount(graph, minlength=len(start))
    last = np.minimum(start + k, start + size) - 1
    least = np.full(len(start), -np.inf)
    least[size > 0] = values[order_within(-values, graph)[last[size > 0]]]
    best = np.flatnonzero(values >= least[graph])
    values, graph = values[best], graph[best]
    order = np.lexsort((-values, graph))  # stable; `graph` is sorted, so graph[order] is graph
    top = np.arange(len(best)) - np.searchsorted(graph, graph) < k
    return float(labels[best][order][top].sum() / (k * len(start)))


def top_n(scores: ArrayLike, truth: ArrayLike, ptr: ArrayLike) -> float | None:
    """Average the share of the n true nodes or edges among the n highest-scored ones over graphs.

    Graphs without a true explanation do not count. Where equal scores compete for the last places,
    each counts with the share of them that fits.

    Example:
        >>> top_n([0.9, 0.8, 0.1, 0.5, 0.5], [1, 0, 1, 1, 0], [0, 3, 5])
        0.5
    """
    values, labels = _edges(scores, truth)
    starts, shares = np.asarray(ptr, dtype=np.int64), []
    for first, last in pairwise(starts):
        here, true = values[first:last], labels[first:last] > 0
        count = int(true.sum())
        if not count:
            continue
        least = np.sort(here)[::-1][count - 1]
        above, level = here > least, here == least
        room = (count - above.sum()) / level.sum()
        shares.append((true[above].sum() + room * true[level].sum()) / count)
    return float(np.mean(shares)) if shares else None


def mean_graph_correlation(first: ArrayLike, second: ArrayLike, ptr: ArrayLike) -> float | None:
    """Average Spearman's rank correlation of two scorings of the same edges over graphs.

    Graphs in which a scoring is constant do not count.

    Example:
        >>> mean_graph_correlation([0.1, 0.5, 0.9, 0.3, 0.3], [1, 2, 3, 5, 4], [0, 3, 5])
        1.0
    """
    one, two = _pair(first, second)
    _require(one.ndim == 1 and bool(np.isfinite(two).all()), "scores must be finite, [E]")
    graph, start = _graph_of_edge(ptr, len(one))
    first_ranks, second_ranks = (ranks_within(values, graph, len(start)) for values in (one, two))
    return _mean_defined(correlations_within(first_ranks, second_ranks, graph, len(start)))


def r2(pred: ArrayLike, target: ArrayLike) -> float | None:
    """Compute the coefficient of determination of numbers ``[G]``; undefined for constant targets.

    Example:
        >>> r2([2.0, 1.0, 3.0, 9.0], [1.0, 1.0, 3.0, float("nan")])
        0.625
    """
    _require(np.shape(pred)[1:] in ((), (1,)), "pred must have shape [G] or [G, 1]")
    guess, truth = _labelled(pred, target)
    if len(truth) == 0 or truth.min() == truth.max():  # a rounded mean would hide a constant
        return None
    return float(1 - np.sum((guess - truth) ** 2) / np.sum((truth - truth.mean()) ** 2))


def mae(pred: ArrayLike, target: ArrayLike) -> float | None:
    """Compute the mean absolute error; any shape.

    Example:
        >>> mae([2.5, 0.0, 7.0], [3.0, -1.0, float("nan")])
        0.75
    """
    guess, truth = _labelled(pred, target)
    return float(np.mean(np.abs(guess - truth))) if len(truth) else None


def rmse(pred: ArrayLike, target: ArrayLike) -> float | None:
    """Compute the root mean squared error; any shape.

    Example:
        >>> rmse([2.0, 0.0, 7.0], [5.0, -4.0, float("nan")])
        3.5355339059327378
    """
    guess, truth = _labelled(pred, target)
    return float(np.sqrt(np.mean((guess - truth) ** 2))) if len(truth) else None


def spearman(first: ArrayLike, second: ArrayLike) -> float | None:
    """Compute Spearman's rank correlation of two scorings; ties share their mean rank.

    Example:
        >>> round(spearman([0.1, 0.5, 0.9, 0.9], [1, 2, 3, 3]), 6)
        1.0
    """
    one, two = np.asarray(first), np.asarray(second)
    if len(one) < 2 or one.min() == one.max() or two.min() == two.max():
        return None
    whole = np.zeros(len(one), dtype=np.intp)
    ranks = np.column_stack([ranks_within(values, whole, 1) for values in (one, two)])
    return float(np.asarray(np.corrcoef(ranks, rowvar=False))[1, 0])


def better(
    metric: float | None, loss: float | None, best_metric: float | None, best_loss: float | None
) -> bool:
    """Whether an epoch replaces the best one: greater metric, or equal and lower loss.

    A metric or loss that is None or NaN loses against every other one.

    Example:
        >>> better(0.9, 0.5, 0.8, 0.1), better(0.9, 0.5, 0.9, 0.6), better(0.9, 0.5, 0.9, 0.5)
        (True, True, False)
    """
    if metric is None or math.isnan(metric):
        return False
    if best_metric is None or math.isnan(best_metric) or metric > best_metric:
        return True
    if metric < best_metric or loss is None or math.isnan(loss):
        return False
    return best_loss is None or math.isnan(best_loss) or loss < best_loss


def _require(ok: bool | np.bool_, message: str) -> None:
    if not ok:
        raise ValueError(message)


def _pair(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    _require(a.shape == b.shape, f"shapes do not match: {a.shape} and {b.shape}")
    bad = np.count_nonzero(~np.isfinite(a))
    _require(bad == 0, f"{bad} of {a.size} scores or predictions are NaN or infinite")
    _require(not np.isinf(b).any(), "targets must not be infinite")
    return a, b


def _labelled(pred: ArrayLike, target: ArrayLike) -> tuple[Floats, Floats]:
    guess, truth = _pair(pred, target)
    kept = ~np.isnan(truth)
    return guess[kept], truth[kept]


def _edges(scores: ArrayLike, truth: ArrayLike) -> tuple[Floats, Floats]:
    values, labels = _pair(scores, truth)
    _require(values.ndim == 1, f"scores must have shape [E], got {values.shape}")
    _require(((labels == 0) | (labels == 1)).all(), "truth must hold only 0 and 1")
    return values, labels


def _graph_of_edge(ptr: ArrayLike, edges: int) -> tuple[Ints, Ints]:
    """The graph of each edge, ``[E]`` and sorted, and the first edge of each graph, ``[G]``."""
    bounds = np.asarray(ptr)
    whole = bounds.ndim == 1 and bounds.size > 0 and bounds.dtype.kind in "iu"
    _require(whole, "ptr must be integers of shape [G + 1]")
    start, stop = bounds[:-1].astype(np.intp), bounds[1:].astype(np.intp)
    rises = bounds[0] == 0 and bounds[-1] == edges and (start <= stop).all()
    _require(rises, f"ptr must increase from 0 to the number of edges ({edges})")
    return np.repeat(np.arange(len(start)), stop - start), start


def _mean_defined(values: Floats) -> float | None:
    defined = values[~np.isnan(values)]
    return float(np.mean(defined)) if len(defined) else None
