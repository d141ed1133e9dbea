"""Sum or mean of the rows of each segment."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.ops.engine import array, compiled, kernel, split


def pool(x: Tensor, ptr: Tensor, how: Literal["sum", "mean"] = "sum") -> Tensor:
    """Pool rows of each segment.

    Args:
        x: [M, h]. ptr: [B + 1], segments of rows.

    Returns:
        [B, h]; zero where a segment is empty.
    """
    total = _Sum.apply(x, ptr) if compiled(x) else sum_plain(x, ptr)
    if how == "sum":
        return total
    return total / ptr.diff().clamp(min=1).to(x.dtype)[:, None]


def sum_plain(x: Tensor, ptr: Tensor) -> Tensor:
    """The meaning of a sum pool, in plain torch."""
    counts = ptr.diff()
    segment = torch.repeat_interleave(torch.arange(len(counts), device=x.device), counts)
    return x.new_zeros(len(counts), x.shape[1]).index_add(0, segment, x)


@kernel
def segment_sums(first, last, ptr, x, out):  # type: ignore[no-untyped-def]
    h = x.shape[1]
    for g in range(first, last):
        for j in range(h):
            out[g, j] = 0.0
        for i in range(ptr[g], ptr[g + 1]):
            for j in range(h):
                out[g, j] += x[i, j]


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor) -> Tensor:
        ctx.save_for_backward(ptr)
        out = torch.empty(len(ptr) - 1, x.shape[1])
        split(segment_sums, ptr.numpy(), array(x), out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (ptr,) = ctx.saved_tensors
        return torch.from_numpy(np.repeat(array(grad), np.diff(ptr.numpy()), axis=0)), None
