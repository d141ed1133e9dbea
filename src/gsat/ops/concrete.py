"""The concrete sample, and the information loss with its gradient, each in one pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.ops.engine import array, chunks, compiled, kernel, split
from gsat.ops.random import Draws, row_words_numba

# Inside both logarithms, and added to 1 − r but not to r, as in the published code: value and
# gradient stay finite at α = 0 and 1.
EPS = 1e-6


def concrete(logits: Tensor, rows: Tensor, draws: Draws, temperature: float = 1.0) -> Tensor:
    """sigmoid((logit + log u − log(1 − u)) / temperature), u uniform; [M] to [M].

    Args:
        logits: [M]. rows: [M], row names for the draws.
    """
    if compiled(logits):
        return _Concrete.apply(logits, rows, draws.key, temperature)
    return concrete_plain(logits, rows, draws, temperature)


def concrete_plain(logits: Tensor, rows: Tensor, draws: Draws, temperature: float = 1.0) -> Tensor:
    """The meaning of :func:`concrete`, in plain torch."""
    u = draws.uniform(rows).to(logits.dtype)
    return torch.sigmoid((logits + torch.log(u) - torch.log1p(-u)) / temperature)


def bernoulli_kl(alpha: Tensor, r: float) -> Tensor:
    """Mean over all entries of KL(Bernoulli(α) ‖ Bernoulli(r)); a scalar, 0 for no entries.

    Args:
        alpha: [M], in [0, 1].
    """
    if alpha.numel() == 0:
        return alpha.sum()
    if compiled(alpha):
        return _KL.apply(alpha, r)
    return bernoulli_kl_plain(alpha, r)


def bernoulli_kl_plain(alpha: Tensor, r: float) -> Tensor:
    """The meaning of :func:`bernoulli_kl`, in plain torch."""
    keep = alpha * torch.log(alpha / r + EPS)
    drop = (1 - alpha) * torch.log((1 - alpha) / (1 - r + EPS) + EPS)
    return (keep + drop).mean()


@kernel
def _concrete_forward(first, last, ptr, logits, rows, key, inverse, alpha):  # type: ignore[no-untyped-def]
    for i in range(ptr[first], ptr[last]):
        low, _ = row_words_numba(key, rows[i])
        u = (np.float32(low >> np.uint32(9)) + np.float32(0.5)) * np.float32(2.0**-23)
        noise = math.log(u) - math.log1p(-u)
        alpha[i] = np.float32(1.0) / (np.float32(1.0) + math.exp(-(logits[i] + noise) * inverse))


@kernel
def _kl_forward(first, last, ptr, alpha, r, sums, slope):  # type: ignore[no-untyped-def]
    # In float64: M is small beside M × h, and 1 − α near α = 1 is worth it.
    rest = 1.0 - r + EPS
    for c in range(first, last):
        total = 0.0
        for i in range(ptr[c], ptr[c + 1]):
            a = np.float64(alpha[i])
            b = 1.0 - a
            keep, drop = a / r + EPS, b / rest + EPS
            log_keep, log_drop = math.log(keep), math.log(drop)
            total += a * log_keep + b * log_drop
            slope[i] = log_keep + a / (r * keep) - log_drop - b / (rest * drop)
        sums[c] = total


class _Concrete(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, rows: Tensor, key: int, temperature: float) -> Tensor:
        alpha = torch.empty(logits.shape)
        arrays = (array(logits), rows.numpy())
        numbers = (np.uint64(key), np.float32(1.0 / temperature))
        split(_concrete_forward, chunks(len(logits)), *arrays, *numbers, alpha.numpy())
        ctx.save_for_backward(alpha)
        ctx.temperature = temperature
        return alpha

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (alpha,) = ctx.saved_tensors
        return grad * alpha * (1 - alpha) / ctx.temperature, None, None, None


class _KL(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, alpha: Tensor, r: float) -> Tensor:
        flat = alpha.detach().contiguous().reshape(-1).numpy()
        ptr, slope = chunks(len(flat)), torch.empty(alpha.shape)
        sums = np.empty(len(ptr) - 1)
        split(_kl_forward, ptr, flat, np.float64(r), sums, slope.numpy().reshape(-1))
        ctx.save_for_backward(slope)
        return torch.tensor(sums.sum() / len(flat), dtype=alpha.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return slope * (grad / slope.numel()), None
