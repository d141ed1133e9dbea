"""One layer of GIN, with the ReLU and the dropout that follow it.

A few hundred rows at a time go through the linear layers and all that is between them. Backward
keeps s (the aggregated messages), z (its first product) and the result, and computes the rest
again. While training, the first bias cancels: the batch norm subtracts the mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.numba.aggregate import aggregate_rows, aggregate_rows_backward
from gsat.ops.numba.batch_norm import (
    INVERSE_STD,
    MEAN,
    SCALE,
    SHIFT,
    add_moments,
    gradient_sums,
    input_gradient,
    norm_of_blocks,
    normalise_rows,
    update_running_statistics,
)
from gsat.ops.numba.buffers import aligned_empty, as_array, local_array
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.matmul import (
    add_matmul_tn,
    add_to,
    block_ptr,
    fill_zero,
    matmul_nn,
    matmul_nt,
    run_over_blocks,
    sgemm_address,
)
from gsat.ops.numba.normalise import relu_backward, relu_forward
from gsat.ops.numba.random import dropout_arguments
from gsat.ops.random import Draws
from gsat.ops.reference import EdgeTerm, ScalarTerm

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
    """Fused form of :func:`gsat.ops.reference.gin_layer` in training mode, for two rows or more."""
    terms = term if isinstance(term, ScalarTerm) else () if term is None else (term,)
    dropout = dropout_arguments(drop, draws)
    mlp = (inner.weight, norm.weight, norm.bias, outer.weight, outer.bias)
    y, mean, variance = _GINLayer.apply(batch, norm.eps, dropout, *mlp, x, weight, *terms)
    update_running_statistics(norm, mean + inner.bias.detach(), variance, len(x))
    return y


def gin_layer_inference(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    term: EdgeTerm,
    inner: nn.Linear,
    norm: nn.BatchNorm1d,
    outer: nn.Linear,
) -> Tensor:
    """Fused form of :func:`gsat.ops.reference.gin_layer` in evaluation mode.

    Without dropout or gradients.
    """
    assert norm.running_mean is not None
    assert norm.running_var is not None
    terms = term if isinstance(term, ScalarTerm) else () if term is None else (term,)
    edges = None if weight is None else as_array(weight)
    s = aggregate_rows(batch, True, edges, as_array(x), *(as_array(term) for term in terms))
    mean = as_array(norm.running_mean) - as_array(inner.bias)
    scale = as_array(norm.weight) / np.sqrt(as_array(norm.running_var) + np.float32(norm.eps))
    out, lines = aligned_empty(len(s), outer.out_features), (mean, scale, as_array(norm.bias))
    weights = as_array(outer.weight), as_array(outer.bias)
    ptr = block_ptr(len(s))
    scratch = _scratch(ptr, inner.out_features, inner.out_features, outer.out_features)
    run_over_blocks(
        _inference, ptr, sgemm_address(), s, as_array(inner.weight), *lines, *weights, out, *scratch
    )
    return torch.from_numpy(out)


def _scratch(ptr: Any, *widths: int) -> list[Any]:
    """Allocate scratch memory for a chunk of rows, [blocks, _CHUNK, width] for each width.

    A thread uses that of the first block of its range.
    """
    return [aligned_empty(len(ptr) - 1, _CHUNK, width) for width in widths]


@kernel
def _inner_forward(first, last, ptr, sgemm, s, w, z, mean, squares):  # type: ignore[no-untyped-def]
    """z = s wᵀ, and per block the mean of z and the sum of squared distances from it."""
    h = w.shape[0]
    part, part_squares = local_array(h), local_array(h)
    for b in range(first, last):
        for j in range(h):
            mean[b, j] = 0.0
            squares[b, j] = 0.0
        for lo in range(ptr[b], ptr[b + 1], _CHUNK):
            hi = min(lo + _CHUNK, ptr[b + 1])
            matmul_nt(sgemm, s[lo:hi], w, z[lo:hi])
            add_moments(z[lo:hi], lo - ptr[b], part, part_squares, mean[b], squares[b])


@kernel
def _outer_forward(  # type: ignore[no-untyped-def]
    first, last, ptr, sgemm, z, norm, w, bias, row_id, key, threshold, keep_scale, out,
    scratch, wide_scratch,
):  # fmt: skip
    """out = dropout(ReLU(ReLU(BatchNorm(z)) wᵀ + bias))."""
    y, product = scratch[first], wide_scratch[first]
    span = np.zeros(2, np.int64)  # a ptr with one segment: the chunk at hand
    for b in range(first, last):
        for lo in range(ptr[b], ptr[b + 1], _CHUNK):
            hi = min(lo + _CHUNK, ptr[b + 1])
            n = hi - lo
            span[1] = n
            normalise_rows(0, 1, span, z[lo:hi], norm[MEAN], norm[SCALE], norm[SHIFT], y)
            matmul_nt(sgemm, y[:n], w, product[:n])
            relu_forward(
                0, 1, span, product, bias, row_id[lo:hi], key, threshold, keep_scale, out[lo:hi]
            )


@kernel
def _outer_backward(  # type: ignore[no-untyped-def]
    first, last, ptr, sgemm, z, norm, w, out, keep_scale, grad, grad_y, grad_w, grad_sums,
    grad_bias, scratch, wide_scratch,
):  # fmt: skip
    """Gradient of y = ReLU(BatchNorm(z)), and per block those of w and bias and the sums that the
    batch norm's backward needs (see ``gradient_sums``): grad_sums[b] = total, dot."""
    h, d = z.shape[1], w.shape[0]
    y, gated = scratch[first], wide_scratch[first]
    part, part_sums = local_array(d).reshape(1, d), local_array(2 * h).reshape(2, h)
    span = np.zeros(2, np.int64)  # a ptr with one segment: the chunk at hand
    for b in range(first, last):
        fill_zero(grad_w[b])
        fill_zero(grad_bias[b : b + 1])
        fill_zero(grad_sums[b])
        for lo in range(ptr[b], ptr[b + 1], _CHUNK):
            hi = min(lo + _CHUNK, ptr[b + 1])
            n = hi - lo
            span[1] = n
            relu_backward(0, 1, span, out[lo:hi], keep_scale, grad[lo:hi], gated, part)
            add_to(part, grad_bias[b : b + 1])
            matmul_nn(sgemm, gated[:n], w, False, grad_y[lo:hi])
            normalise_rows(0, 1, span, z[lo:hi], norm[MEAN], norm[SCALE], norm[SHIFT], y)
            add_matmul_tn(sgemm, gated[:n], y[:n], grad_w[b])
            gradient_sums(
                0, 1, span, z[lo:hi], y, norm[MEAN], norm[INVERSE_STD], grad_y[lo:hi],
                part_sums[:1], part_sums[1:],
            )  # fmt: skip
            add_to(part_sums, grad_sums[b])


