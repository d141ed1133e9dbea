"""Ranks within segments of an array, and the areas under curves and correlations based on them.

A segment is a graph with its edges, or a task with its labels; ``segment`` holds the segment of
each value, ``[E]``. A split may have millions of edges and is measured after every epoch: most of
the time goes into the sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


def order_within(values: NDArray[Any], segment: Ints) -> Ints:
    """Sort values by segment, then by size; equal values of a segment in any order."""
    return np.argsort(_keys(values, segment))


def ranks_within(values: NDArray[Any], segment: Ints, count: int) -> Floats:
    """Rank values within their segments from 1 on; equal values share their mean rank."""
    keys = _keys(values, segment)
    order = np.argsort(keys)
    _, ties, mean = _tied(keys[order], segment, count)
    rank = np.empty(len(values))
    rank[order] = np.repeat(mean, ties)
    return rank


def areas_within(values: NDArray[Any], labels: NDArray[Any], segment: Ints, count: int) -> Floats:
    """The area under the ROC curve of each segment (Mann-Whitney); ties count one half."""
    size = np.bincount(segment, minlength=count)
    positive = np.bincount(segment, weights=labels, minlength=count)
    # The lowest bit holds the label, so that it is sorted along.
    labelled = np.sort(2 * _keys(values, segment) + labels.astype(np.int64))
    first, _, mean = _tied(labelled >> 1, segment, count)
    positive_here = np.add.reduceat(labelled & 1, first) if len(first) else first
    rank_sum = np.bincount(
        _segments(labelled[first] >> 1), weights=positive_here * mean, minlength=count
    )
    wins, pairs = rank_sum - positive * (positive + 1) / 2, positive * (size - positive)
    return np.divide(wins, pairs, out=np.full(count, np.nan), where=pairs > 0)


def correlations_within(first: Floats, second: Floats, segment: Ints, count: int) -> Floats:
    """Spearman's rank correlation of two scorings, by segment."""

    def total(values: Floats) -> Floats:
        return np.bincount(segment, weights=values, minlength=count).astype(np.float64)

    middle = (np.bincount(segment, minlength=count) + 1) / 2
    one, two = first - middle[segment], second - middle[segment]
    spread = np.sqrt(total(one**2) * total(two**2))
    return np.divide(total(one * two), spread, out=np.full(count, np.nan), where=spread > 0)


def agreement_within(scores: NDArray[Any], segment: Ints, count: int) -> Floats:
    """Mean rank correlation between several scorings, over all pairs of them, by segment."""
    middle = (np.bincount(segment, minlength=count) + 1) / 2
    total, defined = np.zeros(len(segment)), np.zeros(count)
    for row in scores:
        rank = ranks_within(row, segment, count) - middle[segment]
        length = np.sqrt(np.bincount(segment, weights=rank**2, minlength=count))
        defined += length > 0
        total += rank / np.where(length > 0, length, 1)[segment]
    # The squared length of a sum of unit vectors is their number plus twice all dot products.
    square = np.bincount(segment, weights=total**2, minlength=count)
    pairs = defined * (defined - 1)
    return np.divide(square - defined, pairs, out=np.full(count, np.nan), where=pairs > 0)


def upper_group_within(values: NDArray[Any], segment: Ints, count: int) -> NDArray[np.bool_]:
    """Mark the upper of the two groups that Otsu's method finds in each segment.

    The means of the two groups differ most, weighted by their sizes; of equally good groups, the
    smallest is marked.
    """
    order = order_within(-values, segment)
    sorted_values, group = values[order].astype(np.float64), segment[order]
    size = np.bincount(segment, minlength=count)
    first = np.cumsum(size) - size
    above = np.arange(len(values)) - first[group] + 1
    below = size[group] - above
    sums = np.concatenate([[0.0], np.cumsum(sorted_values)])
    upper = sums[1:] - sums[first[group]]
    lower = sums[(first + size)[group]] - sums[1:]
    gain = above * below * (upper / above - lower / np.maximum(below, 1)) ** 2
    gain[below == 0] = -1
    best = np.full(count, -np.inf)
    np.maximum.at(best, group, gain)
    last = np.full(count, len(values))
    winners = gain >= best[group]
    np.minimum.at(last, group[winners], above[winners])
    out = np.empty(len(values), dtype=bool)
    out[order] = above <= last[group]
    return out


def _keys(values: NDArray[Any], segment: Ints) -> NDArray[np.int64]:
    """Integers in the order of (segment, value), ``[E]``: one key sorts faster than two.

    With up to 2³⁰ segments they have 62 bits, so that a key can be doubled.
    """
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    if np.array_equal(narrow, values):  # float32 scores: floats of one sign are ordered like bits
        bits = narrow.view(np.int32).astype(np.int64)
        level = np.where(bits < 0, -(bits & 0x7FFF_FFFF), bits)
    else:
        level = np.unique(values, return_inverse=True)[1].reshape(-1)
    return (segment.astype(np.int64) << 32) + level


def _segments(keys: NDArray[np.int64]) -> Ints:
    """The segments of keys, whose levels are between -2³¹ and 2³¹."""
    return (keys + (1 << 31)) >> 32


def _tied(keys: NDArray[np.int64], segment: Ints, count: int) -> tuple[Ints, Ints, Floats]:
    """Start, length and mean rank of each run of equal keys among sorted ones."""
    new = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    first = np.flatnonzero(new)
    ties = np.diff(first, append=len(keys))
    size = np.bincount(segment, minlength=count)
    start = np.cumsum(size) - size
    return first, ties, first + (ties + 1) / 2 - start[_segments(keys[first])]
