"""The weights of a PNA layer, merged for each kind of node, and their gradients split again.

The rows are those of :mod:`gsat.ops.numba.pna_rows`. What a block of a row stands for in terms of
the five aggregations says which of the layer's weights are added up for it.
"""

from __future__ import annotations

import numpy as np

from gsat.ops.numba.compile import uncounted_inlined, uncounted_kernel
from gsat.ops.numba.pna_rows import (
    CENTRE,
    CONSTANT_EDGE,
    KINDS,
    PART,
    SPREAD,
    TAIL,
    WEIGHTED,
)
from gsat.ops.reference import STD_EPS

_CONSTANT = np.float32(STD_EPS**0.5)  # the std where there is no variance


# weight is [h, parts, A, h]: output, part of the message (source, centre, edge), aggregator, input.
# offsets[k] to offsets[k + 1] - 1 in ``merged`` are the weights of kind k, [h, widths[k]].


@uncounted_kernel
def merge_weights(weight, position, options, blocks, edge, offsets, widths, merged):  # type: ignore[no-untyped-def]
    """Write the weights of each kind's rows to ``merged``."""
    h, parts = weight.shape[:2]
    for kind in range(KINDS):
        rows = merged[offsets[kind] : offsets[kind + 1]].reshape(h, widths[kind])
        for o in range(h):
            row = rows[o]
            for j in range(len(row)):
                row[j] = np.float32(0.0)
            tail = row[len(row) - TAIL :]
            at = h * blocks[PART, kind]
            tail[0] += _merge_part(weight[o, 0], kind, position, row[:at])
            more = h * blocks[CENTRE, kind]
            if options[WEIGHTED]:
                tail[0] += _merge_part(weight[o, 1], kind, position, row[at : at + more])
            else:
                tail[0] += _merge_equal(weight[o, 1], kind, position, row[at : at + more])
            at += more
            if parts > 2 and options[CONSTANT_EDGE]:
                _merge_edge(weight[o, 2], kind, position, blocks, edge, row[at:], tail)
            elif parts > 2:
                more = h * blocks[PART, kind]
                tail[0] += _merge_part(weight[o, 2], kind, position, row[at : at + more])


@uncounted_kernel
def split_gradient(  # type: ignore[no-untyped-def]
    grad_merged, weight, position, options, blocks, edge, offsets, widths, grad_weight, grad_edge
):
    """Gradients of the layer's weights, and of a constant edge attribute (added)."""
    h, parts, aggregators = weight.shape[:3]
    for o in range(h):
        for p in range(parts):
            for a in range(aggregators):
                for j in range(h):
                    grad_weight[o, p, a, j] = np.float32(0.0)
    for kind in range(KINDS):
        rows = grad_merged[offsets[kind] : offsets[kind + 1]].reshape(h, widths[kind])
        for o in range(h):
            row = rows[o]
            tail = row[len(row) - TAIL :]
            at = h * blocks[PART, kind]
            _split_part(row[:at], tail[0], kind, position, grad_weight[o, 0])
            more = h * blocks[CENTRE, kind]
            if options[WEIGHTED]:
                _split_part(row[at : at + more], tail[0], kind, position, grad_weight[o, 1])
            else:
                _split_equal(row[at : at + more], tail[0], kind, position, grad_weight[o, 1])
            at += more
            if parts > 2 and options[CONSTANT_EDGE]:
                _split_edge(
                    row[at:], tail, kind, position, blocks, edge, weight[o, 2], grad_weight[o, 2],
                    grad_edge,
                )  # fmt: skip
            elif parts > 2:
                more = h * blocks[PART, kind]
                _split_part(row[at : at + more], tail[0], kind, position, grad_weight[o, 2])


@uncounted_inlined
def _merge_part(weight, kind, position, row):  # type: ignore[no-untyped-def]
    """row += the weights of the blocks of messages; returns what multiplies the one."""
    at_mean, at_low, at_high, at_std, at_sum = position
    h = weight.shape[1]
    if kind == 1:
        for at in (at_mean, at_low, at_high, at_sum):
            if at >= 0:
                _add(weight[at], np.float32(1.0), row)
    elif kind == 2:
        if at_sum >= 0:
            _add(weight[at_sum], np.float32(1.0), row[:h])
        if at_mean >= 0:
            _add(weight[at_mean], np.float32(0.5), row[:h])
        if at_high >= 0:
            _add(weight[at_high], np.float32(1.0), row[:h])
            _add(weight[at_high], np.float32(-1.0), row[h : 2 * h])
        if at_low >= 0:
            _add(weight[at_low], np.float32(1.0), row[h : 2 * h])
        if at_std >= 0:
            _add(weight[at_std], np.float32(1.0), row[2 * h :])
    elif kind == 3:
        for a in range(len(weight)):
            _add(weight[a], np.float32(1.0), row[a * h : (a + 1) * h])
    return _constant(weight, at_std) if kind < 2 else np.float32(0.0)


