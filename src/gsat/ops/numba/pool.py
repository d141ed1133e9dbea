"""Sum of the rows of each segment."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.ops.numba.buffers import as_array, empty_tensor
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.parallel import run_over_segments


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """Compiled form of :func:`gsat.ops.reference.segment_sum`."""
    return _SegmentSum.apply(x, ptr)


@kernel
def segment_sum_kernel(first, last, ptr, x, out):  # type: ignore[no-untyped-def]
    """out[g] = sum of the rows of segment g."""
    h = x.shape[1]
    for g in range(first, last):
        for j in range(h):
            out[g, j] = 0.0
        for i in range(ptr[g], ptr[g + 1]):
            for j in range(h):
                out[g, j] += x[i, j]


class _SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor) -> Tensor:
        ctx.save_for_backward(ptr)
        out = empty_tensor(len(ptr) - 1, x.shape[1])
        run_over_segments(segment_sum_kernel, ptr.numpy(), as_array(x), out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (ptr,) = ctx.saved_tensors
        return torch.from_numpy(np.repeat(as_array(grad), np.diff(ptr.numpy()), axis=0)), None
