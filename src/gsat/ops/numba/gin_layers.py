"""The layers of GIN, each with the ReLU and the dropout that follow it, in one pass.

A few hundred rows at a time go through the linear layers and all that is between them. Backward
keeps s (the aggregated messages), z (its first product) and the result, and computes the rest
again. While training, the first bias cancels: the batch norm subtracts the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from gsat.ops.numba.buffers import aligned_empties, aligned_empty, as_array, local_array
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

_WEIGHTS = 6  # tensors of a layer
_CHUNK = 512  # rows that go through all steps together: at h = 64 they fit into the cache


def gin_layers(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    terms: Sequence[EdgeTerm],
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d, nn.Linear]],
    drop: float = 0.0,
    draws: Sequence[Draws | None] | None = None,
) -> Tensor:
    """Fused form of :func:`gsat.ops.reference.gin_layers`.

    In training mode, for two rows or more.
    """
    dropout = [dropout_arguments(drop, source) for source in draws or [None] * len(layers)]
    parts = [tuple(t) if isinstance(t, ScalarTerm) else () if t is None else (t,) for t in terms]
    weights = [
        tensor
        for inner, norm, outer in layers
        for tensor in (inner.weight, inner.bias, norm.weight, norm.bias, outer.weight, outer.bias)
    ]
    norms = [norm for _, norm, _ in layers]
    flat = [tensor for part in parts for tensor in part]
    return _GINLayers.apply(batch, norms, dropout, x, weight, *weights, *flat)


def gin_layers_inference(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    terms: Sequence[EdgeTerm],
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d, nn.Linear]],
) -> Tensor:
    """Fused form of :func:`gsat.ops.reference.gin_layers` in evaluation mode.

    Without dropout or gradients.
    """
    values, edges = as_array(x), None if weight is None else as_array(weight)
    ptr = block_ptr(len(x))
    for term, (inner, norm, outer) in zip(terms, layers, strict=True):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        parts = term if isinstance(term, ScalarTerm) else () if term is None else (term,)
        s = aggregate_rows(batch, True, edges, values, *(as_array(part) for part in parts))
        mean = as_array(norm.running_mean) - as_array(inner.bias)
        scale = as_array(norm.weight) / np.sqrt(as_array(norm.running_var) + np.float32(norm.eps))
        lines = mean, scale, as_array(norm.bias)
        values = aligned_empty(len(s), outer.out_features)
        weights = as_array(outer.weight), as_array(outer.bias)
        scratch = _scratch(ptr, inner.out_features, inner.out_features, outer.out_features)
        run_over_blocks(
            _inference, ptr, sgemm_address(), s, as_array(inner.weight), *lines, *weights, values,
            *scratch,
        )  # fmt: skip
    return torch.from_numpy(values)


def _scratch(ptr: Any, *widths: int) -> list[Any]:
    """Allocate scratch memory for a chunk of rows, [blocks, _CHUNK, width] for each width.

    A thread uses that of the first block of its range.
    """
    return aligned_empties(*((len(ptr) - 1, _CHUNK, width) for width in widths))


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


class _GINLayers(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, batch: GraphBatch, norms: Sequence[nn.BatchNorm1d],
        dropout: Sequence[tuple[Any, ...]], x: Tensor, weight: Tensor | None, *tensors: Tensor,
    ) -> Tensor:  # fmt: skip
        arrays = [as_array(tensor) for tensor in tensors]
        flat = arrays[_WEIGHTS * len(norms) :]
        count = len(flat) // len(norms)  # arrays of an edge term, the same for all layers
        edges, values = None if weight is None else as_array(weight), as_array(x)
        n, ptr = len(values), block_ptr(len(values))
        ctx.save_for_backward(x, weight, *tensors)  # they may not be changed until backward
        ctx.batch, ctx.dropout, ctx.ptr, ctx.edges, ctx.layers = batch, dropout, ptr, edges, []
        for number, norm in enumerate(norms):
            inner, bias, scale, shift, outer, outer_bias = arrays[_WEIGHTS * number :][:_WEIGHTS]
            terms = flat[count * number :][:count]
            s = aggregate_rows(batch, True, edges, values, *terms)
            h, d = len(inner), len(outer)
            z, y, moments, mean, variance, lines = aligned_empties(
                (n, h), (n, d), (2, len(ptr) - 1, h), (h,), (h,), (4, h)
            )
            run_over_blocks(_inner_forward, ptr, sgemm_address(), s, inner, z, *moments)
            norm_of_blocks(ptr, *moments, scale, shift, np.float32(norm.eps), mean, variance, lines)
            outers = outer, outer_bias, batch.node_id.numpy()
            run_over_blocks(
                _outer_forward, ptr, sgemm_address(), z, lines, *outers, *dropout[number], y,
                *_scratch(ptr, h, d),
            )  # fmt: skip
            total = torch.from_numpy(mean + bias)
            update_running_statistics(norm, total, torch.from_numpy(variance), n)
            ctx.layers.append((values, inner, outer, terms, s, z, y, lines))
            values = y
        return torch.from_numpy(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ctx.saved_tensors  # noqa: B018  checks that nothing was changed in place
        ptr, needs = ctx.ptr, ctx.needs_input_grad[3:]
        count, layers = len(ptr) - 1, len(ctx.layers)
        needs_terms = needs[2 + _WEIGHTS * layers :]
        grads: list[Any] = []
        grads_of_terms: list[Any] = []
        above, grad_weight = as_array(grad), None
        for number in reversed(range(layers)):
            x, inner, outer, terms, s, z, y, norm = ctx.layers[number]
            (n, h), d = z.shape, y.shape[1]
            grad_y, grad_s, inners, outers, biases, block_sums = aligned_empties(
                (n, h), s.shape, (count, *inner.shape), (count, d, h), (count, d), (count, 2, h)
            )
            run_over_blocks(
                _outer_backward, ptr, sgemm_address(), z, norm, outer, y, ctx.dropout[number][-1],
                above, grad_y, outers, block_sums, biases, *_scratch(ptr, h, d),
            )  # fmt: skip
            sums = block_sums.sum(0)
            run_over_blocks(
                _inner_backward, ptr, sgemm_address(), z, norm, sums / np.float32(n), grad_y, s,
                inner, grad_s, inners, *_scratch(ptr, h, h),
            )  # fmt: skip
            of_terms = needs_terms[len(terms) * number :][: len(terms)]
            of_weight, above, *more = aggregate_rows_backward(
                ctx.batch, True, (needs[1], True, *of_terms), grad_s, ctx.edges, x, *terms
            )
            if of_weight is not None:
                grad_weight = of_weight if grad_weight is None else grad_weight + of_weight
            own = inners.sum(0), None, sums[1], sums[0], outers.sum(0), biases.sum(0)
            grads, grads_of_terms = [*own, *grads], [*more, *grads_of_terms]
        every = above, grad_weight, *grads, *grads_of_terms
        return None, None, None, *(None if g is None else torch.from_numpy(g) for g in every)