@uncounted_inlined
def _split_part(row, one, kind, position, grad):  # type: ignore[no-untyped-def]
    """grad += the gradients of a part's weights, given those of row and of the one's factor."""
    at_mean, at_low, at_high, at_std, at_sum = position
    h = grad.shape[1]
    if kind < 2:
        _split_constant(one, at_std, grad)
    if kind == 1:
        for at in (at_mean, at_low, at_high, at_sum):
            if at >= 0:
                _add(row, np.float32(1.0), grad[at])
    elif kind == 2:
        if at_sum >= 0:
            _add(row[:h], np.float32(1.0), grad[at_sum])
        if at_mean >= 0:
            _add(row[:h], np.float32(0.5), grad[at_mean])
        if at_high >= 0:
            _add(row[:h], np.float32(1.0), grad[at_high])
            _add(row[h : 2 * h], np.float32(-1.0), grad[at_high])
        if at_low >= 0:
            _add(row[h : 2 * h], np.float32(1.0), grad[at_low])
        if at_std >= 0:
            _add(row[2 * h :], np.float32(1.0), grad[at_std])
    elif kind == 3:
        for a in range(len(grad)):
            _add(row[a * h : (a + 1) * h], np.float32(1.0), grad[a])


# Messages that are all equal (those from the destination, if no edge has a weight): mean = min =
# max = x, sum = degree * x and std = √ε.


@uncounted_inlined
def _merge_equal(weight, kind, position, row):  # type: ignore[no-untyped-def]
    """row += the weights of the blocks of equal messages; returns what multiplies the one."""
    at_mean, at_low, at_high, at_std, at_sum = position
    h = weight.shape[1]
    if kind > 0:
        for at in (at_mean, at_low, at_high):
            if at >= 0:
                _add(weight[at], np.float32(1.0), row[:h])
        if at_sum >= 0:
            if kind == 3:
                _add(weight[at_sum], np.float32(1.0), row[h:])
            else:
                _add(weight[at_sum], np.float32(kind), row)
    return _constant(weight, at_std)


@uncounted_inlined
def _split_equal(row, one, kind, position, grad):  # type: ignore[no-untyped-def]
    """grad += the gradients of the weights of equal messages."""
    at_mean, at_low, at_high, at_std, at_sum = position
    h = grad.shape[1]
    _split_constant(one, at_std, grad)
    if kind > 0:
        for at in (at_mean, at_low, at_high):
            if at >= 0:
                _add(row[:h], np.float32(1.0), grad[at])
        if at_sum >= 0:
            if kind == 3:
                _add(row[h:], np.float32(1.0), grad[at_sum])
            else:
                _add(row, np.float32(kind), grad[at_sum])


# An edge attribute that is the same on all edges: the aggregations are e times those of the weights
# (tail[1:5] = mean, min, max, sum), where a negative e reverses min and max.


@uncounted_inlined
def _merge_edge(weight, kind, position, blocks, edge, row, tail):  # type: ignore[no-untyped-def]
    """Add the weights of a constant edge attribute to those of its std (row) and of the tail."""
    at_mean, at_low, at_high, at_std, at_sum = position
    zero = np.float32(0.0)
    if kind > 0:
        for j in range(len(edge)):
            e, low, high = edge[j], zero, zero
            if at_low >= 0:
                low = e * weight[at_low, j]
            if at_high >= 0:
                high = e * weight[at_high, j]
            tail[2] += low if e >= zero else high
            tail[3] += high if e >= zero else low
            if at_mean >= 0:
                tail[1] += e * weight[at_mean, j]
            if at_sum >= 0:
                tail[4] += e * weight[at_sum, j]
    if blocks[SPREAD, kind]:
        _add(weight[at_std], np.float32(1.0), row[: len(edge)])
    else:
        tail[0] += _constant(weight, at_std)


@uncounted_inlined
def _split_edge(row, tail, kind, position, blocks, edge, weight, grad, grad_edge):  # type: ignore[no-untyped-def]
    """grad and grad_edge += the gradients of the weights and of the attribute."""
    at_mean, at_low, at_high, at_std, at_sum = position
    if kind > 0:
        for j in range(len(edge)):
            e = edge[j]
            for_low = tail[2] if e >= np.float32(0.0) else tail[3]
            for_high = tail[3] if e >= np.float32(0.0) else tail[2]
            if at_low >= 0:
                grad[at_low, j] += e * for_low
                grad_edge[j] += weight[at_low, j] * for_low
            if at_high >= 0:
                grad[at_high, j] += e * for_high
                grad_edge[j] += weight[at_high, j] * for_high
            if at_mean >= 0:
                grad[at_mean, j] += e * tail[1]
                grad_edge[j] += weight[at_mean, j] * tail[1]
            if at_sum >= 0:
                grad[at_sum, j] += e * tail[4]
                grad_edge[j] += weight[at_sum, j] * tail[4]
    if blocks[SPREAD, kind]:
        _add(row[: len(edge)], np.float32(1.0), grad[at_std])
    else:
        _split_constant(tail[0], at_std, grad)


@uncounted_inlined
def _add(source, factor, target):  # type: ignore[no-untyped-def]
    for j in range(len(source)):
        target[j] += factor * source[j]


@uncounted_inlined
def _constant(weight, at_std):  # type: ignore[no-untyped-def]
    """√ε times the sum of the weights of std."""
    total = np.float32(0.0)
    if at_std >= 0:
        for j in range(weight.shape[1]):
            total += weight[at_std, j]
    return _CONSTANT * total


@uncounted_inlined
def _split_constant(one, at_std, grad):  # type: ignore[no-untyped-def]
    if at_std >= 0:
        for j in range(grad.shape[1]):
            grad[at_std, j] += _CONSTANT * one
