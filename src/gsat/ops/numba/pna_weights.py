"""The weights of a PNA layer, merged for each kind of node, and their gradients split again.

The rows are those of :mod:`gsat.ops.numba.pna_rows`. A block of a row stands for several of the
five aggregations at once, and its weights are a sum of theirs, with the factors of
:func:`block_factors`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gsat.ops.numba.compile import uncounted_inlined, uncounted_kernel
from gsat.ops.numba.pna_rows import CENTRE, CONSTANT_EDGE, EDGE, KINDS, SOURCE, TAIL, WEIGHTED
from gsat.ops.reference import STD_EPS

_STD = 3  # its place among AGGREGATORS
# Factors of mean, min, max, std and sum.
_ONE_MESSAGE = [[1, 1, 1, 0, 1]]  # mean = min = max = sum
_TWO_MESSAGES = [[0.5, 0, 1, 0, 1], [0, 1, -1, 0, 0], [0, 0, 0, 1, 0]]  # sum, min and std
_TWO_EQUAL = [[1, 1, 1, 0, 2]]  # mean = min = max = x, sum = 2 x
_MORE_EQUAL = [[1, 1, 1, 0, 0], [0, 0, 0, 0, 1]]  # x, and sum = degree * x
_SPREAD = [[0, 0, 0, 1, 0]]  # std alone


def block_factors(position: Any, options: Any) -> tuple[Any, Any]:
    """Return what each aggregation contributes to each block of a row."""
    every = [[float(position[a] == block) for a in range(5)] for block in range(5)]
    messages: list[Any] = [[], _ONE_MESSAGE, _TWO_MESSAGES, every]
    weighted, constant = options[WEIGHTED], options[CONSTANT_EDGE]
    of: dict[int, list[Any]] = {SOURCE: messages, CENTRE: messages, EDGE: messages}
    if not weighted:
        of[CENTRE] = [[], _ONE_MESSAGE, _TWO_EQUAL, _MORE_EQUAL]
    if constant:
        of[EDGE] = [[], [], _SPREAD, _SPREAD] if weighted else [[], [], [], []]
    factors, stds = np.zeros((3, KINDS, 5, 5), np.float32), np.zeros((3, KINDS), np.float32)
    for part, kinds in of.items():
        for kind, blocks in enumerate(kinds):
            if blocks:
                factors[part, kind, : len(blocks)] = blocks
            # No variance: one message at most, or all of them equal.
            equal = not weighted and (part == CENTRE or (part == EDGE and constant))
            stds[part, kind] = STD_EPS**0.5 if kind < 2 or equal else 0.0
    return factors, stds


# weight is [h, parts, A, h]: output, part of the message (source, centre, edge), aggregator, input.
# offsets[k] to offsets[k + 1] - 1 in ``merged`` are the weights of kind k, [h, widths[k]]. With an
# edge attribute that is the same on all edges, its aggregations are e times those of the weights
# (tail[1:5] = mean, min, max, sum), where a negative e reverses min and max.


@uncounted_kernel
def merge_weights(weight, position, options, blocks, factors, stds, edge, offsets, widths, merged):
    """Write the weights of each kind's rows to ``merged``."""
    h, parts = weight.shape[:2]
    for kind in range(KINDS):
        rows = merged[offsets[kind] : offsets[kind + 1]].reshape(h, widths[kind])
        for o in range(h):
            row, at = rows[o], 0
            for j in range(len(row)):
                row[j] = np.float32(0.0)
            tail = row[len(row) - TAIL :]
            for part in range(parts):
                for b in range(blocks[part, kind]):
                    for a in range(5):
                        if position[a] >= 0 and factors[part, kind, b, a] != 0:
                            source = weight[o, part, position[a]]
                            _add(source, factors[part, kind, b, a], row[at : at + h])
                    at += h
                if position[_STD] >= 0 and stds[part, kind] != 0:
                    total = np.float32(0.0)
                    for j in range(h):
                        total += weight[o, part, position[_STD], j]
                    tail[0] += stds[part, kind] * total
            if options[CONSTANT_EDGE] and kind > 0:
                for a in range(5):
                    if position[a] >= 0 and a != _STD:
                        source = weight[o, EDGE, position[a]]
                        for j in range(h):
                            tail[_tail_column(a, edge[j])] += edge[j] * source[j]


@uncounted_kernel
def split_gradient(
    grad_merged, weight, position, options, blocks, factors, stds, edge, offsets, widths,
    grad_weight, grad_edge,
):  # fmt: skip
    """Gradients of the layer's weights, and of a constant edge attribute (added)."""
    h, parts, aggregators = weight.shape[:3]
    for o in range(h):
        for part in range(parts):
            for a in range(aggregators):
                for j in range(h):
                    grad_weight[o, part, a, j] = np.float32(0.0)
    for kind in range(KINDS):
        rows = grad_merged[offsets[kind] : offsets[kind + 1]].reshape(h, widths[kind])
        for o in range(h):
            row, at = rows[o], 0
            tail = row[len(row) - TAIL :]
            for part in range(parts):
                for b in range(blocks[part, kind]):
                    for a in range(5):
                        if position[a] >= 0 and factors[part, kind, b, a] != 0:
                            target = grad_weight[o, part, position[a]]
                            _add(row[at : at + h], factors[part, kind, b, a], target)
                    at += h
                if position[_STD] >= 0 and stds[part, kind] != 0:
                    constant = stds[part, kind] * tail[0]
                    for j in range(h):
                        grad_weight[o, part, position[_STD], j] += constant
            if options[CONSTANT_EDGE] and kind > 0:
                for a in range(5):
                    if position[a] >= 0 and a != _STD:
                        source = weight[o, EDGE, position[a]]
                        target = grad_weight[o, EDGE, position[a]]
                        for j in range(h):
                            grad = tail[_tail_column(a, edge[j])]
                            target[j] += edge[j] * grad
                            grad_edge[j] += source[j] * grad


@uncounted_inlined
def _tail_column(a, e):
    """The column of the tail that aggregation ``a`` of an edge attribute e multiplies."""
    if a == 4:
        return 4
    if a == 0 or e >= np.float32(0.0):
        return a + 1
    return 3 if a == 1 else 2


@uncounted_inlined
def _add(source, factor, target):
    for j in range(len(source)):
        target[j] += factor * source[j]
