"""One layer of GIN, with the ReLU and the dropout that follow it.

    s_v = x_v + Σ_{u→v} w_uv · m_uv           with m = x_u, or ReLU(x_u + c_uv)
    y = dropout(ReLU(ReLU(BatchNorm(s W₁ᵀ + b₁)) W₂ᵀ + b₂))

The compiled form takes some hundred rows at a time through the linear layers and all that is
between them. Backward keeps s, its first product and the result, and makes the rest again.
While training, b₁ cancels: the batch norm takes the mean away.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.aggregate import (
    EdgeTerm,
    ScalarTerm,
    aggregate,
    aggregate_rows,
    aggregate_rows_backward,
)
from gsat.ops.batchnorm import (
    batch_norm_relu,
    gradient_of_rows,
    gradient_sums,
    normalise_rows,
    update_running,
)
from gsat.ops.engine import array, empty, inlined, kernel
from gsat.ops.normalise import dropout_numbers, relu_backward, relu_dropout, relu_forward
from gsat.ops.products import (
    add,
    add_transposed_times,
    blas,
    blocks,
    clear,
    fused,
    spread,
    times,
    times_transposed,
)
from gsat.ops.random import Draws

_CHUNK = 512  # rows that go through all steps together: at h = 64 they fit into the cache


def gin_layer(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    term: EdgeTerm,
    inner: nn.Linear,
    norm: nn.BatchNorm1d,
    outer: nn.Linear,
    drop: float = 0.0,
    draws: Draws | None = None,
) -> Tensor:
    """[N, h] to [N, d]; updates the running statistics in training mode.

    Args:
        x: [N, h]. weight: [E], or None for all ones. term: c, none, a :class:`ScalarTerm` or
            [E, h]. inner, norm, outer: the MLP. drop: share that is dropped if there are ``draws``.
    """
    terms = term if isinstance(term, ScalarTerm) else () if term is None else (term,)
    if not fused(x, weight, *terms, inner.weight):
        return gin_layer_plain(x, batch, weight, term, inner, norm, outer, drop, draws)
    if not norm.training and draws is None and not torch.is_grad_enabled():
        return _infer(x, batch, weight, terms, inner, norm, outer)
    if not norm.training or len(x) < 2:
        return gin_layer_plain(x, batch, weight, term, inner, norm, outer, drop, draws)
    dropout = dropout_numbers(drop if draws else 0.0, draws.key if draws else 0)
    mlp = (inner.weight, norm.weight, norm.bias, outer.weight, outer.bias)
    y, mean, variance = _GINLayer.apply(batch, norm.eps, dropout, *mlp, x, weight, *terms)
    update_running(norm, mean + inner.bias.detach(), variance, len(x))
    return y


def gin_layer_plain(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    term: EdgeTerm,
    inner: nn.Linear,
    norm: nn.BatchNorm1d,
    outer: nn.Linear,
    drop: float = 0.0,
    draws: Draws | None = None,
    more: Tensor | None = None,
) -> Tensor:
    """The meaning of :func:`gin_layer`, from smaller ops; the biases go into the pass that follows
    their product. ``more`` [N, h] is added to s."""
    s = aggregate(x, batch, weight, term, own=True)
    if more is not None:
        s = s + more
    y = batch_norm_relu(s @ inner.weight.T, inner.bias, norm)
    return relu_dropout(y @ outer.weight.T, batch.node_id, drop, draws, outer.bias)


def _rooms(ptr: Any, *widths: int) -> list[Any]:
    """Room for rows on their way through a kernel: one for each range of blocks it may run on."""
    return [empty(len(ptr) - 1, _CHUNK, width) for width in widths]


@kernel
def _inner_forward(first, last, ptr, blas, s, w, z, mean, squares):  # type: ignore[no-untyped-def]
    """z = s wᵀ, and of each block the mean and the sum of squared distances from it."""
    h = w.shape[0]
    part, part_squares = np.empty(h, np.float32), np.empty(h, np.float32)
    for b in range(first, last):
        for j in range(h):
            mean[b, j] = 0.0
            squares[b, j] = 0.0
        for lo in range(ptr[b], ptr[b + 1], _CHUNK):
            hi = min(lo + _CHUNK, ptr[b + 1])
            times_transposed(blas, s[lo:hi], w, z[lo:hi])
            inverse = np.float32(1.0 / (hi - lo))
            for j in range(h):
                part[j] = 0.0
                part_squares[j] = 0.0
            for i in range(lo, hi):
                for j in range(h):
                    part[j] += z[i, j]
            for j in range(h):
                part[j] *= inverse
            for i in range(lo, hi):
                for j in range(h):
                    centred = z[i, j] - part[j]
                    part_squares[j] += centred * centred
            _join(lo - ptr[b], hi - lo, part, part_squares, mean[b], squares[b])


@inlined
def _join(seen, more, part, part_squares, mean, squares):  # type: ignore[no-untyped-def]
    """Mean and squared distances of two sets of rows together, without a difference of squares."""
    share = np.float32(more / (seen + more))
    across = np.float32(seen * (more / (seen + more)))
    for j in range(len(mean)):
        shift = part[j] - mean[j]
        mean[j] += shift * share
        squares[j] += part_squares[j] + shift * shift * across


@kernel
def _finish(ptr, means, squares, weight, bias, eps, mean, variance, lines):  # type: ignore[no-untyped-def]
    """Statistics of all rows from those of the blocks, and what each channel needs of them."""
    h = len(mean)
    total = np.zeros(h, np.float32)
    for j in range(h):
        mean[j] = 0.0
    for b in range(len(ptr) - 1):
        _join(ptr[b], ptr[b + 1] - ptr[b], means[b], squares[b], mean, total)
    for j in range(h):
        variance[j] = total[j] / np.float32(ptr[-1])
        inverse = np.float32(1.0) / np.sqrt(variance[j] + eps)
        lines[0, j] = weight[j] * inverse
        lines[1, j] = bias[j]
        lines[2, j] = mean[j]
        lines[3, j] = inverse


@kernel
def _outer_forward(  # type: ignore[no-untyped-def]
    first, last, ptr, blas, z, lines, w, bias, rows, key, below, grow, out, rooms, wide_rooms
):
    y, product = rooms[first], wide_rooms[first]
    span = np.zeros(2, np.int64)
    for b in range(first, last):
        for lo in range(ptr[b], ptr[b + 1], _CHUNK):
            hi = min(lo + _CHUNK, ptr[b + 1])
            n = hi - lo
            span[1] = n
            normalise_rows(0, 1, span, z[lo:hi], lines[2], lines[0], lines[1], y)
            times_transposed(blas, y[:n], w, product[:n])
            relu_forward(0, 1, span, product, bias, rows[lo:hi], key, below, grow, out[lo:hi])


@kernel
def _outer_backward(  # type: ignore[no-untyped-def]
    first, last, ptr, blas, z, lines, w, out, grow, grad, grad_y, grad_w, grad_lines, grad_bias,
    rooms, wide_rooms,
):  # fmt: skip
    h, d = z.shape[1], w.shape[0]
    y, gated = rooms[first], wide_rooms[first]
    part, part_lines = np.empty((1, d), np.float32), np.empty((2, h), np.float32)
    span = np.zeros(2, np.int64)
    for b in range(first, last):
        clear(grad_w[b])
        clear(grad_bias[b : b + 1])
        clear(grad_lines[b])
        for lo in range(ptr[b], ptr[b + 1], _CHUNK):
            hi = min(lo + _CHUNK, ptr[b + 1])
            n = hi - lo
            span[1] = n
            relu_backward(0, 1, span, out[lo:hi], grow, grad[lo:hi], gated, part)
            add(part, grad_bias[b : b + 1])
            times(blas, gated[:n], w, False, grad_y[lo:hi])
            normalise_rows(0, 1, span, z[lo:hi], lines[2], lines[0], lines[1], y)
            add_transposed_times(blas, gated[:n], y[:n], grad_w[b])
            gradient_sums(
                0, 1, span, z[lo:hi], y, lines[2], lines[3], grad_y[lo:hi],
                part_lines[:1], part_lines[1:],
            )  # fmt: skip
            add(part_lines, grad_lines[b])


@kernel
def _inner_backward(  # type: ignore[no-untyped-def]
    first, last, ptr, blas, z, lines, means, grad_y, s, w, grad_s, grad_w, rooms, more_rooms
):
    y, grad_z = rooms[first], more_rooms[first]
    span = np.zeros(2, np.int64)
    for b in range(first, last):
        clear(grad_w[b])
        for lo in range(ptr[b], ptr[b + 1], _CHUNK):
            hi = min(lo + _CHUNK, ptr[b + 1])
            n = hi - lo
            span[1] = n
            normalise_rows(0, 1, span, z[lo:hi], lines[2], lines[0], lines[1], y)
            gradient_of_rows(
                0, 1, span, z[lo:hi], y, lines[2], lines[3], lines[0], means[0], means[1],
                grad_y[lo:hi], grad_z,
            )  # fmt: skip
            add_transposed_times(blas, grad_z[:n], s[lo:hi], grad_w[b])
            times(blas, grad_z[:n], w, False, grad_s[lo:hi])


@kernel
def _inference(  # type: ignore[no-untyped-def]
    first,
    last,
    ptr,
    blas,
    s,
    w,
    mean,
    scale,
    shift,
    outer,
    bias,
    out,
    rooms,
    more_rooms,
    wide_rooms,
):
    z, y, product = rooms[first], more_rooms[first], wide_rooms[first]
    span = np.zeros(2, np.int64)
    for b in range(first, last):
        for lo in range(ptr[b], ptr[b + 1], _CHUNK):
            hi = min(lo + _CHUNK, ptr[b + 1])
            n = hi - lo
            span[1] = n
            times_transposed(blas, s[lo:hi], w, z[:n])
            normalise_rows(0, 1, span, z, mean, scale, shift, y)
            times_transposed(blas, y[:n], outer, product[:n])
            for i in range(n):
                for j in range(len(bias)):
                    value = product[i, j] + bias[j]
                    out[lo + i, j] = np.float32(0.0) if value <= np.float32(0.0) else value


def _infer(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    terms: tuple[Tensor, ...],
    inner: nn.Linear,
    norm: nn.BatchNorm1d,
    outer: nn.Linear,
) -> Tensor:
    """The layer with fixed statistics, without dropout or gradients."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    edges = None if weight is None else array(weight)
    s = aggregate_rows(batch, True, edges, array(x), *(array(term) for term in terms))
    mean = array(norm.running_mean) - array(inner.bias)
    scale = array(norm.weight) / np.sqrt(array(norm.running_var) + np.float32(norm.eps))
    out, lines = empty(len(s), outer.out_features), (mean, scale, array(norm.bias))
    weights = array(outer.weight), array(outer.bias)
    ptr = blocks(len(s))
    rooms = _rooms(ptr, inner.out_features, inner.out_features, outer.out_features)
    spread(_inference, ptr, blas(), s, array(inner.weight), *lines, *weights, out, *rooms)
    return torch.from_numpy(out)


