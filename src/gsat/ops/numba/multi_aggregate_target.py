"""Several aggregations of messages from the destination node itself, m_uv = w_uv * x_v.

No message is made: x_v does not depend on u, so its aggregations are x_v times statistics of the
weights alone (for min and max, which of the two depends on the sign of x_v).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.numba.buffers import as_array, empty_tensor, local_array
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.multi_aggregate import positions
from gsat.ops.numba.parallel import chunk_ptr, run_over_segments
from gsat.ops.reference import STD_EPS, Aggregator


def weight_statistics(weight: Tensor, batch: GraphBatch) -> Tensor:
    """Compiled form of :func:`gsat.ops.reference.weight_statistics`."""
    return _WeightStatistics.apply(weight, batch)


def multi_aggregate_target(
    x: Tensor, statistics: Tensor, aggregators: Sequence[Aggregator]
) -> Tensor:
    """Compiled form of :func:`gsat.ops.reference.multi_aggregate_target`."""
    whole = x.expand(len(statistics), -1)
    return _MultiAggregateTarget.apply(whole, statistics, positions(aggregators), len(aggregators))


# In ``statistics`` and ``out`` of the first two kernels, the columns are: 0 mean, 1 min, 2 max,
# 3 variance, 4 sum. ``position`` is as in multi_aggregate.py.


@kernel
def _statistics_forward(first, last, node_ptr, dst_ptr, weight, out):  # type: ignore[no-untyped-def]
    """out[v] = mean, min, max, variance and sum of the weights on the edges into v."""
    for v in range(node_ptr[first], node_ptr[last]):
        begin, end = dst_ptr[v], dst_ptr[v + 1]
        for k in range(5):
            out[v, k] = np.float32(0.0)
        if begin == end:
            continue
        inverse = np.float32(1.0) / np.float32(end - begin)
        low = high = weight[begin]
        total = square = np.float32(0.0)
        for e in range(begin, end):
            low, high = min(low, weight[e]), max(high, weight[e])
            total += weight[e]
        mean = total * inverse
        for e in range(begin, end):
            square += (weight[e] - mean) * (weight[e] - mean)
        out[v, 0], out[v, 1], out[v, 2] = mean, low, high
        out[v, 3], out[v, 4] = square * inverse, total


@kernel
def _statistics_backward(first, last, node_ptr, dst_ptr, weight, out, grad, grad_weight):  # type: ignore[no-untyped-def]
    """Gradient of weight; min and max share theirs among equals, as in torch."""
    zero, two = np.float32(0.0), np.float32(2.0)
    for v in range(node_ptr[first], node_ptr[last]):
        begin, end = dst_ptr[v], dst_ptr[v + 1]
        inverse = np.float32(1.0) / np.float32(max(end - begin, 1))
        lows = highs = zero
        for e in range(begin, end):
            lows += np.float32(weight[e] == out[v, 1])
            highs += np.float32(weight[e] == out[v, 2])
        for e in range(begin, end):
            w = weight[e]
            g = grad[v, 0] * inverse + grad[v, 4]
            g += two * inverse * grad[v, 3] * (w - out[v, 0])
            g += grad[v, 1] / lows if w == out[v, 1] else zero
            g += grad[v, 2] / highs if w == out[v, 2] else zero
            grad_weight[e] = g


class _WeightStatistics(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, batch: GraphBatch) -> Tensor:
        out = empty_tensor(batch.num_nodes, 5)
        edges = batch.node_ptr.numpy(), batch.dst_ptr.numpy()
        run_over_segments(_statistics_forward, *edges, as_array(weight), out.numpy())
        ctx.save_for_backward(weight, out)
        ctx.edges = edges
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, out = ctx.saved_tensors
        grad_weight = empty_tensor(*weight.shape)
        arrays = (as_array(weight), as_array(out), as_array(grad), grad_weight.numpy())
        run_over_segments(_statistics_backward, *ctx.edges, *arrays)
        return grad_weight, None


@kernel
def _target_forward(first, last, ptr, x, statistics, position, out):  # type: ignore[no-untyped-def]
    """out[v] = the aggregations of w_uv * x[v], from statistics of the weights."""
    h = x.shape[1]
    zero = np.float32(0.0)
    at_mean, at_low, at_high, at_std, at_sum = position
    for v in range(ptr[first], ptr[last]):
        mean, low, high = statistics[v, 0], statistics[v, 1], statistics[v, 2]
        variance, total = statistics[v, 3], statistics[v, 4]
        if at_mean >= 0:
            for j in range(h):
                out[v, at_mean, j] = mean * x[v, j]
        if at_low >= 0:
            for j in range(h):
                out[v, at_low, j] = (low if x[v, j] >= zero else high) * x[v, j]
        if at_high >= 0:
            for j in range(h):
                out[v, at_high, j] = (high if x[v, j] >= zero else low) * x[v, j]
        if at_std >= 0:
            for j in range(h):
                out[v, at_std, j] = np.sqrt(variance * x[v, j] * x[v, j] + np.float32(STD_EPS))
        if at_sum >= 0:
            for j in range(h):
                out[v, at_sum, j] = total * x[v, j]


@kernel
def _target_backward(first, last, ptr, x, statistics, position, out, grad, grad_x, grad_s):  # type: ignore[no-untyped-def]
    """Gradients of x and of the statistics."""
    h = x.shape[1]
    zero, half = np.float32(0.0), np.float32(0.5)
    product = local_array(h)
    at_mean, at_low, at_high, at_std, at_sum = position
    for v in range(ptr[first], ptr[last]):
        mean, low, high = statistics[v, 0], statistics[v, 1], statistics[v, 2]
        variance, total = statistics[v, 3], statistics[v, 4]
        for_mean = for_low = for_high = for_variance = for_sum = zero
        for j in range(h):
            grad_x[v, j] = zero
        if at_mean >= 0:
            for j in range(h):
                grad_x[v, j] += mean * grad[v, at_mean, j]
            for j in range(h):
                for_mean += grad[v, at_mean, j] * x[v, j]
        if at_low >= 0:
            for j in range(h):
                grad_x[v, j] += (low if x[v, j] >= zero else high) * grad[v, at_low, j]
            for j in range(h):
                product[j] = grad[v, at_low, j] * x[v, j]
            for j in range(h):
                for_low += product[j] if x[v, j] >= zero else zero
            for j in range(h):
                for_high += zero if x[v, j] >= zero else product[j]
        if at_high >= 0:
            for j in range(h):
                grad_x[v, j] += (high if x[v, j] >= zero else low) * grad[v, at_high, j]
            for j in range(h):
                product[j] = grad[v, at_high, j] * x[v, j]
            for j in range(h):
                for_high += product[j] if x[v, j] >= zero else zero
            for j in range(h):
                for_low += zero if x[v, j] >= zero else product[j]
        if at_std >= 0:
            for j in range(h):
                product[j] = grad[v, at_std, j] * x[v, j] / out[v, at_std, j]
            for j in range(h):
                grad_x[v, j] += variance * product[j]
            for j in range(h):
                for_variance += half * product[j] * x[v, j]
        if at_sum >= 0:
            for j in range(h):
                grad_x[v, j] += total * grad[v, at_sum, j]
            for j in range(h):
                for_sum += grad[v, at_sum, j] * x[v, j]
        grad_s[v, 0], grad_s[v, 1], grad_s[v, 2] = for_mean, for_low, for_high
        grad_s[v, 3], grad_s[v, 4] = for_variance, for_sum


class _MultiAggregateTarget(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, statistics: Tensor, position: Any, count: int) -> Tensor:
        out = empty_tensor(len(x), count, x.shape[1])
        arrays = (as_array(x), as_array(statistics), position, out.numpy())
        run_over_segments(_target_forward, chunk_ptr(len(x)), *arrays)
        ctx.save_for_backward(x, statistics, out)
        ctx.position = position
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, statistics, out = ctx.saved_tensors
        grad_x, grad_s = empty_tensor(*x.shape), empty_tensor(*statistics.shape)
        run_over_segments(
            _target_backward, chunk_ptr(len(x)), as_array(x), as_array(statistics), ctx.position,
            as_array(out), as_array(grad), grad_x.numpy(), grad_s.numpy(),
        )  # fmt: skip
        return grad_x, grad_s, None, None
