"""The aggregations of :mod:`gsat.ops.multi` for a message from the receiving node itself.

    centre_aggregate(x):  m_uv = w_uv · x_v

It needs no message at all: x_v does not depend on u, so its aggregations are x_v times statistics
of the weights alone (for min and max, which of the two depends on the sign of x_v). The same holds
for an edge attribute that is the same on all edges. The statistics are those of
:func:`weight_statistics`, taken once for all layers of a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.engine import array, chunks, compiled, kernel, split
from gsat.ops.multi import EPS, Aggregator, reduce_messages, slots_of


def weight_statistics(weight: Tensor, batch: GraphBatch) -> Tensor:
    """Mean, min, max, variance and sum of the weights [E] on the edges into each node, [N, 5]."""
    if compiled(weight):
        return _Statistics.apply(weight, batch)
    kinds: tuple[Aggregator, ...] = ("mean", "min", "max", "sum")
    mean, low, high, total = reduce_messages(weight[:, None], batch, kinds)[..., 0].unbind(1)
    degree = batch.dst_ptr.diff().clamp(min=1).to(weight.dtype)
    square = torch.zeros_like(mean).index_add(0, batch.dst, weight * weight) / degree
    return torch.stack([mean, low, high, torch.relu(square - mean * mean), total], dim=1)


def centre_aggregate(x: Tensor, statistics: Tensor, aggregators: Sequence[Aggregator]) -> Tensor:
    """All aggregations of w_uv · x_v, without a message per edge.

    Args:
        x: [N, h], or [1, h] for an edge attribute that is the same on all edges.
        statistics: [N, 5], of the weights, from :func:`weight_statistics`.

    Returns:
        [N, A, h].
    """
    if compiled(x, statistics):
        whole = x.expand(len(statistics), -1)
        return _Centre.apply(whole, statistics, slots_of(aggregators), len(aggregators))
    mean, low, high, variance, total = statistics[:, :, None].unbind(1)
    parts = {
        "mean": mean * x,
        # A negative x_v turns the order of w · x_v around.
        "min": torch.where(x >= 0, low, high) * x,
        "max": torch.where(x >= 0, high, low) * x,
        "std": (variance * x * x + EPS).sqrt(),
        "sum": total * x,
    }
    return torch.stack([parts[name] for name in aggregators], dim=1)


# -- compiled form ------------------------------------------------------------------------------


@kernel
def _statistics_forward(first, last, node_ptr, dst_ptr, weight, out):  # type: ignore[no-untyped-def]
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


class _Statistics(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, batch: GraphBatch) -> Tensor:
        out = torch.empty(batch.num_nodes, 5)
        places = batch.node_ptr.numpy(), batch.dst_ptr.numpy()
        split(_statistics_forward, *places, array(weight), out.numpy())
        ctx.save_for_backward(weight, out)
        ctx.places = places
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weight, out = ctx.saved_tensors
        grad_weight = torch.empty(weight.shape)
        arrays = (array(weight), array(out), array(grad), grad_weight.numpy())
        split(_statistics_backward, *ctx.places, *arrays)
        return grad_weight, None


@kernel
def _centre_forward(first, last, ptr, x, statistics, slots, out):  # type: ignore[no-untyped-def]
    h = x.shape[1]
    zero = np.float32(0.0)
    at_mean, at_low, at_high, at_std, at_sum = slots
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
                out[v, at_std, j] = np.sqrt(variance * x[v, j] * x[v, j] + np.float32(EPS))
        if at_sum >= 0:
            for j in range(h):
                out[v, at_sum, j] = total * x[v, j]


@kernel
def _centre_backward(first, last, ptr, x, statistics, slots, out, grad, grad_x, grad_s):  # type: ignore[no-untyped-def]
    h = x.shape[1]
    zero, half = np.float32(0.0), np.float32(0.5)
    along = np.empty(h, np.float32)
    at_mean, at_low, at_high, at_std, at_sum = slots
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
                along[j] = grad[v, at_low, j] * x[v, j]
            for j in range(h):
                for_low += along[j] if x[v, j] >= zero else zero
            for j in range(h):
                for_high += zero if x[v, j] >= zero else along[j]
        if at_high >= 0:
            for j in range(h):
                grad_x[v, j] += (high if x[v, j] >= zero else low) * grad[v, at_high, j]
            for j in range(h):
                along[j] = grad[v, at_high, j] * x[v, j]
            for j in range(h):
                for_high += along[j] if x[v, j] >= zero else zero
            for j in range(h):
                for_low += zero if x[v, j] >= zero else along[j]
        if at_std >= 0:
            for j in range(h):
                along[j] = grad[v, at_std, j] * x[v, j] / out[v, at_std, j]
            for j in range(h):
                grad_x[v, j] += variance * along[j]
            for j in range(h):
                for_variance += half * along[j] * x[v, j]
        if at_sum >= 0:
            for j in range(h):
                grad_x[v, j] += total * grad[v, at_sum, j]
            for j in range(h):
                for_sum += grad[v, at_sum, j] * x[v, j]
        grad_s[v, 0], grad_s[v, 1], grad_s[v, 2] = for_mean, for_low, for_high
        grad_s[v, 3], grad_s[v, 4] = for_variance, for_sum


class _Centre(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, statistics: Tensor, slots: Any, count: int) -> Tensor:
        out = torch.empty(len(x), count, x.shape[1])
        arrays = (array(x), array(statistics), slots, out.numpy())
        split(_centre_forward, chunks(len(x)), *arrays)
        ctx.save_for_backward(x, statistics, out)
        ctx.slots = slots
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, statistics, out = ctx.saved_tensors
        grad_x, grad_s = torch.empty(x.shape), torch.empty(statistics.shape)
        split(
            _centre_backward, chunks(len(x)), array(x), array(statistics), ctx.slots, array(out),
            array(grad), grad_x.numpy(), grad_s.numpy(),
        )  # fmt: skip
        return grad_x, grad_s, None, None
