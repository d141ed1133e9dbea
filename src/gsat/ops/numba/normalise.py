"""Normalisation per graph or per row, residual connections, ReLU and dropout in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.ops.numba.buffers import empty_tensor, local_array
from gsat.ops.numba.compile import inlined, kernel
from gsat.ops.numba.parallel import CHUNK, chunk_ptr, run_over_segments
from gsat.ops.numba.random import (
    channel_bits_numba,
    column_offsets_numba,
    dropout_arguments,
    row_words_numba,
)
from gsat.ops.random import Draws
from gsat.ops.reference import NORM_EPS

# A graph's rows fit into the cache, so several passes over them (mean, variance, result) are cheap.
# Loops over channels touch few arrays each: LLVM gives up on vectorising one that reads and writes
# so many that it would have to test more than eight pairs of them for overlap.
# Backward needs no second hash: y > 0 exactly where the row was kept and positive. A value is cut
# where it is <= 0, not kept where it is > 0: a NaN must get through, as it does in plain torch.


@inlined
def _statistics(first, last, ptr, z, mean, scale):
    """Per segment and channel: mean, and scale = 1 / sqrt(variance + eps)."""
    d = z.shape[1]
    part = local_array(d)
    for g in range(first, last):
        n = ptr[g + 1] - ptr[g]
        if n == 0:
            continue
        inverse = np.float32(1.0 / n)
        for j in range(d):
            mean[g, j] = 0.0
            scale[g, j] = 0.0
        # Sums of sums: in one go, a million rows would lose the last of seven digits.
        for start in range(ptr[g], ptr[g + 1], CHUNK):
            for j in range(d):
                part[j] = 0.0
            for i in range(start, min(start + CHUNK, ptr[g + 1])):
                for j in range(d):
                    part[j] += z[i, j]
            for j in range(d):
                mean[g, j] += part[j]
        for j in range(d):
            mean[g, j] *= inverse
        for start in range(ptr[g], ptr[g + 1], CHUNK):
            for j in range(d):
                part[j] = 0.0
            for i in range(start, min(start + CHUNK, ptr[g + 1])):
                for j in range(d):
                    centred = z[i, j] - mean[g, j]
                    part[j] += centred * centred
            for j in range(d):
                scale[g, j] += part[j]
        for j in range(d):
            scale[g, j] = np.float32(1.0) / np.sqrt(scale[g, j] * inverse + np.float32(NORM_EPS))


@kernel
def normalise_forward(first, last, ptr, z, row_id, key, threshold, keep_scale, mean, scale, y):
    """y = dropout(ReLU((z - mean[g]) * scale[g])); also writes the statistics mean and scale."""
    _statistics(first, last, ptr, z, mean, scale)
    normalise_again(first, last, ptr, z, row_id, key, threshold, keep_scale, mean, scale, y)


@inlined
def normalise_again(first, last, ptr, z, row_id, key, threshold, keep_scale, mean, scale, y):
    """The same from known statistics."""
    d = z.shape[1]
    offsets = column_offsets_numba(d)
    for g in range(first, last):
        for i in range(ptr[g], ptr[g + 1]):
            low, high = row_words_numba(key, row_id[i])
            for j in range(d):
                value = (z[i, j] - mean[g, j]) * scale[g, j] * keep_scale
                dropped = channel_bits_numba(low, high, offsets[j]) < threshold
                y[i, j] = np.float32(0.0) if (value <= np.float32(0.0)) | dropped else value


@inlined
def _gradient_sums(lo, hi, y, grad, keep_scale, total, dot):
    """Means over the rows lo ... hi - 1 of the gradient g that passes ReLU and dropout.

    total = mean of g * keep_scale; dot = mean of g * keep_scale * normalised value. Where g passes,
    y itself is the normalised value times keep_scale.
    """
    d = y.shape[1]
    part, part_dot = local_array(d), local_array(d)
    inverse = np.float32(1.0 / (hi - lo))
    for j in range(d):
        total[j] = 0.0
        dot[j] = 0.0
    for start in range(lo, hi, CHUNK):
        for j in range(d):
            part[j] = 0.0
            part_dot[j] = 0.0
        for i in range(start, min(start + CHUNK, hi)):
            for j in range(d):
                gy = grad[i, j] if y[i, j] > np.float32(0.0) else np.float32(0.0)
                part[j] += gy
                part_dot[j] += gy * y[i, j]
        for j in range(d):
            total[j] += part[j]
            dot[j] += part_dot[j]
    for j in range(d):
        total[j] *= inverse * keep_scale
        dot[j] *= inverse


@kernel
def normalise_backward(first, last, ptr, z, y, mean, scale, keep_scale, grad, grad_z):
    """Gradient of z."""
    d = z.shape[1]
    total, dot = local_array(d), local_array(d)
    for g in range(first, last):
        if ptr[g + 1] == ptr[g]:
            continue
        _gradient_sums(ptr[g], ptr[g + 1], y, grad, keep_scale, total, dot)
        for i in range(ptr[g], ptr[g + 1]):
            for j in range(d):
                gy = grad[i, j] * keep_scale if y[i, j] > np.float32(0.0) else np.float32(0.0)
                normal = (z[i, j] - mean[g, j]) * scale[g, j]
                grad_z[i, j] = scale[g, j] * (gy - total[j] - normal * dot[j])


@kernel
def gather_forward(
    first, last, ptr, src, dst, a, b, row_id, key, threshold, keep_scale, mean, scale, y
):
    """As normalise_forward, on z[e] = a[src[e]] + b[dst[e]]."""
    d = a.shape[1]
    for i in range(ptr[first], ptr[last]):
        u, v = src[i], dst[i]
        for j in range(d):
            y[i, j] = a[u, j] + b[v, j]
    _statistics(first, last, ptr, y, mean, scale)
    gather_again(
        first, last, ptr, src, dst, a, b, row_id, key, threshold, keep_scale, mean, scale, y
    )


@inlined
def gather_again(
    first, last, ptr, src, dst, a, b, row_id, key, threshold, keep_scale, mean, scale, y
):
    """The same from known statistics."""
    d = a.shape[1]
    offsets = column_offsets_numba(d)
    for g in range(first, last):
        for i in range(ptr[g], ptr[g + 1]):
            u, v = src[i], dst[i]
            low, high = row_words_numba(key, row_id[i])
            for j in range(d):
                # The sum again, not y: a loop that reads what it writes does not vectorise.
                value = (a[u, j] + b[v, j] - mean[g, j]) * scale[g, j] * keep_scale
                dropped = channel_bits_numba(low, high, offsets[j]) < threshold
                y[i, j] = np.float32(0.0) if (value <= np.float32(0.0)) | dropped else value


@kernel
def gather_backward(
    first, last, ptr, src, dst, node_ptr, a, b, y, mean, scale, keep_scale, grad, grad_a, grad_b
):
    """Gradients of a and b; node_ptr bounds the nodes of each graph."""
    d = a.shape[1]
    total, dot, row = local_array(d), local_array(d), local_array(d)
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(d):
            grad_a[v, j] = 0.0
            grad_b[v, j] = 0.0
    for g in range(first, last):
        if ptr[g + 1] == ptr[g]:
            continue
        _gradient_sums(ptr[g], ptr[g + 1], y, grad, keep_scale, total, dot)
        for i in range(ptr[g], ptr[g + 1]):
            u, v = src[i], dst[i]
            for j in range(d):
                gy = grad[i, j] * keep_scale if y[i, j] > np.float32(0.0) else np.float32(0.0)
                normal = (a[u, j] + b[v, j] - mean[g, j]) * scale[g, j]
                row[j] = scale[g, j] * (gy - total[j] - normal * dot[j])
            for j in range(d):
                grad_a[u, j] += row[j]
            for j in range(d):
                grad_b[v, j] += row[j]


@kernel
def row_normalise_forward(first, last, ptr, z, row_id, key, threshold, keep_scale, scale, y):
    """y = dropout(ReLU((z - mean_i) * scale_i)) for each row i; also writes scale."""
    d = z.shape[1]
    offsets = column_offsets_numba(d)
    inverse = np.float32(1.0 / d)
    for i in range(ptr[first], ptr[last]):
        low, high = row_words_numba(key, row_id[i])
        mean = np.float32(0.0)
        for j in range(d):
            mean += z[i, j]
        mean *= inverse
        square = np.float32(0.0)
        for j in range(d):
            centred = z[i, j] - mean
            square += centred * centred
        scale[i] = np.float32(1.0) / np.sqrt(square * inverse + np.float32(NORM_EPS))
        factor = scale[i] * keep_scale
        for j in range(d):
            value = (z[i, j] - mean) * factor
            dropped = channel_bits_numba(low, high, offsets[j]) < threshold
            y[i, j] = np.float32(0.0) if (value <= np.float32(0.0)) | dropped else value


@kernel
def row_normalise_backward(first, last, ptr, z, y, scale, keep_scale, grad, grad_z):
    """Gradient of z."""
    d = z.shape[1]
    inverse = np.float32(1.0 / d)
    for i in range(ptr[first], ptr[last]):
        mean = np.float32(0.0)
        for j in range(d):
            mean += z[i, j]
        mean *= inverse
        total = np.float32(0.0)
        dot = np.float32(0.0)
        for j in range(d):
            g = grad[i, j] if y[i, j] > np.float32(0.0) else np.float32(0.0)
            total += g
            dot += g * (z[i, j] - mean)
        total *= keep_scale * inverse
        dot *= keep_scale * inverse * scale[i]
        for j in range(d):
            g = grad[i, j] * keep_scale if y[i, j] > np.float32(0.0) else np.float32(0.0)
            normal = (z[i, j] - mean) * scale[i]
            grad_z[i, j] = scale[i] * (g - total - normal * dot)


@kernel
def relu_forward(first, last, ptr, z, bias, row_id, key, threshold, keep_scale, y):
    """y = dropout(ReLU(z + bias))."""
    d = z.shape[1]
    offsets = column_offsets_numba(d)
    for i in range(ptr[first], ptr[last]):
        low, high = row_words_numba(key, row_id[i])
        for j in range(d):
            value = (z[i, j] + bias[j]) * keep_scale
            dropped = channel_bits_numba(low, high, offsets[j]) < threshold
            y[i, j] = np.float32(0.0) if (value <= np.float32(0.0)) | dropped else value


@kernel
def relu_backward(first, last, ptr, y, keep_scale, grad, grad_z, sums):
    """Gradient of z, and its sum over each segment: the gradient of the bias."""
    d = y.shape[1]
    for c in range(first, last):
        for j in range(d):
            sums[c, j] = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            for j in range(d):
                g = grad[i, j] * keep_scale if y[i, j] > np.float32(0.0) else np.float32(0.0)
                grad_z[i, j] = g
                sums[c, j] += g


# Backward hashes again: a sum may be 0 where it was kept, so y does not show what was dropped.


@kernel
def _add_forward(first, last, ptr, x, z, row_id, key, threshold, keep_scale, y):
    """y = dropout(x + z)."""
    d = x.shape[1]
    offsets = column_offsets_numba(d)
    for i in range(ptr[first], ptr[last]):
        low, high = row_words_numba(key, row_id[i])
        for j in range(d):
            dropped = channel_bits_numba(low, high, offsets[j]) < threshold
            y[i, j] = np.float32(0.0) if dropped else (x[i, j] + z[i, j]) * keep_scale


@kernel
def _add_backward(first, last, ptr, grad, row_id, key, threshold, keep_scale, grad_x):
    """Gradient of x, which is also that of z."""
    d = grad.shape[1]
    offsets = column_offsets_numba(d)
    for i in range(ptr[first], ptr[last]):
        low, high = row_words_numba(key, row_id[i])
        for j in range(d):
            dropped = channel_bits_numba(low, high, offsets[j]) < threshold
            grad_x[i, j] = np.float32(0.0) if dropped else grad[i, j] * keep_scale


class NormaliseReLUDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, ptr, row_id, drop, draws):
        dropout = dropout_arguments(drop, draws)
        y = empty_tensor(*z.shape)
        mean, scale = (empty_tensor(len(ptr) - 1, z.shape[1]) for _ in range(2))
        run_over_segments(normalise_forward, ptr, z, row_id, *dropout, mean, scale, y)
        ctx.save_for_backward(z, y, mean, scale, ptr)
        ctx.keep_scale = dropout[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, y, mean, scale, ptr = ctx.saved_tensors
        grad_z = empty_tensor(*z.shape)
        arrays = z, y, mean, scale, ctx.keep_scale, grad, grad_z
        run_over_segments(normalise_backward, ptr, *arrays)
        return grad_z, None, None, None, None


class GatherNormaliseReLUDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, batch, drop, draws):
        dropout = dropout_arguments(drop, draws)
        y = empty_tensor(batch.num_edges, a.shape[1])
        mean, scale = (empty_tensor(batch.num_graphs, a.shape[1]) for _ in range(2))
        rows = batch.src, batch.dst, a, b, batch.edge_id
        run_over_segments(gather_forward, batch.edge_ptr, *rows, *dropout, mean, scale, y)
        ctx.save_for_backward(a, b, y, mean, scale)
        ctx.batch, ctx.keep_scale = batch, dropout[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        batch, (a, b) = ctx.batch, ctx.saved_tensors[:2]
        grad_a, grad_b = empty_tensor(*a.shape), empty_tensor(*b.shape)
        run_over_segments(
            gather_backward, batch.edge_ptr, batch.src, batch.dst, batch.node_ptr,
            *ctx.saved_tensors, ctx.keep_scale, grad, grad_a, grad_b,
        )  # fmt: skip
        return grad_a, grad_b, None, None, None


class RowNormaliseReLUDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, row_id: Tensor, drop: float, draws: Draws | None) -> Tensor:
        dropout = dropout_arguments(drop, draws)
        y, scale = empty_tensor(*z.shape), empty_tensor(len(z))
        run_over_segments(row_normalise_forward, chunk_ptr(len(z)), z, row_id, *dropout, scale, y)
        ctx.save_for_backward(z, y, scale)
        ctx.keep_scale = dropout[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_z = empty_tensor(*grad.shape)
        arrays = *ctx.saved_tensors, ctx.keep_scale, grad, grad_z
        run_over_segments(row_normalise_backward, chunk_ptr(len(grad)), *arrays)
        return grad_z, None, None, None


class ReLUDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, row_id, drop, draws, bias):
        dropout = dropout_arguments(drop, draws)
        y, added = empty_tensor(*z.shape), torch.zeros(z.shape[1]) if bias is None else bias
        run_over_segments(relu_forward, chunk_ptr(len(z)), z, added, row_id, *dropout, y)
        ctx.save_for_backward(y)
        ctx.keep_scale = dropout[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (y,) = ctx.saved_tensors
        ptr, grad_z = chunk_ptr(len(y)), empty_tensor(*y.shape)
        sums = empty_tensor(len(ptr) - 1, y.shape[1])
        run_over_segments(relu_backward, ptr, y, ctx.keep_scale, grad, grad_z, sums)
        return grad_z, None, None, None, sums.sum(0) if ctx.needs_input_grad[4] else None


class AddDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, z, row_id, drop, draws):
        y, ctx.dropout = empty_tensor(*x.shape), dropout_arguments(drop, draws)
        run_over_segments(_add_forward, chunk_ptr(len(x)), x, z, row_id, *ctx.dropout, y)
        ctx.save_for_backward(row_id)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_x, arrays = empty_tensor(*grad.shape), (grad, *ctx.saved_tensors)
        run_over_segments(_add_backward, chunk_ptr(len(grad)), *arrays, *ctx.dropout, grad_x)
        return grad_x, grad_x, None, None, None
