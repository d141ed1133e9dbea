"""Per-graph normalisation, ReLU and dropout in one pass, alone or after a gather-add per edge.

    normalise_relu_dropout(z):        y = dropout(ReLU((z − mean_g) / √(var_g + ε)))
    gather_normalise_relu_dropout:    the same on z_uv = a_u + b_v, which is never stored
    relu_dropout(z):                  y = dropout(ReLU(z))

mean and (biased) variance are taken per graph and channel, in training and evaluation alike: PyG's
``InstanceNorm`` without parameters. A graph with one row becomes zero. ``draws=None`` means no
dropout. The second form is the extractor's first layer: Linear(concat(h_u, h_v)) is two products on
N rows and a sum per edge, instead of one product on E rows twice as wide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.engine import CHUNK, array, chunks, compiled, inlined, kernel, split
from gsat.ops.random import (
    Draws,
    channel_bits_numba,
    column_offsets_numba,
    row_words_numba,
    threshold,
)

EPS = 1e-5


def normalise_relu_dropout(
    z: Tensor, ptr: Tensor, rows: Tensor, drop: float, draws: Draws | None
) -> Tensor:
    """Normalise per segment, ReLU, dropout.

    Args:
        z: [M, d]. ptr: [B + 1], segments of rows. rows: [M] row names for the draws.
    """
    if compiled(z):
        return _Normalise.apply(z, ptr, rows, drop if draws else 0.0, draws.key if draws else 0)
    return normalise_relu_dropout_plain(z, ptr, rows, drop, draws)


def gather_normalise_relu_dropout(
    a: Tensor, b: Tensor, batch: GraphBatch, drop: float, draws: Draws | None
) -> Tensor:
    """``a[src] + b[dst]`` per edge, normalised per graph, ReLU, dropout.

    Args:
        a, b: [N, d].

    Returns:
        [E, d].
    """
    if compiled(a, b):
        return _Gather.apply(a, b, batch, drop if draws else 0.0, draws.key if draws else 0)
    z = a[batch.src] + b[batch.dst]
    return normalise_relu_dropout_plain(z, batch.edge_ptr, batch.edge_id, drop, draws)


def relu_dropout(
    z: Tensor, rows: Tensor, drop: float, draws: Draws | None, bias: Tensor | None = None
) -> Tensor:
    """ReLU and dropout of z [M, d], plus ``bias`` [d] if given; ``rows`` [M] names the rows."""
    if draws is None or drop == 0.0:
        return torch.relu(z if bias is None else z + bias)
    if compiled(z, bias):
        zero = torch.zeros(z.shape[1]) if bias is None else bias
        return _Relu.apply(z, zero, rows, drop, draws.key)
    return relu_dropout_plain(z if bias is None else z + bias, rows, drop, draws)


def relu_dropout_plain(z: Tensor, rows: Tensor, drop: float, draws: Draws | None) -> Tensor:
    """The meaning of :func:`relu_dropout`, in plain torch."""
    y = torch.relu(z)
    if draws is None or drop == 0.0:
        return y
    return y * draws.keep(rows, z.shape[1], drop).to(z.dtype) * (1.0 / (1.0 - drop))


def normalise_relu_dropout_plain(
    z: Tensor, ptr: Tensor, rows: Tensor, drop: float, draws: Draws | None
) -> Tensor:
    """The meaning of :func:`normalise_relu_dropout`, in plain torch."""
    counts = ptr.diff()
    segment = torch.repeat_interleave(torch.arange(len(counts), device=z.device), counts)
    count = counts.clamp(min=1).to(z.dtype)[:, None]
    zeros = z.new_zeros(len(counts), z.shape[1])
    centred = z - (zeros.index_add(0, segment, z) / count)[segment]
    variance = zeros.index_add(0, segment, centred * centred) / count
    return relu_dropout_plain(centred / (variance + EPS).sqrt()[segment], rows, drop, draws)


# -- compiled forms ---------------------------------------------------------------------------
# A graph's rows fit into the cache, so the passes over them (mean, variance, result) are cheap.
# Loops over channels touch few arrays each: LLVM gives up on vectorising one that reads and writes
# so many that it would have to test more than eight pairs of them for overlap.
# Backward needs no second hash: y > 0 exactly where the row was kept and positive. A value is cut
# where it is <= 0, not kept where it is > 0: a NaN must get through, as it does in plain torch.


@inlined
def _statistics(first, last, ptr, z, mean, scale):  # type: ignore[no-untyped-def]
    d = z.shape[1]
    part = np.empty(d, np.float32)
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
            scale[g, j] = np.float32(1.0) / np.sqrt(scale[g, j] * inverse + np.float32(EPS))


@kernel
def normalise_forward(first, last, ptr, z, rows, key, below, grow, mean, scale, y):  # type: ignore[no-untyped-def]
    _statistics(first, last, ptr, z, mean, scale)
    normalise_again(first, last, ptr, z, rows, key, below, grow, mean, scale, y)


@inlined
def normalise_again(first, last, ptr, z, rows, key, below, grow, mean, scale, y):  # type: ignore[no-untyped-def]
    """The result, from statistics that are known."""
    d = z.shape[1]
    offsets = column_offsets_numba(d)
    for g in range(first, last):
        for i in range(ptr[g], ptr[g + 1]):
            low, high = row_words_numba(key, rows[i])
            for j in range(d):
                value = (z[i, j] - mean[g, j]) * scale[g, j] * grow
                dropped = channel_bits_numba(low, high, offsets[j]) < below
                y[i, j] = np.float32(0.0) if (value <= np.float32(0.0)) | dropped else value


@inlined
def _gradient_sums(lo, hi, y, grad, grow, total, along):  # type: ignore[no-untyped-def]
    """Means over rows lo … hi − 1 of the gradient that passes, alone and times the normal value.

    Where it passes, y itself is the normalised value times ``grow``.
    """
    d = y.shape[1]
    part, part_along = np.empty(d, np.float32), np.empty(d, np.float32)
    inverse = np.float32(1.0 / (hi - lo))
    for j in range(d):
        total[j] = 0.0
        along[j] = 0.0
    for start in range(lo, hi, CHUNK):
        for j in range(d):
            part[j] = 0.0
            part_along[j] = 0.0
        for i in range(start, min(start + CHUNK, hi)):
            for j in range(d):
                gy = grad[i, j] if y[i, j] > np.float32(0.0) else np.float32(0.0)
                part[j] += gy
                part_along[j] += gy * y[i, j]
        for j in range(d):
            total[j] += part[j]
            along[j] += part_along[j]
    for j in range(d):
        total[j] *= inverse * grow
        along[j] *= inverse


@kernel
def normalise_backward(first, last, ptr, z, y, mean, scale, grow, grad, grad_z):  # type: ignore[no-untyped-def]
    d = z.shape[1]
    total, along = np.empty(d, np.float32), np.empty(d, np.float32)
    for g in range(first, last):
        if ptr[g + 1] == ptr[g]:
            continue
        _gradient_sums(ptr[g], ptr[g + 1], y, grad, grow, total, along)
        for i in range(ptr[g], ptr[g + 1]):
            for j in range(d):
                gy = grad[i, j] * grow if y[i, j] > np.float32(0.0) else np.float32(0.0)
                normal = (z[i, j] - mean[g, j]) * scale[g, j]
                grad_z[i, j] = scale[g, j] * (gy - total[j] - normal * along[j])


@kernel
def gather_forward(  # type: ignore[no-untyped-def]
    first, last, ptr, src, dst, a, b, rows, key, below, grow, mean, scale, y
):
    d = a.shape[1]
    for i in range(ptr[first], ptr[last]):
        u, v = src[i], dst[i]
        for j in range(d):
            y[i, j] = a[u, j] + b[v, j]
    _statistics(first, last, ptr, y, mean, scale)
    gather_again(first, last, ptr, src, dst, a, b, rows, key, below, grow, mean, scale, y)


@inlined
def gather_again(first, last, ptr, src, dst, a, b, rows, key, below, grow, mean, scale, y):  # type: ignore[no-untyped-def]
    """The result, from statistics that are known."""
    d = a.shape[1]
    offsets = column_offsets_numba(d)
    for g in range(first, last):
        for i in range(ptr[g], ptr[g + 1]):
            u, v = src[i], dst[i]
            low, high = row_words_numba(key, rows[i])
            for j in range(d):
                # The sum again, not y: a loop that reads what it writes does not vectorise.
                value = (a[u, j] + b[v, j] - mean[g, j]) * scale[g, j] * grow
                dropped = channel_bits_numba(low, high, offsets[j]) < below
                y[i, j] = np.float32(0.0) if (value <= np.float32(0.0)) | dropped else value


@kernel
def gather_backward(  # type: ignore[no-untyped-def]
    first, last, ptr, src, dst, node_ptr, a, b, y, mean, scale, grow, grad, grad_a, grad_b
):
    d = a.shape[1]
    total, along, row = np.empty(d, np.float32), np.empty(d, np.float32), np.empty(d, np.float32)
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(d):
            grad_a[v, j] = 0.0
            grad_b[v, j] = 0.0
    for g in range(first, last):
        if ptr[g + 1] == ptr[g]:
            continue
        _gradient_sums(ptr[g], ptr[g + 1], y, grad, grow, total, along)
        for i in range(ptr[g], ptr[g + 1]):
            u, v = src[i], dst[i]
            for j in range(d):
                gy = grad[i, j] * grow if y[i, j] > np.float32(0.0) else np.float32(0.0)
                normal = (a[u, j] + b[v, j] - mean[g, j]) * scale[g, j]
                row[j] = scale[g, j] * (gy - total[j] - normal * along[j])
            for j in range(d):
                grad_a[u, j] += row[j]
            for j in range(d):
                grad_b[v, j] += row[j]


@kernel
def relu_forward(first, last, ptr, z, bias, rows, key, below, grow, y):  # type: ignore[no-untyped-def]
    d = z.shape[1]
    offsets = column_offsets_numba(d)
    for i in range(ptr[first], ptr[last]):
        low, high = row_words_numba(key, rows[i])
        for j in range(d):
            value = (z[i, j] + bias[j]) * grow
            dropped = channel_bits_numba(low, high, offsets[j]) < below
            y[i, j] = np.float32(0.0) if (value <= np.float32(0.0)) | dropped else value


@kernel
def relu_backward(first, last, ptr, y, grow, grad, grad_z, sums):  # type: ignore[no-untyped-def]
    d = y.shape[1]
    for c in range(first, last):
        for j in range(d):
            sums[c, j] = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            for j in range(d):
                g = grad[i, j] * grow if y[i, j] > np.float32(0.0) else np.float32(0.0)
                grad_z[i, j] = g
                sums[c, j] += g


def dropout_numbers(drop: float, key: int) -> tuple[Any, ...]:
    return np.uint64(key), np.uint32(threshold(drop)), np.float32(1.0 / (1.0 - drop))


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, ptr: Tensor, rows: Tensor, drop: float, key: int) -> Tensor:
        y = torch.empty(z.shape)
        mean, scale = torch.empty(len(ptr) - 1, z.shape[1]), torch.empty(len(ptr) - 1, z.shape[1])
        numbers = dropout_numbers(drop, key)
        split(
            normalise_forward, ptr.numpy(), array(z), rows.numpy(), *numbers,
            mean.numpy(), scale.numpy(), y.numpy(),
        )  # fmt: skip
        ctx.save_for_backward(z, y, mean, scale, ptr)
        ctx.grow = numbers[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        z, y, mean, scale, ptr = ctx.saved_tensors
        grad_z = torch.empty(z.shape)
        split(
            normalise_backward, ptr.numpy(), array(z), array(y), mean.numpy(), scale.numpy(),
            ctx.grow, array(grad), grad_z.numpy(),
        )  # fmt: skip
        return grad_z, None, None, None, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, batch: GraphBatch, drop: float, key: int) -> Tensor:
        y = torch.empty(batch.num_edges, a.shape[1])
        mean, scale = (torch.empty(batch.num_graphs, a.shape[1]) for _ in range(2))
        numbers = dropout_numbers(drop, key)
        split(
            gather_forward, batch.edge_ptr.numpy(), batch.src.numpy(), batch.dst.numpy(),
            array(a), array(b), batch.edge_id.numpy(), *numbers,
            mean.numpy(), scale.numpy(), y.numpy(),
        )  # fmt: skip
        ctx.save_for_backward(a, b, y, mean, scale)
        ctx.batch, ctx.grow = batch, numbers[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, y, mean, scale = ctx.saved_tensors
        batch = ctx.batch
        grad_a, grad_b = torch.empty(a.shape), torch.empty(b.shape)
        split(
            gather_backward, batch.edge_ptr.numpy(), batch.src.numpy(), batch.dst.numpy(),
            batch.node_ptr.numpy(), array(a), array(b), array(y), mean.numpy(), scale.numpy(),
            ctx.grow, array(grad), grad_a.numpy(), grad_b.numpy(),
        )  # fmt: skip
        return grad_a, grad_b, None, None, None


class _Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, bias: Tensor, rows: Tensor, drop: float, key: int) -> Tensor:
        y = torch.empty(z.shape)
        numbers = dropout_numbers(drop, key)
        arrays = (array(z), array(bias), rows.numpy())
        split(relu_forward, chunks(len(z)), *arrays, *numbers, y.numpy())
        ctx.save_for_backward(y)
        ctx.grow = numbers[-1]
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (y,) = ctx.saved_tensors
        ptr, grad_z = chunks(len(y)), torch.empty(y.shape)
        sums = torch.empty(len(ptr) - 1, y.shape[1])
        arrays = (array(y), ctx.grow, array(grad), grad_z.numpy(), sums.numpy())
        split(relu_backward, ptr, *arrays)
        return grad_z, sums.sum(0) if ctx.needs_input_grad[1] else None, None, None, None
