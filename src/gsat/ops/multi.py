"""Several aggregations of weighted messages in one pass, as PNA wants them.

    multi_aggregate(x):   m_uv = w_uv · x_u          from the source
    centre_aggregate(x):  m_uv = w_uv · x_v          from the node itself

Both are reduced over the edges u → v by mean, min, max, std and sum, in the order asked for. With
no edge arriving the results are 0, but √1e-5 for std, that is √(ReLU(mean(m²) − mean(m)²) + 1e-5).

The second needs no message at all: x_v does not depend on u, so its aggregations are x_v times
statistics of the weights alone (for min and max, which of the two depends on the sign of x_v). The
same holds for an edge attribute that is the same on all edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.engine import array, compiled, kernel, split

Aggregator = Literal["mean", "min", "max", "std", "sum"]
EPS = 1e-5


def multi_aggregate(
    x: Tensor, batch: GraphBatch, weight: Tensor | None, aggregators: Sequence[Aggregator]
) -> Tensor:
    """All aggregations of w_uv · x_u.

    Args:
        x: [N, h]. weight: [E], or None for all ones.

    Returns:
        [N, A, h] for A aggregators.
    """
    if not compiled(x, weight):
        return multi_aggregate_plain(x, batch, weight, aggregators)
    if weight is None:
        weight = torch.ones(batch.num_edges)
    parts = dict(zip(_ORDER, _Multi.apply(x, weight, batch), strict=True))
    return torch.stack([parts[name] for name in aggregators], dim=1)


def multi_aggregate_plain(
    x: Tensor, batch: GraphBatch, weight: Tensor | None, aggregators: Sequence[Aggregator]
) -> Tensor:
    """The meaning of :func:`multi_aggregate`, in plain torch."""
    message = x[batch.src] if weight is None else x[batch.src] * weight[:, None]
    return reduce_messages(message, batch, aggregators)


def reduce_messages(
    message: Tensor, batch: GraphBatch, aggregators: Sequence[Aggregator]
) -> Tensor:
    """The aggregations of any messages [E, h] at their destinations, [N, A, h], in plain torch."""
    index = batch.dst[:, None].expand_as(message)
    zeros = message.new_zeros(batch.num_nodes, message.shape[1])
    degree = batch.dst_ptr.diff().clamp(min=1).to(message.dtype)[:, None]
    total = zeros.index_add(0, batch.dst, message)
    mean = total / degree
    out = []
    for name in aggregators:
        if name == "sum":
            out.append(total)
        elif name == "mean":
            out.append(mean)
        elif name == "std":
            square = zeros.index_add(0, batch.dst, message * message) / degree
            out.append((torch.relu(square - mean * mean) + EPS).sqrt())
        else:
            # Not from 0: torch would count it among the ties and give it a share of the gradient.
            how, worst = ("amin", float("inf")) if name == "min" else ("amax", -float("inf"))
            extreme = (zeros + worst).scatter_reduce(0, index, message, how)
            out.append(torch.where(extreme == worst, zeros, extreme))
    return torch.stack(out, dim=1)


def centre_aggregate(
    x: Tensor, batch: GraphBatch, weight: Tensor | None, aggregators: Sequence[Aggregator]
) -> Tensor:
    """All aggregations of w_uv · x_v, without a message per edge.

    Args:
        x: [N, h], or [1, h] for an edge attribute that is the same on all edges.
        weight: [E], or None for all ones.

    Returns:
        [N, A, h].
    """
    ones = x.new_ones(batch.num_edges) if weight is None else weight
    kinds: tuple[Aggregator, ...] = ("mean", "min", "max", "sum")
    stats = dict(zip(kinds, reduce_messages(ones[:, None], batch, kinds).unbind(1), strict=True))
    out = []
    for name in aggregators:
        if name == "std":
            degree = batch.dst_ptr.diff().clamp(min=1).to(x.dtype)[:, None]
            zeros = x.new_zeros(batch.num_nodes, 1)
            square = zeros.index_add(0, batch.dst, (ones * ones)[:, None]) / degree
            variance = torch.relu(square - stats["mean"] ** 2)
            out.append((variance * x * x + EPS).sqrt())
        elif name in ("min", "max"):
            # A negative x_v turns the order of w · x_v around.
            other = stats["max" if name == "min" else "min"]
            out.append(torch.where(x >= 0, stats[name], other) * x)
        else:
            out.append(stats[name] * x)
    return torch.stack([part.expand(batch.num_nodes, -1) for part in out], dim=1)


# -- compiled form ------------------------------------------------------------------------------

_ORDER: tuple[Aggregator, ...] = ("mean", "min", "max", "std", "sum")


@kernel
def _forward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, dst_ptr, src, weight, x, mean, low, high, std, total, lows, highs
):
    h = x.shape[1]
    zero, one = np.float32(0.0), np.float32(1.0)
    square = np.empty(h, np.float32)
    for v in range(node_ptr[first], node_ptr[last]):
        begin, end = dst_ptr[v], dst_ptr[v + 1]
        for j in range(h):
            total[v, j] = zero
            square[j] = zero
            low[v, j] = zero
            high[v, j] = zero
        for e in range(begin, end):
            u, w = src[e], weight[e]
            for j in range(h):
                total[v, j] += w * x[u, j]
        inverse = one / np.float32(max(end - begin, 1))
        for j in range(h):
            mean[v, j] = total[v, j] * inverse
        for e in range(begin, end):
            u, w = src[e], weight[e]
            for j in range(h):
                centred = w * x[u, j] - mean[v, j]
                square[j] += centred * centred
            if e == begin:
                for j in range(h):
                    low[v, j] = w * x[u, j]
                    high[v, j] = w * x[u, j]
            else:
                for j in range(h):
                    low[v, j] = min(low[v, j], w * x[u, j])
                for j in range(h):
                    high[v, j] = max(high[v, j], w * x[u, j])
        for j in range(h):
            std[v, j] = np.sqrt(square[j] * inverse + np.float32(EPS))
        # How many messages share the extreme: they share its gradient, as in torch.
        for j in range(h):
            lows[v, j] = zero
            highs[v, j] = zero
        for e in range(begin, end):
            u, w = src[e], weight[e]
            for j in range(h):
                lows[v, j] += one if w * x[u, j] == low[v, j] else zero
            for j in range(h):
                highs[v, j] += one if w * x[u, j] == high[v, j] else zero


@kernel
def _backward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, src_ptr, by_src, dst, weight, x, base, slope, low, grad_low, high,
    grad_high, grad_x, grad_weight,
):  # fmt: skip
    h = x.shape[1]
    zero = np.float32(0.0)
    weighted = len(grad_weight) > 0
    row, message = np.empty(h, np.float32), np.empty(h, np.float32)
    for u in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            grad_x[u, j] = zero
        for k in range(src_ptr[u], src_ptr[u + 1]):
            e = by_src[k]
            v, w = dst[e], weight[e]
            for j in range(h):
                message[j] = w * x[u, j]
            for j in range(h):
                row[j] = base[v, j] + slope[v, j] * message[j]
            for j in range(h):
                row[j] += grad_low[v, j] if message[j] == low[v, j] else zero
            for j in range(h):
                row[j] += grad_high[v, j] if message[j] == high[v, j] else zero
            for j in range(h):
                grad_x[u, j] += w * row[j]
            if weighted:
                dot = zero
                for j in range(h):
                    dot += row[j] * x[u, j]
                grad_weight[e] = dot


class _Multi(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, batch: GraphBatch) -> tuple[Tensor, ...]:
        mean, low, high, std, total, lows, highs = (torch.empty(x.shape) for _ in range(7))
        outs = [t.numpy() for t in (mean, low, high, std, total, lows, highs)]
        places = (batch.node_ptr.numpy(), batch.dst_ptr.numpy(), batch.src.numpy())
        split(_forward, *places, array(weight), array(x), *outs)
        ctx.save_for_backward(x, weight, mean, low, high, std, lows, highs)
        ctx.batch = batch
        return mean, low, high, std, total

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, g_mean: Tensor, g_low: Tensor, g_high: Tensor, g_std: Tensor, g_total: Tensor
    ) -> tuple[Tensor | None, ...]:
        x, weight, mean, low, high, std, lows, highs = ctx.saved_tensors
        batch = ctx.batch
        degree = batch.dst_ptr.diff().clamp(min=1).to(x.dtype)[:, None]
        # A message m reaches mean, std and sum by base + slope · m, the extremes where it is one.
        slope = g_std / (std * degree)
        # Where all messages are equal, ReLU'(0) = 0 keeps the gradient of the variance out.
        slope = torch.where(std * std > EPS * (1 + 1e-6), slope, torch.zeros(()))
        base = g_total + g_mean / degree - slope * mean
        grad_x = torch.empty(x.shape)
        grad_weight = torch.empty(weight.shape if ctx.needs_input_grad[1] else 0)
        tensors = (
            weight, x, base, slope, low, g_low / lows.clamp(min=1), high,
            g_high / highs.clamp(min=1), grad_x, grad_weight,
        )  # fmt: skip
        places = (batch.node_ptr, batch.src_ptr, batch.by_src, batch.dst)
        split(_backward, *(p.numpy() for p in places), *(array(t) for t in tensors))
        return grad_x, grad_weight if ctx.needs_input_grad[1] else None, None
