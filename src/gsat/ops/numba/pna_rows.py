"""The rows that a layer of PNA multiplies with its weights, grouped by in-degree.

A node's aggregations depend on each other, the more the fewer edges arrive:

    no edge       mean = min = max = sum = 0 and std = √ε: nothing but a constant
    one edge      mean = min = max = sum = the message, std = √ε: one block of h columns
    two edges     mean = sum / 2 and max = sum - min: three blocks, sum, min and std
    more          a block per aggregator

Nodes are grouped by these four kinds, the weights of each group are merged accordingly
(:mod:`gsat.ops.numba.pna_weights`), and a product is as wide as it has to be.

The parts of a row are, from left to right: the messages from the source w_uv x_u; those from the
destination itself, w_uv x_v; those from the edge; and 16 more columns, the tail: a one, for what is
constant, and mean, min, max and sum of the weights, for an edge attribute that is the same on all
edges. The destination's x_v and a constant edge attribute are the same for all edges into v: their
aggregations follow from statistics of the weights, without a row per message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsat.ops.numba.compile import uncounted_inlined
from gsat.ops.reference import AGGREGATORS, STD_EPS, Aggregator

KINDS = 4  # of nodes: with no edge, with one, two, more
TAIL = 16
SOURCE, CENTRE, EDGE = range(3)  # the parts, and the rows of :func:`row_blocks`
# How the options of a layer are passed to kernels, as one array of whole numbers:
WEIGHTED, CONSTANT_EDGE = 0, 1
_EPS = np.float32(STD_EPS)


def positions(aggregators: Sequence[Aggregator]) -> NDArray[np.int64]:
    """Return the position of each of ``AGGREGATORS`` in ``aggregators``, -1 where it is absent."""
    listed = list(aggregators)
    return np.array([listed.index(a) if a in listed else -1 for a in AGGREGATORS])


def row_blocks(position: NDArray[np.int64], options: Any, edge: bool) -> NDArray[np.int64]:
    """Return how many blocks of h columns the parts of a row have."""
    messages = [0, 1, 3, int((position >= 0).sum())]
    centre = messages if options[WEIGHTED] else [0, 1, 1, 1 + int(position[4] >= 0)]
    spread = int(options[WEIGHTED] and options[CONSTANT_EDGE] and position[3] >= 0)
    return np.array([messages, centre, messages if edge else [0, 0, spread, spread]])


# In what follows, index[e] is the row of x that edge e brings (its source, or the edge itself), and
# position holds, for each of AGGREGATORS (mean, min, max, std, sum), its place among the blocks of
# a node with more than two edges, or -1 where it is not computed.


@uncounted_inlined
def part_forward(kind, begin, end, index, x, weight, position, total, mean, square, row):
    """row = the blocks of the messages weight[e] * x[index[e]], for edges begin to end - 1."""
    h = x.shape[1]
    if kind == 1:
        a, v = x[index[begin]], weight[begin]
        for j in range(h):
            row[j] = v * a[j]
    elif kind == 2:
        a, v, b, w = x[index[begin]], weight[begin], x[index[begin + 1]], weight[begin + 1]
        both, low, std = row[:h], row[h : 2 * h], row[2 * h : 3 * h]
        for j in range(h):
            both[j] = v * a[j] + w * b[j]
        for j in range(h):
            low[j] = min(v * a[j], w * b[j])
        for j in range(h):
            half = (v * a[j] - w * b[j]) * np.float32(0.5)
            std[j] = np.sqrt(half * half + _EPS)
    elif kind == 3:
        at_mean, at_low, at_high, at_std, at_sum = position
        inverse = np.float32(1.0) / np.float32(end - begin)
        a, v = x[index[begin]], weight[begin]
        for j in range(h):
            total[j] = v * a[j]
        for e in range(begin + 1, end):
            a, v = x[index[e]], weight[e]
            for j in range(h):
                total[j] += v * a[j]
        for j in range(h):
            mean[j] = total[j] * inverse
        if at_mean >= 0:
            _copy(mean, row[at_mean * h : (at_mean + 1) * h])
        if at_sum >= 0:
            _copy(total, row[at_sum * h : (at_sum + 1) * h])
        if at_low >= 0:
            low = row[at_low * h : (at_low + 1) * h]
            a, v = x[index[begin]], weight[begin]
            for j in range(h):
                low[j] = v * a[j]
            for e in range(begin + 1, end):
                a, v = x[index[e]], weight[e]
                for j in range(h):
                    low[j] = min(low[j], v * a[j])
        if at_high >= 0:
            high = row[at_high * h : (at_high + 1) * h]
            a, v = x[index[begin]], weight[begin]
            for j in range(h):
                high[j] = v * a[j]
            for e in range(begin + 1, end):
                a, v = x[index[e]], weight[e]
                for j in range(h):
                    high[j] = max(high[j], v * a[j])
        if at_std >= 0:
            std = row[at_std * h : (at_std + 1) * h]
            for j in range(h):
                square[j] = np.float32(0.0)
            for e in range(begin, end):
                a, v = x[index[e]], weight[e]
                for j in range(h):
                    centred = v * a[j] - mean[j]
                    square[j] += centred * centred
            for j in range(h):
                std[j] = np.sqrt(square[j] * inverse + _EPS)


@uncounted_inlined
def part_backward(
    kind, begin, end, index, x, weight, position, base, slope, mean, for_low, for_high, grad_m,
    row, grad, grad_x, grad_weight,
):  # fmt: skip
    """Add the gradients of x and of weight, given those of the blocks.

    The gradient of a message m is base + slope * (m - mean), plus the gradient of min or max where
    m is that extreme, shared among equals as in torch.
    """
    h = x.shape[1]
    zero, one = np.float32(0.0), np.float32(1.0)
    if kind == 1:
        add_message_gradient(begin, index, x, weight, grad[:h], grad_x, grad_weight)
    elif kind == 2:
        a, v, b, w = x[index[begin]], weight[begin], x[index[begin + 1]], weight[begin + 1]
        both, low, std = grad[:h], grad[h : 2 * h], grad[2 * h : 3 * h]
        of_std = row[2 * h : 3 * h]
        for j in range(h):  # of the difference of the two messages, from std
            slope[j] = (v * a[j] - w * b[j]) * np.float32(0.25) / of_std[j] * std[j]
        for j in range(h):  # compared, not subtracted: a fused product would hide a tie
            share = one if v * a[j] < w * b[j] else zero
            for_low[j] = np.float32(0.5) if v * a[j] == w * b[j] else share
        for j in range(h):
            grad_m[j] = both[j] + low[j] * for_low[j] + slope[j]
        add_message_gradient(begin, index, x, weight, grad_m, grad_x, grad_weight)
        for j in range(h):
            grad_m[j] = both[j] + low[j] * (one - for_low[j]) - slope[j]
        add_message_gradient(begin + 1, index, x, weight, grad_m, grad_x, grad_weight)
    elif kind == 3:
        at_mean, at_low, at_high, at_std, at_sum = position
        inverse = one / np.float32(end - begin)
        for j in range(h):
            base[j] = zero
        if at_mean >= 0:
            g = grad[at_mean * h : (at_mean + 1) * h]
            for j in range(h):
                base[j] += g[j] * inverse
        if at_sum >= 0:
            g = grad[at_sum * h : (at_sum + 1) * h]
            for j in range(h):
                base[j] += g[j]
        if at_std >= 0:
            for j in range(h):
                mean[j] = zero
            for e in range(begin, end):
                a, v = x[index[e]], weight[e]
                for j in range(h):
                    mean[j] += v * a[j]
            g, std = grad[at_std * h : (at_std + 1) * h], row[at_std * h : (at_std + 1) * h]
            for j in range(h):
                mean[j] *= inverse
                slope[j] = g[j] * inverse / std[j]
        for at, share in ((at_low, for_low), (at_high, for_high)):
            if at >= 0:
                extreme, g = row[at * h : (at + 1) * h], grad[at * h : (at + 1) * h]
                for j in range(h):
                    share[j] = zero
                for e in range(begin, end):
                    a, v = x[index[e]], weight[e]
                    for j in range(h):
                        share[j] += one if v * a[j] == extreme[j] else zero
                for j in range(h):
                    share[j] = g[j] / share[j]
        for e in range(begin, end):
            a, v = x[index[e]], weight[e]
            for j in range(h):
                grad_m[j] = base[j]
            if at_std >= 0:
                for j in range(h):
                    grad_m[j] += slope[j] * (v * a[j] - mean[j])
            for at, share in ((at_low, for_low), (at_high, for_high)):
                if at >= 0:
                    extreme = row[at * h : (at + 1) * h]
                    for j in range(h):
                        grad_m[j] += share[j] if v * a[j] == extreme[j] else zero
            add_message_gradient(e, index, x, weight, grad_m, grad_x, grad_weight)


@uncounted_inlined
def add_message_gradient(e, index, x, weight, grad_m, grad_x, grad_weight):
    """Add the gradients of x and of weight, given that of the message of edge e."""
    a, w, out = x[index[e]], weight[e], grad_x[index[e]]
    for j in range(len(a)):
        out[j] += w * grad_m[j]
    if len(grad_weight) > 0:
        dot = np.float32(0.0)
        for j in range(len(a)):
            dot += grad_m[j] * a[j]
        grad_weight[e] += dot


@uncounted_inlined
def _copy(source, target):
    for j in range(len(source)):
        target[j] = source[j]


@uncounted_inlined
def statistics(begin, end, weight, out):
    """out = mean, min, max, variance and sum of the weights of edges begin to end - 1."""
    for k in range(5):
        out[k] = np.float32(0.0)
    if begin < end:
        inverse = np.float32(1.0) / np.float32(end - begin)
        low = high = weight[begin]
        total = square = np.float32(0.0)
        for e in range(begin, end):
            low, high = min(low, weight[e]), max(high, weight[e])
            total += weight[e]
        mean = total * inverse
        for e in range(begin, end):
            square += (weight[e] - mean) * (weight[e] - mean)
        out[0], out[1], out[2], out[3], out[4] = mean, low, high, square * inverse, total


@uncounted_inlined
def statistics_backward(begin, end, weight, stats, grad, grad_weight):
    """Add the gradient of the weights; min and max share theirs among equals, as in torch."""
    zero, two = np.float32(0.0), np.float32(2.0)
    inverse = np.float32(1.0) / np.float32(max(end - begin, 1))
    lows = highs = zero
    for e in range(begin, end):
        lows += np.float32(weight[e] == stats[1])
        highs += np.float32(weight[e] == stats[2])
    for e in range(begin, end):
        w = weight[e]
        g = grad[0] * inverse + grad[4] + two * inverse * grad[3] * (w - stats[0])
        g += grad[1] / lows if w == stats[1] else zero
        g += grad[2] / highs if w == stats[2] else zero
        grad_weight[e] += g


@uncounted_inlined
def centre_forward(kind, x, stats, weighted, position, row):
    """row = the blocks of the messages w * x from the destination itself."""
    h = len(x)
    if not weighted:
        if kind > 0:
            _scale(x, np.float32(1.0), row[:h])
        if kind == 3 and position[4] >= 0:
            _scale(x, stats[4], row[h : 2 * h])
    elif kind == 1:
        _scale(x, stats[0], row[:h])
    elif kind == 2:
        _scale(x, stats[4], row[:h])
        _scale_by_sign(x, stats[1], stats[2], row[h : 2 * h])
        spread_forward(x, stats[3], row[2 * h : 3 * h])
    elif kind == 3:
        at_mean, at_low, at_high, at_std, at_sum = position
        if at_mean >= 0:
            _scale(x, stats[0], row[at_mean * h : (at_mean + 1) * h])
        if at_low >= 0:
            _scale_by_sign(x, stats[1], stats[2], row[at_low * h : (at_low + 1) * h])
        if at_high >= 0:
            _scale_by_sign(x, stats[2], stats[1], row[at_high * h : (at_high + 1) * h])
        if at_std >= 0:
            spread_forward(x, stats[3], row[at_std * h : (at_std + 1) * h])
        if at_sum >= 0:
            _scale(x, stats[4], row[at_sum * h : (at_sum + 1) * h])


@uncounted_inlined
def centre_backward(kind, x, stats, weighted, position, product, row, grad, grad_x, grad_stats):
    """Add the gradients of x and of the weights' statistics, given those of the blocks."""
    h = len(x)
    if not weighted:
        if kind > 0:
            _add_scaled(x, np.float32(1.0), grad[:h], grad_x)
        if kind == 3 and position[4] >= 0:
            _add_scaled(x, stats[4], grad[h : 2 * h], grad_x)
    elif kind == 1:
        grad_stats[0] += _add_scaled(x, stats[0], grad[:h], grad_x)
    elif kind == 2:
        grad_stats[4] += _add_scaled(x, stats[4], grad[:h], grad_x)
        _add_by_sign(x, stats, 1, 2, product, grad[h : 2 * h], grad_x, grad_stats)
        grad_stats[3] += spread_backward(
            x, stats[3], product, row[2 * h : 3 * h], grad[2 * h : 3 * h], grad_x
        )
    elif kind == 3:
        at_mean, at_low, at_high, at_std, at_sum = position
        if at_mean >= 0:
            g = grad[at_mean * h : (at_mean + 1) * h]
            grad_stats[0] += _add_scaled(x, stats[0], g, grad_x)
        if at_low >= 0:
            g = grad[at_low * h : (at_low + 1) * h]
            _add_by_sign(x, stats, 1, 2, product, g, grad_x, grad_stats)
        if at_high >= 0:
            g = grad[at_high * h : (at_high + 1) * h]
            _add_by_sign(x, stats, 2, 1, product, g, grad_x, grad_stats)
        if at_std >= 0:
            g, std = grad[at_std * h : (at_std + 1) * h], row[at_std * h : (at_std + 1) * h]
            grad_stats[3] += spread_backward(x, stats[3], product, std, g, grad_x)
        if at_sum >= 0:
            g = grad[at_sum * h : (at_sum + 1) * h]
            grad_stats[4] += _add_scaled(x, stats[4], g, grad_x)


