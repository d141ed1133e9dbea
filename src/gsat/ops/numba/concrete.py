"""The concrete sample, and the KL loss with its gradient, each in one pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.ops.numba.buffers import empty_tensor
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.parallel import chunk_ptr, run_over_segments
from gsat.ops.numba.random import row_words_numba
from gsat.ops.reference import KL_EPS


@kernel
def _concrete_forward(first, last, ptr, logits, row_id, key, inverse_temperature, alpha):
    """alpha = sigmoid((logit + log u - log(1 - u)) / temperature)."""
    for i in range(ptr[first], ptr[last]):
        low, _ = row_words_numba(key, row_id[i])
        u = (np.float32(low >> np.uint32(9)) + np.float32(0.5)) * np.float32(2.0**-23)
        noise = math.log(u) - math.log1p(-u)
        logit = (logits[i] + noise) * inverse_temperature
        alpha[i] = np.float32(1.0) / (np.float32(1.0) + math.exp(-logit))


@kernel
def _kl_forward(first, last, ptr, alpha, r, sums, slope):
    """Sum of the KL terms of each chunk, and the derivative of each term."""
    # In float64: M is small beside M × h, and 1 − α near α = 1 is worth it.
    rest = 1.0 - r + KL_EPS
    for c in range(first, last):
        total = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            a = np.float64(alpha[i])
            b = 1.0 - a
            keep, drop = a / r + KL_EPS, b / rest + KL_EPS
            log_keep, log_drop = math.log(keep), math.log(drop)
            total += a * log_keep + b * log_drop
            slope[i] = log_keep + a / (r * keep) - log_drop - b / (rest * drop)
        sums[c] = total


class Concrete(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, row_id, draws, temperature):
        alpha = empty_tensor(*logits.shape)
        numbers = np.uint64(draws.key), np.float32(1.0 / temperature)
        ptr = chunk_ptr(len(logits))
        run_over_segments(_concrete_forward, ptr, logits, row_id, *numbers, alpha)
        ctx.save_for_backward(alpha)
        ctx.temperature = temperature
        return alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (alpha,) = ctx.saved_tensors
        return grad * alpha * (1 - alpha) / ctx.temperature, None, None, None


class BernoulliKL(torch.autograd.Function):
    @staticmethod
    def forward(ctx, alpha, r):
        ptr, slope = chunk_ptr(alpha.numel()), empty_tensor(*alpha.shape)
        sums = np.empty(len(ptr) - 1)
        flat = alpha.reshape(-1), np.float64(r), sums, slope.reshape(-1)
        run_over_segments(_kl_forward, ptr, *flat)
        ctx.save_for_backward(slope)
        return torch.tensor(sums.sum() / alpha.numel(), dtype=alpha.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return slope * (grad / slope.numel()), None