@kernel
def _inner_backward(  # type: ignore[no-untyped-def]
    first, last, ptr, sgemm, z, norm, means, grad_y, s, w, grad_s, grad_w, scratch, more_scratch
):
    """Gradients of s, and of w per block; means = grad_sums over all rows, / N."""
    y, grad_z = scratch[first], more_scratch[first]
    span = np.zeros(2, np.int64)  # a ptr with one segment: the chunk at hand
    for b in range(first, last):
        fill_zero(grad_w[b])
        for lo in range(ptr[b], ptr[b + 1], _CHUNK):
            hi = min(lo + _CHUNK, ptr[b + 1])
            n = hi - lo
            span[1] = n
            normalise_rows(0, 1, span, z[lo:hi], norm[MEAN], norm[SCALE], norm[SHIFT], y)
            input_gradient(
                0, 1, span, z[lo:hi], y, norm[MEAN], norm[INVERSE_STD], norm[SCALE], means[0],
                means[1], grad_y[lo:hi], grad_z,
            )  # fmt: skip
            add_matmul_tn(sgemm, grad_z[:n], s[lo:hi], grad_w[b])
            matmul_nn(sgemm, grad_z[:n], w, False, grad_s[lo:hi])


@kernel
def _inference(  # type: ignore[no-untyped-def]
    first, last, ptr, sgemm, s, w, mean, scale, shift, outer, bias, out, scratch, more_scratch,
    wide_scratch,
):  # fmt: skip
    """out = ReLU(ReLU((s wᵀ - mean) * scale + shift) outerᵀ + bias)."""
    z, y, product = scratch[first], more_scratch[first], wide_scratch[first]
    span = np.zeros(2, np.int64)  # a ptr with one segment: the chunk at hand
    for b in range(first, last):
        for lo in range(ptr[b], ptr[b + 1], _CHUNK):
            hi = min(lo + _CHUNK, ptr[b + 1])
            n = hi - lo
            span[1] = n
            matmul_nt(sgemm, s[lo:hi], w, z[:n])
            normalise_rows(0, 1, span, z, mean, scale, shift, y)
            matmul_nt(sgemm, y[:n], outer, product[:n])
            for i in range(n):
                for j in range(len(bias)):
                    value = product[i, j] + bias[j]
                    out[lo + i, j] = np.float32(0.0) if value <= np.float32(0.0) else value


