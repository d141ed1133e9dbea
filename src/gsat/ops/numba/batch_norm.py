"""Batch normalisation and ReLU in one pass, with the bias of the linear layer before it.

    y = ReLU(BatchNorm(z + bias))

While training, the bias cancels (the mean is subtracted), so it is never added to the rows: only
the running mean has to include it. ``z`` then comes from a bare matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsat.ops.numba.buffers import as_array, empty_tensor, local_array
from gsat.ops.numba.compile import inlined, kernel
from gsat.ops.numba.parallel import chunk_ptr, run_over_segments
from gsat.ops.numba.segments import segment_sum_kernel


def batch_norm_relu(z, bias, norm):
    y, mean, variance = BatchNormReLU.apply(z, norm.weight, norm.bias, norm.eps)
    update_running_statistics([norm], [mean + bias.detach()], [variance], len(z))
    return y


def update_running_statistics(
    norms: Sequence[nn.BatchNorm1d],
    means: Sequence[Tensor],
    variances: Sequence[Tensor],
    count: int,
) -> None:
    """Update norms' running means and variances as ``nn.BatchNorm1d`` does in a training step."""
    running_means = [norm.running_mean for norm in norms if norm.running_mean is not None]
    running_vars = [norm.running_var for norm in norms if norm.running_var is not None]
    counts = [norm.num_batches_tracked for norm in norms if norm.num_batches_tracked is not None]
    if not running_means:
        return
    torch._foreach_add_(counts, 1)
    momenta = [
        1.0 / float(seen) if norm.momentum is None else norm.momentum
        for norm, seen in zip(norms, counts, strict=True)
    ]
    torch._foreach_lerp_(running_means, list(means), momenta)
    unbiased = torch._foreach_mul(list(variances), count / (count - 1))
    torch._foreach_lerp_(running_vars, list(unbiased), momenta)


# Rows of an array ``norm`` [4, h], which describes the effect of a batch norm on each channel:
# y = ReLU((z - mean) * scale + shift), with scale = weight / std.
SCALE, SHIFT, MEAN, INVERSE_STD = range(4)


@inlined
def add_moments(z, seen, part, part_squares, mean, squares):
    """Add rows to a mean and a sum of squared distances from it, over ``seen`` rows so far."""
    n, h = z.shape
    inverse = np.float32(1.0 / n)
    for j in range(h):
        part[j] = 0.0
        part_squares[j] = 0.0
    for i in range(n):
        for j in range(h):
            part[j] += z[i, j]
    for j in range(h):
        part[j] *= inverse
    for i in range(n):
        for j in range(h):
            centred = z[i, j] - part[j]
            part_squares[j] += centred * centred
    _merge(seen, n, part, part_squares, mean, squares)


@inlined
def _merge(seen, more, part, part_squares, mean, squares):
    """Merge mean and squared distances of two sets of rows, without a difference of squares.

    The sets have ``seen`` and ``more`` rows; the result replaces mean and squares of the first.
    """
    share = np.float32(more / (seen + more))
    across = np.float32(seen * (more / (seen + more)))
    for j in range(len(mean)):
        shift = part[j] - mean[j]
        mean[j] += shift * share
        squares[j] += part_squares[j] + shift * shift * across


@kernel
def norm_of_blocks(ptr, means, squares, weight, bias, eps, mean, variance, norm):
    """Statistics of all rows from those of the blocks, and the rows of ``norm`` from them."""
    h = len(mean)
    total = local_array(h)
    for j in range(h):
        mean[j] = 0.0
        total[j] = 0.0
    for b in range(len(ptr) - 1):
        _merge(ptr[b], ptr[b + 1] - ptr[b], means[b], squares[b], mean, total)
    for j in range(h):
        variance[j] = total[j] / np.float32(ptr[-1])
        inverse = np.float32(1.0) / np.sqrt(variance[j] + eps)
        norm[SCALE, j] = weight[j] * inverse
        norm[SHIFT, j] = bias[j]
        norm[MEAN, j] = mean[j]
        norm[INVERSE_STD, j] = inverse


