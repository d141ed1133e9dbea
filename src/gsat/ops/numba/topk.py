"""The highest scores of each segment."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gsat.ops.numba.buffers import as_array
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.parallel import run_over_segments


def segment_topk_mask(scores: Tensor, ptr: Tensor, k: Tensor) -> Tensor:
    """Compiled form of :func:`gsat.ops.reference.segment_topk_mask`."""
    top = torch.zeros(len(scores), dtype=torch.bool)
    run_over_segments(_topk, ptr.numpy(), as_array(scores), as_array(k), top.numpy())
    return top


@kernel
def _topk(first, last, ptr, scores, k, top):  # type: ignore[no-untyped-def]
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