class _GINLayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, batch: GraphBatch, eps: float, dropout: tuple[Any, ...],
        inner: Tensor, weight: Tensor, bias: Tensor, outer: Tensor, outer_bias: Tensor,
        x: Tensor, edge_weight: Tensor | None, *terms: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        ctx.save_for_backward(inner, outer, x, edge_weight, *terms)
        edges = [None if edge_weight is None else array(edge_weight)]
        s = aggregate_rows(batch, True, *edges, array(x), *(array(term) for term in terms))
        n, h = len(s), len(inner)
        ptr = blocks(n)
        z, y = empty(n, h), empty(n, len(outer))
        means, squares = np.empty((2, len(ptr) - 1, h), np.float32)
        mean, variance, lines = (
            np.empty(h, np.float32),
            np.empty(h, np.float32),
            np.empty((4, h), np.float32),
        )
        spread(_inner_forward, ptr, blas(), s, array(inner), z, means, squares)
        norm = array(weight), array(bias), np.float32(eps)
        _finish(ptr, means, squares, *norm, mean, variance, lines)
        outers = array(outer), array(outer_bias), batch.node_id.numpy()
        rooms = _rooms(ptr, h, len(outer))
        spread(_outer_forward, ptr, blas(), z, lines, *outers, *dropout, y, *rooms)
        ctx.batch, ctx.grow, ctx.kept = batch, dropout[-1], (ptr, s, z, y, lines)
        out, *moments = (torch.from_numpy(a) for a in (y, mean, variance))
        ctx.mark_non_differentiable(*moments)
        return out, moments[0], moments[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        inner, outer, x, edge_weight, *terms = ctx.saved_tensors
        ptr, s, z, y, lines = ctx.kept
        count, (n, h), d = len(ptr) - 1, z.shape, y.shape[1]
        grad_y, grad_s = empty(n, h), empty(*s.shape)
        inners = empty(count, *inner.shape)
        outers, biases = empty(count, d, h), empty(count, d)
        of_lines = empty(count, 2, h)
        spread(
            _outer_backward, ptr, blas(), z, lines, array(outer), y, ctx.grow, array(grad),
            grad_y, outers, of_lines, biases, *_rooms(ptr, h, d),
        )  # fmt: skip
        grad_lines = of_lines.sum(0)
        means = grad_lines / np.float32(n)
        spread(
            _inner_backward, ptr, blas(), z, lines, means, grad_y, s, array(inner), grad_s, inners,
            *_rooms(ptr, h, h),
        )  # fmt: skip
        needs = ctx.needs_input_grad
        edges = [None if edge_weight is None else array(edge_weight)]
        made = aggregate_rows_backward(
            ctx.batch, True, (needs[9], needs[8], *needs[10:]), grad_s, *edges, array(x),
            *(array(term) for term in terms),
        )  # fmt: skip
        to_inner, to_outer = inners.sum(0), outers.sum(0)
        grads = to_inner, grad_lines[1], grad_lines[0], to_outer, biases.sum(0), made[1], made[0]
        return (
            None, None, None,
            *(None if g is None else torch.from_numpy(g) for g in (*grads, *made[2:])),
        )  # fmt: skip