@uncounted_inlined
def _scale(x, factor, out):
    for j in range(len(x)):
        out[j] = factor * x[j]


@uncounted_inlined
def _scale_by_sign(x, positive, negative, out):
    for j in range(len(x)):
        out[j] = (positive if x[j] >= np.float32(0.0) else negative) * x[j]


@uncounted_inlined
def spread_forward(x, variance, out):
    """out = the std of w * x for weights of that variance."""
    for j in range(len(x)):
        out[j] = np.sqrt(variance * x[j] * x[j] + _EPS)


@uncounted_inlined
def spread_backward(x, variance, product, std, grad, grad_x):
    """Add the gradient of x; returns that of the variance."""
    for j in range(len(x)):
        product[j] = grad[j] * x[j] / std[j]
    for j in range(len(x)):
        grad_x[j] += variance * product[j]
    of_variance = np.float32(0.0)
    for j in range(len(x)):
        of_variance += np.float32(0.5) * product[j] * x[j]
    return of_variance


@uncounted_inlined
def _add_scaled(x, factor, grad, grad_x):
    """Add the gradient of x; returns that of the factor."""
    for j in range(len(x)):
        grad_x[j] += factor * grad[j]
    dot = np.float32(0.0)
    for j in range(len(x)):
        dot += grad[j] * x[j]
    return dot


@uncounted_inlined
def _add_by_sign(x, stats, positive, negative, product, grad, grad_x, grad_stats):
    """Add the gradients of x and of the two factors, of which the sign of x selects one."""
    zero = np.float32(0.0)
    up, down = stats[positive], stats[negative]
    for j in range(len(x)):
        grad_x[j] += (up if x[j] >= zero else down) * grad[j]
    for j in range(len(x)):
        product[j] = grad[j] * x[j]
    for_up = for_down = zero
    for j in range(len(x)):
        for_up += product[j] if x[j] >= zero else zero
    for j in range(len(x)):
        for_down += zero if x[j] >= zero else product[j]
    grad_stats[positive] += for_up
    grad_stats[negative] += for_down