def norm_of_running_statistics(norm: nn.BatchNorm1d, bias: Any, out: Any) -> None:
    """Write the rows of ``norm`` for evaluation mode."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    out[INVERSE_STD] = 1 / np.sqrt(as_array(norm.running_var) + np.float32(norm.eps))
    out[SCALE] = as_array(norm.weight) * out[INVERSE_STD]
    out[SHIFT] = as_array(norm.bias)
    out[MEAN] = as_array(norm.running_mean) - bias


@kernel
def _centred_squares(first, last, ptr, z, mean, sums):
    """sums[c] = sum over the rows of chunk c of (z - mean)^2."""
    h = z.shape[1]
    for c in range(first, last):
        for j in range(h):
            sums[c, j] = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            for j in range(h):
                centred = z[i, j] - mean[j]
                sums[c, j] += centred * centred


@kernel
def normalise_rows(first, last, ptr, z, mean, scale, bias, y):
    """y = ReLU((z - mean) * scale + bias)."""
    h = z.shape[1]
    for i in range(ptr[first], ptr[last]):
        for j in range(h):
            value = (z[i, j] - mean[j]) * scale[j] + bias[j]
            # Cut where it is <= 0, not kept where it is > 0: a NaN gets through, as in torch.
            y[i, j] = np.float32(0.0) if value <= np.float32(0.0) else value


@kernel
def gradient_sums(first, last, ptr, z, y, mean, inverse_std, grad, total, dot):
    """Sums of each segment c over the gradient g that passes the ReLU.

    total[c] = sum of g; dot[c] = sum of g * (z - mean) / std.
    """
    h = z.shape[1]
    row = local_array(h)
    for c in range(first, last):
        for j in range(h):
            total[c, j] = 0.0
            dot[c, j] = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            # Three short loops: one with all seven arrays would not vectorise.
            for j in range(h):
                row[j] = grad[i, j] if y[i, j] > np.float32(0.0) else np.float32(0.0)
            for j in range(h):
                total[c, j] += row[j]
            for j in range(h):
                dot[c, j] += row[j] * (z[i, j] - mean[j])
        for j in range(h):
            dot[c, j] *= inverse_std[j]


@kernel
def input_gradient(
    first, last, ptr, z, y, mean, inverse_std, scale, mean_grad, mean_dot, grad, grad_z
):
    """Gradient of z; mean_grad and mean_dot are the sums of gradient_sums over all rows, / M."""
    h = z.shape[1]
    for i in range(ptr[first], ptr[last]):
        for j in range(h):
            g = grad[i, j] if y[i, j] > np.float32(0.0) else np.float32(0.0)
            normal = (z[i, j] - mean[j]) * inverse_std[j]
            grad_z[i, j] = scale[j] * (g - mean_grad[j] - normal * mean_dot[j])


class BatchNormReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, weight, bias, eps):
        z, ptr = z.contiguous(), chunk_ptr(len(z))
        sums = empty_tensor(len(ptr) - 1, z.shape[1])
        run_over_segments(segment_sum_kernel, ptr, z, sums)
        mean = sums.sum(0) / len(z)
        run_over_segments(_centred_squares, ptr, z, mean, sums)
        variance = sums.sum(0) / len(z)
        inverse_std = torch.rsqrt(variance + eps)
        scale = weight.detach() * inverse_std
        y = empty_tensor(*z.shape)
        run_over_segments(normalise_rows, ptr, z, mean, scale, bias, y)
        ctx.save_for_backward(z, y, mean, inverse_std, scale)
        ctx.mark_non_differentiable(mean, variance)
        return y, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        *common, scale = ctx.saved_tensors
        rows, ptr, grad_z = len(grad), chunk_ptr(len(grad)), empty_tensor(*grad.shape)
        totals, dots = (empty_tensor(len(ptr) - 1, grad.shape[1]) for _ in range(2))
        run_over_segments(gradient_sums, ptr, *common, grad, totals, dots)
        total, dot = totals.sum(0), dots.sum(0)
        means = total / rows, dot / rows
        run_over_segments(input_gradient, ptr, *common, scale, *means, grad, grad_z)
        return grad_z, dot, total, None
