"""Several aggregations of weighted messages in one pass, as PNA wants them.

    multi_aggregate(x):   m_uv = w_uv · x_u          from the source
    edge_aggregate(e):    m_uv = w_uv · e_uv         from the edge

Both are reduced over the edges u → v by mean, min, max, std and sum, in the order asked for. With
no edge arriving the results are 0, but √1e-5 for std, that is √(ReLU(mean(m²) − mean(m)²) + 1e-5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.engine import array, compiled, kernel, split

Aggregator = Literal["mean", "min", "max", "std", "sum"]
AGGREGATORS: tuple[Aggregator, ...] = ("mean", "min", "max", "std", "sum")
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
    return _aggregate(x, batch.src, batch, weight, aggregators)


def edge_aggregate(
    e: Tensor, batch: GraphBatch, weight: Tensor | None, aggregators: Sequence[Aggregator]
) -> Tensor:
    """All aggregations of w_uv · e_uv for e [E, h]; otherwise as :func:`multi_aggregate`."""
    return _aggregate(e, torch.arange(len(e), device=e.device), batch, weight, aggregators)


def _aggregate(
    x: Tensor,
    rows: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    aggregators: Sequence[Aggregator],
) -> Tensor:
    """The message of edge e is weight[e] · x[rows[e]]."""
    if compiled(x, weight):
        ones = torch.ones(batch.num_edges) if weight is None else weight
        return _Multi.apply(x, ones, rows, batch, slots_of(aggregators), len(aggregators))
    message = x[rows] if weight is None else x[rows] * weight[:, None]
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


# -- compiled form ------------------------------------------------------------------------------
# Results go straight to their places in [N, A, h], which a matrix product then takes as it is.
# Backward walks the edges into each node, too: an edge never leaves its graph and a thread has
# whole graphs, so no two threads add to the same row.


def slots_of(aggregators: Sequence[Aggregator]) -> NDArray[np.int64]:
    """Where each of ``AGGREGATORS`` stands among those asked for, −1 for nowhere."""
    listed = list(aggregators)
    return np.array([listed.index(a) if a in listed else -1 for a in AGGREGATORS])


@kernel
def _forward(first, last, node_ptr, dst_ptr, rows, weight, x, slots, out):  # type: ignore[no-untyped-def]
    h = x.shape[1]
    zero, one = np.float32(0.0), np.float32(1.0)
    total, mean = np.empty(h, np.float32), np.empty(h, np.float32)
    low, high, square = (
        np.empty(h, np.float32), np.empty(h, np.float32), np.empty(h, np.float32)
    )  # fmt: skip
    at_mean, at_low, at_high, at_std, at_sum = slots
    for v in range(node_ptr[first], node_ptr[last]):
        begin, end = dst_ptr[v], dst_ptr[v + 1]
        inverse = one / np.float32(max(end - begin, 1))
        for j in range(h):
            total[j] = zero
            low[j] = zero
            high[j] = zero
            square[j] = zero
        for e in range(begin, end):
            u, w = rows[e], weight[e]
            for j in range(h):
                total[j] += w * x[u, j]
            if e == begin:
                for j in range(h):
                    low[j] = w * x[u, j]
                    high[j] = w * x[u, j]
            else:
                for j in range(h):
                    low[j] = min(low[j], w * x[u, j])
                    high[j] = max(high[j], w * x[u, j])
        for j in range(h):
            mean[j] = total[j] * inverse
        if at_std >= 0 and end - begin > 1:
            for e in range(begin, end):
                u, w = rows[e], weight[e]
                for j in range(h):
                    centred = w * x[u, j] - mean[j]
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
                out[v, at_std, j] = np.sqrt(square[j] * inverse + np.float32(EPS))
        if at_sum >= 0:
            for j in range(h):
                out[v, at_sum, j] = total[j]


@kernel
def _backward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, dst_ptr, rows, weight, x, slots, out, grad, grad_x, grad_weight
):
    """A message m gets base + slope · (m − mean), and the gradient of an extreme where it is one,
    shared among equals as in torch."""
    h = x.shape[1]
    zero, one = np.float32(0.0), np.float32(1.0)
    weighted = len(grad_weight) > 0
    base, slope, mean = (
        np.empty(h, np.float32), np.empty(h, np.float32), np.empty(h, np.float32)
    )  # fmt: skip
    for_low, for_high, row = (
        np.empty(h, np.float32), np.empty(h, np.float32), np.empty(h, np.float32)
    )  # fmt: skip
    at_mean, at_low, at_high, at_std, at_sum = slots
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
                    u, w = rows[e], weight[e]
                    for j in range(h):
                        mean[j] += w * x[u, j]
                for j in range(h):
                    mean[j] *= inverse
                for j in range(h):
                    slope[j] = grad[v, at_std, j] * inverse / out[v, at_std, j]
            if at_low >= 0:
                for j in range(h):
                    for_low[j] = zero
                for e in range(begin, end):
                    u, w = rows[e], weight[e]
                    for j in range(h):
                        for_low[j] += one if w * x[u, j] == out[v, at_low, j] else zero
                for j in range(h):
                    for_low[j] = grad[v, at_low, j] / for_low[j]
            if at_high >= 0:
                for j in range(h):
                    for_high[j] = zero
                for e in range(begin, end):
                    u, w = rows[e], weight[e]
                    for j in range(h):
                        for_high[j] += one if w * x[u, j] == out[v, at_high, j] else zero
                for j in range(h):
                    for_high[j] = grad[v, at_high, j] / for_high[j]
        for e in range(begin, end):
            u, w = rows[e], weight[e]
            for j in range(h):
                row[j] = base[j]
            if several:
                if at_std >= 0:
                    for j in range(h):
                        row[j] += slope[j] * (w * x[u, j] - mean[j])
                if at_low >= 0:
                    for j in range(h):
                        row[j] += for_low[j] if w * x[u, j] == out[v, at_low, j] else zero
                if at_high >= 0:
                    for j in range(h):
                        row[j] += for_high[j] if w * x[u, j] == out[v, at_high, j] else zero
            for j in range(h):
                grad_x[u, j] += w * row[j]
            if weighted:
                dot = zero
                for j in range(h):
                    dot += row[j] * x[u, j]
                grad_weight[e] = dot


class _Multi(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, rows: Tensor, batch: GraphBatch, slots: Any, count: int
    ) -> Tensor:
        out = torch.empty(batch.num_nodes, count, x.shape[1])
        split(_forward, *_places(batch, rows), array(weight), array(x), slots, out.numpy())
        ctx.save_for_backward(x, weight, rows, out)
        ctx.batch, ctx.slots = batch, slots
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, rows, out = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1]
        grad_x, grad_weight = torch.zeros(x.shape), torch.empty(weight.shape if wanted else 0)
        split(
            _backward, *_places(ctx.batch, rows), array(weight), array(x), ctx.slots, array(out),
            array(grad), grad_x.numpy(), grad_weight.numpy(),
        )  # fmt: skip
        return grad_x, grad_weight if wanted else None, None, None, None, None


def _places(batch: GraphBatch, rows: Tensor) -> tuple[Any, ...]:
    return batch.node_ptr.numpy(), batch.dst_ptr.numpy(), rows.numpy()