class _GINLayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, batch: GraphBatch, eps: float, dropout: tuple[Any, ...],
        inner: Tensor, weight: Tensor, bias: Tensor, outer: Tensor, outer_bias: Tensor,
        x: Tensor, edge_weight: Tensor | None, *terms: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        ctx.save_for_backward(inner, outer, x, edge_weight, *terms)
        edges = None if edge_weight is None else as_array(edge_weight)
        s = aggregate_rows(batch, True, edges, as_array(x), *(as_array(term) for term in terms))
        n, h = len(s), len(inner)
        ptr = block_ptr(n)
        z, y = aligned_empty(n, h), aligned_empty(n, len(outer))
        means, squares = aligned_empty(2, len(ptr) - 1, h)
        mean, variance, norm = aligned_empty(h), aligned_empty(h), aligned_empty(4, h)
        run_over_blocks(_inner_forward, ptr, sgemm_address(), s, as_array(inner), z, means, squares)
        affine = as_array(weight), as_array(bias), np.float32(eps)
        norm_of_blocks(ptr, means, squares, *affine, mean, variance, norm)
        outers = as_array(outer), as_array(outer_bias), batch.node_id.numpy()
        scratch = _scratch(ptr, h, len(outer))
        run_over_blocks(
            _outer_forward, ptr, sgemm_address(), z, norm, *outers, *dropout, y, *scratch
        )
        ctx.batch, ctx.keep_scale, ctx.intermediate = batch, dropout[-1], (ptr, s, z, y, norm)
        out, *moments = (torch.from_numpy(a) for a in (y, mean, variance))
        ctx.mark_non_differentiable(*moments)
        return out, moments[0], moments[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        inner, outer, x, edge_weight, *terms = ctx.saved_tensors
        ptr, s, z, y, norm = ctx.intermediate
        count, (n, h), d = len(ptr) - 1, z.shape, y.shape[1]
        grad_y, grad_s = aligned_empty(n, h), aligned_empty(*s.shape)
        inners = aligned_empty(count, *inner.shape)
        outers, biases = aligned_empty(count, d, h), aligned_empty(count, d)
        sums_of_blocks = aligned_empty(count, 2, h)
        run_over_blocks(
            _outer_backward, ptr, sgemm_address(), z, norm, as_array(outer), y, ctx.keep_scale,
            as_array(grad), grad_y, outers, sums_of_blocks, biases, *_scratch(ptr, h, d),
        )  # fmt: skip
        grad_sums = sums_of_blocks.sum(0)
        means = grad_sums / np.float32(n)
        run_over_blocks(
            _inner_backward, ptr, sgemm_address(), z, norm, means, grad_y, s, as_array(inner),
            grad_s, inners, *_scratch(ptr, h, h),
        )  # fmt: skip
        needs = ctx.needs_input_grad
        edges = None if edge_weight is None else as_array(edge_weight)
        of_inputs = aggregate_rows_backward(
            ctx.batch, True, (needs[9], needs[8], *needs[10:]), grad_s, edges, as_array(x),
            *(as_array(term) for term in terms),
        )  # fmt: skip
        grad_x, grad_weight, grad_terms = of_inputs[1], of_inputs[0], of_inputs[2:]
        grads = (
            inners.sum(0), grad_sums[1], grad_sums[0], outers.sum(0), biases.sum(0),
            grad_x, grad_weight, *grad_terms,
        )  # fmt: skip
        return None, None, None, *(None if g is None else torch.from_numpy(g) for g in grads)
