"""A residual connection and dropout in one pass: y = dropout(x + z)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.ops.engine import array, chunks, compiled, kernel, split
from gsat.ops.random import (
    Draws,
    channel_bits_numba,
    column_offsets_numba,
    row_words_numba,
    threshold,
)


def add_dropout(x: Tensor, z: Tensor, rows: Tensor, drop: float, draws: Draws | None) -> Tensor:
    """Dropout of x + z, both [M, d]; ``rows`` [M] names the rows, ``draws=None`` drops nothing."""
    if draws is None or drop == 0.0:
        return x + z
    if compiled(x, z):
        return _Add.apply(x, z, rows, drop, draws.key)
    return (x + z) * draws.keep(rows, x.shape[1], drop).to(x.dtype) * (1.0 / (1.0 - drop))


# -- compiled form ------------------------------------------------------------------------------
# Backward hashes again: a sum may well be 0 where it was kept, so y does not tell.


@kernel
def _forward(first, last, ptr, x, z, rows, key, below, grow, y):  # type: ignore[no-untyped-def]
    d = x.shape[1]
    offsets = column_offsets_numba(d)
    for i in range(ptr[first], ptr[last]):
        low, high = row_words_numba(key, rows[i])
        for j in range(d):
            dropped = channel_bits_numba(low, high, offsets[j]) < below
            y[i, j] = np.float32(0.0) if dropped else (x[i, j] + z[i, j]) * grow


@kernel
def _backward(first, last, ptr, grad, rows, key, below, grow, grad_x):  # type: ignore[no-untyped-def]
    d = grad.shape[1]
    offsets = column_offsets_numba(d)
    for i in range(ptr[first], ptr[last]):
        low, high = row_words_numba(key, rows[i])
        for j in range(d):
            dropped = channel_bits_numba(low, high, offsets[j]) < below
            grad_x[i, j] = np.float32(0.0) if dropped else grad[i, j] * grow


class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, z: Tensor, rows: Tensor, drop: float, key: int) -> Tensor:
        y = torch.empty(x.shape)
        ctx.numbers = (
            np.uint64(key), np.uint32(threshold(drop)), np.float32(1.0 / (1.0 - drop))
        )  # fmt: skip
        ctx.save_for_backward(rows)
        arrays = (array(x), array(z), rows.numpy())
        split(_forward, chunks(len(x)), *arrays, *ctx.numbers, y.numpy())
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        grad_x = torch.empty(grad.shape)
        arrays = (array(grad), rows.numpy())
        split(_backward, chunks(len(grad)), *arrays, *ctx.numbers, grad_x.numpy())
        return grad_x, grad_x, None, None, None
