"""Batch normalisation and ReLU in one pass, with the bias of the linear layer before it.

    y = ReLU(BatchNorm(z + bias))

While training, the bias cancels (the mean takes it away), so it is never added to the rows: only
the running mean has to know of it. ``z`` then comes from a bare matrix product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsat.ops.engine import array, chunks, compiled, kernel, split
from gsat.ops.pool import segment_sums


def batch_norm_relu(z: Tensor, bias: Tensor, norm: nn.BatchNorm1d) -> Tensor:
    """``ReLU(norm(z + bias))``; updates the running statistics in training mode.

    Args:
        z: [N, h]. bias: [h]. norm: with weights and running statistics.
    """
    if not norm.training:
        # With fixed statistics it is one scale and one shift per channel.
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        return torch.relu(torch.addcmul(norm.bias + (bias - norm.running_mean) * scale, z, scale))
    if not compiled(z, bias) or len(z) < 2:
        return torch.relu(norm(z + bias))
    y, mean, variance = _BatchNorm.apply(z, norm.weight, norm.bias, norm.eps)
    update_running(norm, mean + bias.detach(), variance, len(z))
    return y


def update_running(norm: nn.BatchNorm1d, mean: Tensor, variance: Tensor, count: int) -> None:
    if norm.running_mean is None or norm.running_var is None:
        return
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    momentum = norm.momentum
    if momentum is None:
        momentum = 1.0 / float(norm.num_batches_tracked)
    norm.running_mean.lerp_(mean, momentum)
    norm.running_var.lerp_(variance * (count / (count - 1)), momentum)


# Sums over all rows are taken per chunk of fixed size, then over chunks: they do not depend on the
# number of threads.


@kernel
def _chunk_squares(first, last, ptr, z, mean, sums):  # type: ignore[no-untyped-def]
    h = z.shape[1]
    for c in range(first, last):
        for j in range(h):
            sums[c, j] = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            for j in range(h):
                centred = z[i, j] - mean[j]
                sums[c, j] += centred * centred


@kernel
def normalise_rows(first, last, ptr, z, mean, scale, bias, y):  # type: ignore[no-untyped-def]
    h = z.shape[1]
    for i in range(ptr[first], ptr[last]):
        for j in range(h):
            value = (z[i, j] - mean[j]) * scale[j] + bias[j]
            # Cut where it is <= 0, not kept where it is > 0: a NaN gets through, as in torch.
            y[i, j] = np.float32(0.0) if value <= np.float32(0.0) else value


@kernel
def gradient_sums(first, last, ptr, z, y, mean, inverse, grad, total, along):  # type: ignore[no-untyped-def]
    h = z.shape[1]
    row = np.empty(h, np.float32)
    for c in range(first, last):
        for j in range(h):
            total[c, j] = 0.0
            along[c, j] = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            # Three short loops: one with all seven arrays would not vectorise.
            for j in range(h):
                row[j] = grad[i, j] if y[i, j] > np.float32(0.0) else np.float32(0.0)
            for j in range(h):
                total[c, j] += row[j]
            for j in range(h):
                along[c, j] += row[j] * (z[i, j] - mean[j])
        for j in range(h):
            along[c, j] *= inverse[j]


@kernel
def gradient_of_rows(first, last, ptr, z, y, mean, inverse, scale, total, along, grad, grad_z):  # type: ignore[no-untyped-def]
    h = z.shape[1]
    for i in range(ptr[first], ptr[last]):
        for j in range(h):
            g = grad[i, j] if y[i, j] > np.float32(0.0) else np.float32(0.0)
            normal = (z[i, j] - mean[j]) * inverse[j]
            grad_z[i, j] = scale[j] * (g - total[j] - normal * along[j])


class _BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, z: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        z = z.contiguous()
        rows, ptr = z.numpy(force=True), chunks(len(z))
        sums = torch.empty(len(ptr) - 1, z.shape[1])
        split(segment_sums, ptr, rows, sums.numpy())
        mean = sums.sum(0) / len(z)
        split(_chunk_squares, ptr, rows, mean.numpy(), sums.numpy())
        variance = sums.sum(0) / len(z)
        inverse = torch.rsqrt(variance + eps)
        scale = weight.detach() * inverse
        y = torch.empty_like(z)
        numbers = mean.numpy(), scale.numpy(), array(bias)
        split(normalise_rows, ptr, rows, *numbers, y.numpy())
        ctx.save_for_backward(z, y, mean, inverse, scale)
        ctx.mark_non_differentiable(mean, variance)
        return y, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        z, y, mean, inverse, scale = ctx.saved_tensors
        grad = grad.contiguous()
        ptr = chunks(len(z))
        common = (z.numpy(), y.numpy(), mean.numpy(), inverse.numpy())
        totals, alongs = (
            torch.empty(len(ptr) - 1, z.shape[1]),
            torch.empty(len(ptr) - 1, z.shape[1]),
        )
        split(gradient_sums, ptr, *common, grad.numpy(), totals.numpy(), alongs.numpy())
        total, along = totals.sum(0), alongs.sum(0)
        grad_z = torch.empty_like(z)
        split(
            gradient_of_rows, ptr, *common, scale.numpy(), (total / len(z)).numpy(),
            (along / len(z)).numpy(), grad.numpy(), grad_z.numpy(),
        )  # fmt: skip
        return grad_z, along, total, None
