"""Sums and highest scores of segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.ops.numba.buffers import as_array, empty_tensor
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.parallel import run_over_segments


@kernel
def segment_sum_kernel(first, last, ptr, x, out):
    """out[g] = sum of the rows of segment g."""
    h = x.shape[1]
    for g in range(first, last):
        for j in range(h):
            out[g, j] = 0.0
        for i in range(ptr[g], ptr[g + 1]):
            for j in range(h):
                out[g, j] += x[i, j]


class SegmentSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, ptr):
        ctx.save_for_backward(ptr)
        out = empty_tensor(len(ptr) - 1, x.shape[1])
        run_over_segments(segment_sum_kernel, ptr, x, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (ptr,) = ctx.saved_tensors
        return torch.from_numpy(np.repeat(as_array(grad), np.diff(ptr.numpy()), axis=0)), None


def segment_topk_mask(scores, ptr, k):
    top = torch.zeros(len(scores), dtype=torch.bool)
    run_over_segments(_topk, ptr, scores, k, top)
    return top


@kernel
def _topk(first, last, ptr, scores, k, top):
    """top[i] = whether row i is among the k[g] highest of its segment g."""
    for g in range(first, last):
        lo, hi = ptr[g], ptr[g + 1]
        if k[g] <= 0:
            continue
        least = np.partition(scores[lo:hi], hi - lo - k[g])[hi - lo - k[g]]
        left = k[g]  # places left for entries equal to the least
        for i in range(lo, hi):
            if scores[i] > least:
                top[i] = True
                left -= 1
        for i in range(lo, hi):
            if left > 0 and scores[i] == least:
                top[i] = True
                left -= 1
