"""Normalisation per graph or per row, ReLU and dropout in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.numba.buffers import as_array, empty_tensor, local_array
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


def normalise_relu_dropout(
    z: Tensor, ptr: Tensor, row_id: Tensor, drop: float, draws: Draws | None
) -> Tensor:
    """Compiled form of :func:`gsat.ops.reference.normalise_relu_dropout`."""
    return _NormaliseReLUDropout.apply(z, ptr, row_id, dropout_arguments(drop, draws))


def gather_normalise_relu_dropout(
    a: Tensor, b: Tensor, batch: GraphBatch, drop: float, draws: Draws | None
) -> Tensor:
    """Compiled form of :func:`gsat.ops.reference.gather_normalise_relu_dropout`."""
    return _GatherNormaliseReLUDropout.apply(a, b, batch, dropout_arguments(drop, draws))


def relu_dropout(
    z: Tensor, row_id: Tensor, drop: float, draws: Draws, bias: Tensor | None = None
) -> Tensor:
    """Compiled form of :func:`gsat.ops.reference.relu_dropout`, with ``drop`` above 0."""
    zero = torch.zeros(z.shape[1]) if bias is None else bias
    return _ReLUDropout.apply(z, zero, row_id, dropout_arguments(drop, draws))


def row_normalise_relu_dropout(
    z: Tensor, row_id: Tensor, drop: float, draws: Draws | None
) -> Tensor:
    """Compiled form of :func:`gsat.ops.reference.row_normalise_relu_dropout`."""
    return _RowNormaliseReLUDropout.apply(z, row_id, dropout_arguments(drop, draws))


# A graph's rows fit into the cache, so several passes over them (mean, variance, result) are cheap.
# Loops over channels touch few arrays each: LLVM gives up on vectorising one that reads and writes
# so many that it would have to test more than eight pairs of them for overlap.
# Backward needs no second hash: y > 0 exactly where the row was kept and positive. A value is cut
# where it is <= 0, not kept where it is > 0: a NaN must get through, as it does in plain torch.


@inlined
def _statistics(first, last, ptr, z, mean, scale):  # type: ignore[no-untyped-def]
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
def normalise_forward(  # type: ignore[no-untyped-def]
    first, last, ptr, z, row_id, key, threshold, keep_scale, mean, scale, y
):
    """y = dropout(ReLU((z - mean[g]) * scale[g])); also writes the statistics mean and scale."""
    _statistics(first, last, ptr, z, mean, scale)
    normalise_again(first, last, ptr, z, row_id, key, threshold, keep_scale, mean, scale, y)


@inlined
def normalise_again(  # type: ignore[no-untyped-def]
    first, last, ptr, z, row_id, key, threshold, keep_scale, mean, scale, y
):
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
def _gradient_sums(lo, hi, y, grad, keep_scale, total, dot):  # type: ignore[no-untyped-def]
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
def normalise_backward(first, last, ptr, z, y, mean, scale, keep_scale, grad, grad_z):  # type: ignore[no-untyped-def]
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
def gather_forward(  # type: ignore[no-untyped-def]
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
def gather_again(  # type: ignore[no-untyped-def]
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
def gather_backward(  # type: ignore[no-untyped-def]
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
def row_normalise_forward(first, last, ptr, z, row_id, key, threshold, keep_scale, scale, y):  # type: ignore[no-untyped-def]
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
def row_normalise_backward(first, last, ptr, z, y, scale, keep_scale, grad, grad_z):  # type: ignore[no-untyped-def]
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
def relu_forward(first, last, ptr, z, bias, row_id, key, threshold, keep_scale, y):  # type: ignore[no-untyped-def]
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
def relu_backward(first, last, ptr, y, keep_scale, grad, grad_z, sums):  # type: ignore[no-untyped-def]
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


class _NormaliseReLUDropout(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, z: Tensor, ptr: Tensor, row_id: Tensor, dropout: tuple[Any, ...]
    ) -> Tensor:
        y = empty_tensor(*z.shape)
        mean, scale = empty_tensor(len(ptr) - 1, z.shape[1]), empty_tensor(len(ptr) - 1, z.shape[1])
        run_over_segments(
            normalise_forward, ptr.numpy(), as_array(z), row_id.numpy(), *dropout,
            mean.numpy(), scale.numpy(), y.numpy(),
        )  # fmt: skip
        ctx.save_for_backward(z, y, mean, scale, ptr)
        ctx.keep_scale = dropout[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, y, mean, scale, ptr = ctx.saved_tensors
        grad_z = empty_tensor(*z.shape)
        run_over_segments(
            normalise_backward, ptr.numpy(), as_array(z), as_array(y), mean.numpy(), scale.numpy(),
            ctx.keep_scale, as_array(grad), grad_z.numpy(),
        )  # fmt: skip
        return grad_z, None, None, None


class _GatherNormaliseReLUDropout(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, batch: GraphBatch, dropout: tuple[Any, ...]
    ) -> Tensor:
        y = empty_tensor(batch.num_edges, a.shape[1])
        mean, scale = (empty_tensor(batch.num_graphs, a.shape[1]) for _ in range(2))
        run_over_segments(
            gather_forward, batch.edge_ptr.numpy(), batch.src.numpy(), batch.dst.numpy(),
            as_array(a), as_array(b), batch.edge_id.numpy(), *dropout,
            mean.numpy(), scale.numpy(), y.numpy(),
        )  # fmt: skip
        ctx.save_for_backward(a, b, y, mean, scale)
        ctx.batch, ctx.keep_scale = batch, dropout[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, y, mean, scale = ctx.saved_tensors
        batch = ctx.batch
        grad_a, grad_b = empty_tensor(*a.shape), empty_tensor(*b.shape)
        run_over_segments(
            gather_backward, batch.edge_ptr.numpy(), batch.src.numpy(), batch.dst.numpy(),
            batch.node_ptr.numpy(), as_array(a), as_array(b), as_array(y), mean.numpy(),
            scale.numpy(), ctx.keep_scale, as_array(grad), grad_a.numpy(), grad_b.numpy(),
        )  # fmt: skip
        return grad_a, grad_b, None, None


class _RowNormaliseReLUDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, row_id: Tensor, dropout: tuple[Any, ...]) -> Tensor:
        y, scale = empty_tensor(*z.shape), empty_tensor(len(z))
        run_over_segments(
            row_normalise_forward, chunk_ptr(len(z)), as_array(z), row_id.numpy(), *dropout,
            scale.numpy(), y.numpy(),
        )  # fmt: skip
        ctx.save_for_backward(z, y, scale)
        ctx.keep_scale = dropout[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, y, scale = ctx.saved_tensors
        grad_z = empty_tensor(*z.shape)
        run_over_segments(
            row_normalise_backward, chunk_ptr(len(z)), as_array(z), as_array(y), scale.numpy(),
            ctx.keep_scale, as_array(grad), grad_z.numpy(),
        )  # fmt: skip
        return grad_z, None, None


class _ReLUDropout(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, z: Tensor, bias: Tensor, row_id: Tensor, dropout: tuple[Any, ...]
    ) -> Tensor:
        y = empty_tensor(*z.shape)
        arrays = (as_array(z), as_array(bias), row_id.numpy())
        run_over_segments(relu_forward, chunk_ptr(len(z)), *arrays, *dropout, y.numpy())
        ctx.save_for_backward(y)
        ctx.keep_scale = dropout[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (y,) = ctx.saved_tensors
        ptr, grad_z = chunk_ptr(len(y)), empty_tensor(*y.shape)
        sums = empty_tensor(len(ptr) - 1, y.shape[1])
        arrays = (as_array(y), ctx.keep_scale, as_array(grad), grad_z.numpy(), sums.numpy())
        run_over_segments(relu_backward, ptr, *arrays)
        return grad_z, sums.sum(0) if ctx.needs_input_grad[1] else None, None, None
