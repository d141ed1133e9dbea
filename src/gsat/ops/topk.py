"""The highest scores of each segment."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gsat.ops.engine import array, compiled, kernel, split


def top_of_segments(scores: Tensor, ptr: Tensor, count: Tensor) -> Tensor:
    """Which entries are among the highest of their segment; of equal ones the first are taken.

    Args:
        scores: [E]. ptr: [B + 1], segments of entries. count: [B] long, how many of each segment,
            at most its length.

    Returns:
        [E] bool.
    """
    scores = scores.detach()
    if not compiled(scores):
        return top_plain(scores, ptr, count)
    top = torch.zeros(len(scores), dtype=torch.bool)
    split(_top, ptr.numpy(), array(scores), array(count), top.numpy())
    return top


def top_plain(scores: Tensor, ptr: Tensor, count: Tensor) -> Tensor:
    """The meaning of :func:`top_of_segments`, in plain torch."""
    lengths = ptr.diff()
    segment = torch.repeat_interleave(torch.arange(len(lengths), device=scores.device), lengths)
    order = torch.argsort(scores, descending=True, stable=True)
    order = order[torch.argsort(segment[order], stable=True)]
    rank = torch.arange(len(scores), device=scores.device) - ptr[segment]
    top = torch.empty(len(scores), dtype=torch.bool, device=scores.device)
    top[order] = rank < count[segment]
    return top


@kernel
def _top(first, last, ptr, scores, count, top):  # type: ignore[no-untyped-def]
    for g in range(first, last):
        lo, hi = ptr[g], ptr[g + 1]
        if count[g] <= 0:
            continue
        least = np.partition(scores[lo:hi], hi - lo - count[g])[hi - lo - count[g]]
        left = count[g]  # for those that are no higher than the least
        for i in range(lo, hi):
            if scores[i] > least:
                top[i] = True
                left -= 1
        for i in range(lo, hi):
            if left > 0 and scores[i] == least:
                top[i] = True
                left -= 1
