"""A residual connection and dropout in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.ops.numba.buffers import as_array, empty_tensor
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.parallel import chunk_ptr, run_over_segments
from gsat.ops.numba.random import (
    channel_bits_numba,
    column_offsets_numba,
    dropout_arguments,
    row_words_numba,
)
from gsat.ops.random import Draws


def add_dropout(x: Tensor, z: Tensor, row_id: Tensor, drop: float, draws: Draws) -> Tensor:
    """Compiled form of :func:`gsat.ops.reference.add_dropout`, with ``drop`` above 0."""
    return _AddDropout.apply(x, z, row_id, dropout_arguments(drop, draws))


# Backward hashes again: a sum may be 0 where it was kept, so y does not show what was dropped.


@kernel
def _forward(first, last, ptr, x, z, row_id, key, threshold, keep_scale, y):  # type: ignore[no-untyped-def]
    """y = dropout(x + z)."""
    d = x.shape[1]
    offsets = column_offsets_numba(d)
    for i in range(ptr[first], ptr[last]):
        low, high = row_words_numba(key, row_id[i])
        for j in range(d):
            dropped = channel_bits_numba(low, high, offsets[j]) < threshold
            y[i, j] = np.float32(0.0) if dropped else (x[i, j] + z[i, j]) * keep_scale


@kernel
def _backward(first, last, ptr, grad, row_id, key, threshold, keep_scale, grad_x):  # type: ignore[no-untyped-def]
    """Gradient of x, which is also that of z."""
    d = grad.shape[1]
    offsets = column_offsets_numba(d)
    for i in range(ptr[first], ptr[last]):
        low, high = row_words_numba(key, row_id[i])
        for j in range(d):
            dropped = channel_bits_numba(low, high, offsets[j]) < threshold
            grad_x[i, j] = np.float32(0.0) if dropped else grad[i, j] * keep_scale


class _AddDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, z: Tensor, row_id: Tensor, dropout: tuple[Any, ...]) -> Tensor:
        y = empty_tensor(*x.shape)
        ctx.dropout = dropout
        ctx.save_for_backward(row_id)
        arrays = (as_array(x), as_array(z), row_id.numpy())
        run_over_segments(_forward, chunk_ptr(len(x)), *arrays, *dropout, y.numpy())
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (row_id,) = ctx.saved_tensors
        grad_x = empty_tensor(*grad.shape)
        arrays = (as_array(grad), row_id.numpy())
        run_over_segments(_backward, chunk_ptr(len(grad)), *arrays, *ctx.dropout, grad_x.numpy())
        return grad_x, grad_x, None, None
