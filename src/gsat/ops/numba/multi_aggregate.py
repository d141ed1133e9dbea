"""Several aggregations of weighted messages in one pass, as PNA needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.numba.buffers import as_array, empty_tensor, local_array
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.parallel import run_over_segments
from gsat.ops.reference import AGGREGATORS, STD_EPS, Aggregator


def multi_aggregate_edges(
    e: Tensor, batch: GraphBatch, weight: Tensor | None, aggregators: Sequence[Aggregator]
) -> Tensor:
    """Compiled form of :func:`gsat.ops.reference.multi_aggregate_edges`."""
    ones = torch.ones(batch.num_edges) if weight is None else weight
    return _MultiAggregate.apply(e, ones, batch, positions(aggregators), len(aggregators))


# Results go straight to their places in [N, A, h], which a matrix product then takes as it is.
# Backward, too, walks over the edges into each node: an edge never leaves its graph and a thread
# has whole graphs, so no two threads add to the same row.
#
# The message of edge e is weight[e] * x[e]. position holds, for each of AGGREGATORS, its place in
# the result's second dimension, or -1 where it is not computed; at_mean, at_low, ... are its five
# entries.


def positions(aggregators: Sequence[Aggregator]) -> NDArray[np.int64]:
    """Return the position of each of ``AGGREGATORS`` in ``aggregators``, -1 where it is absent."""
    listed = list(aggregators)
    return np.array([listed.index(a) if a in listed else -1 for a in AGGREGATORS])


@kernel
def _forward(first, last, node_ptr, dst_ptr, weight, x, position, out):  # type: ignore[no-untyped-def]
    """out[v] = the aggregations of the messages into node v."""
    h = x.shape[1]
    zero, one = np.float32(0.0), np.float32(1.0)
    total, mean = local_array(h), local_array(h)
    low, high, square = local_array(h), local_array(h), local_array(h)
    at_mean, at_low, at_high, at_std, at_sum = position
    for v in range(node_ptr[first], node_ptr[last]):
        begin, end = dst_ptr[v], dst_ptr[v + 1]
        inverse = one / np.float32(max(end - begin, 1))
        for j in range(h):
            total[j] = zero
            low[j] = zero
            high[j] = zero
            square[j] = zero
        for e in range(begin, end):
            w = weight[e]
            for j in range(h):
                total[j] += w * x[e, j]
            if e == begin:
                for j in range(h):
                    low[j] = w * x[e, j]
                    high[j] = w * x[e, j]
            else:
                for j in range(h):
                    low[j] = min(low[j], w * x[e, j])
                    high[j] = max(high[j], w * x[e, j])
        for j in range(h):
            mean[j] = total[j] * inverse
        if at_std >= 0 and end - begin > 1:
            for e in range(begin, end):
                w = weight[e]
                for j in range(h):
                    centred = w * x[e, j] - mean[j]
                    square[j] += centred * centred
        if at_mean >= 0:
            for j in range(h):
                out[v, at_mean, j] = mean[j]
        if at_low >= 0:
            for j in range(h):
                out[v, at_low, j] = low[j]
        if at_high >= 0:
            for j in range(h):
                out[v, at_high, j] = high[j]
        if at_std >= 0:
            for j in range(h):
                out[v, at_std, j] = np.sqrt(square[j] * inverse + np.float32(STD_EPS))
        if at_sum >= 0:
            for j in range(h):
                out[v, at_sum, j] = total[j]


@kernel
def _backward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, dst_ptr, weight, x, position, out, grad, grad_x, grad_weight
):
    """Gradients of x and weight.

    The gradient of a message m is base + slope * (m - mean), plus the gradient of min or max where
    m is that extreme, shared among equals as in torch.
    """
    h = x.shape[1]
    zero, one = np.float32(0.0), np.float32(1.0)
    weighted = len(grad_weight) > 0
    base, slope, mean = local_array(h), local_array(h), local_array(h)
    for_low, for_high, grad_m = local_array(h), local_array(h), local_array(h)
    at_mean, at_low, at_high, at_std, at_sum = position
    for v in range(node_ptr[first], node_ptr[last]):
        begin, end = dst_ptr[v], dst_ptr[v + 1]
        if begin == end:
            continue
        inverse = one / np.float32(end - begin)
        several = end - begin > 1
        for j in range(h):
            base[j] = zero
        if at_mean >= 0:
            for j in range(h):
                base[j] += grad[v, at_mean, j] * inverse
        if at_sum >= 0:
            for j in range(h):
                base[j] += grad[v, at_sum, j]
        if not several:
            # One message is every extreme, and has no variance.
            if at_low >= 0:
                for j in range(h):
                    base[j] += grad[v, at_low, j]
            if at_high >= 0:
                for j in range(h):
                    base[j] += grad[v, at_high, j]
        else:
            if at_std >= 0:
                for j in range(h):
                    mean[j] = zero
                for e in range(begin, end):
                    w = weight[e]
                    for j in range(h):
                        mean[j] += w * x[e, j]
                for j in range(h):
                    mean[j] *= inverse
                for j in range(h):
                    slope[j] = grad[v, at_std, j] * inverse / out[v, at_std, j]
            if at_low >= 0:
                for j in range(h):
                    for_low[j] = zero
                for e in range(begin, end):
                    w = weight[e]
                    for j in range(h):
                        for_low[j] += one if w * x[e, j] == out[v, at_low, j] else zero
                for j in range(h):
                    for_low[j] = grad[v, at_low, j] / for_low[j]
            if at_high >= 0:
                for j in range(h):
                    for_high[j] = zero
                for e in range(begin, end):
                    w = weight[e]
                    for j in range(h):
                        for_high[j] += one if w * x[e, j] == out[v, at_high, j] else zero
                for j in range(h):
                    for_high[j] = grad[v, at_high, j] / for_high[j]
        for e in range(begin, end):
            w = weight[e]
            for j in range(h):
                grad_m[j] = base[j]
            if several:
                if at_std >= 0:
                    for j in range(h):
                        grad_m[j] += slope[j] * (w * x[e, j] - mean[j])
                if at_low >= 0:
                    for j in range(h):
                        grad_m[j] += for_low[j] if w * x[e, j] == out[v, at_low, j] else zero
                if at_high >= 0:
                    for j in range(h):
                        grad_m[j] += for_high[j] if w * x[e, j] == out[v, at_high, j] else zero
            for j in range(h):
                grad_x[e, j] = w * grad_m[j]
            if weighted:
                dot = zero
                for j in range(h):
                    dot += grad_m[j] * x[e, j]
                grad_weight[e] = dot


class _MultiAggregate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, batch: GraphBatch, position: Any, count: int
    ) -> Tensor:
        out = empty_tensor(batch.num_nodes, count, x.shape[1])
        ctx.edges = batch.node_ptr.numpy(), batch.dst_ptr.numpy()
        arrays = as_array(weight), as_array(x), position, out.numpy()
        run_over_segments(_forward, *ctx.edges, *arrays)
        ctx.save_for_backward(x, weight, out)
        ctx.position = position
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, out = ctx.saved_tensors
        weighted = ctx.needs_input_grad[1]
        grad_x = empty_tensor(*x.shape)
        grad_weight = empty_tensor(*weight.shape) if weighted else torch.empty(0)
        run_over_segments(
            _backward, *ctx.edges, as_array(weight), as_array(x), ctx.position, as_array(out),
            as_array(grad), grad_x.numpy(), grad_weight.numpy(),
        )  # fmt: skip
        return grad_x, grad_weight if weighted else None, None, None, None
