"""The highest scores of each segment."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gsat.ops import segment_topk_mask

# Empty, of one, of equal scores only, and long ones.
LENGTHS = [3, 0, 1, 6, 0, 40, 7, 200, 0]


def by_sorting(scores: Tensor, ptr: list[int], count: list[int]) -> list[bool]:
    """Python's sort is stable."""
    top = [False] * len(scores)
    for first, last, k in zip(ptr[:-1], ptr[1:], count, strict=True):
        for i in sorted(range(first, last), key=lambda i: -float(scores[i].detach()))[:k]:
            top[i] = True
    return top


@pytest.mark.parametrize("ops", ["torch", "numba"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("values", [2, 5, 10**6])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_it_is_a_stable_sort_of_each_segment(
    ops: str, dtype: torch.dtype, values: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", ops)
    lengths = torch.tensor(LENGTHS)
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    draw = torch.Generator().manual_seed(values)
    scores = torch.randint(values, (int(ptr[-1]),), generator=draw).to(dtype) - values / 2
    scores[ptr[3] : ptr[4]] = 0.0
    count = (share * lengths).long()
    found = segment_topk_mask(scores.requires_grad_(), ptr, count)
    assert found.dtype == torch.bool
    assert found.tolist() == by_sorting(scores, ptr.tolist(), count.tolist())


@pytest.mark.parametrize("ops", ["torch", "numba"])
def test_nothing_at_all(ops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSAT_OPS", ops)
    none = torch.zeros(0, dtype=torch.long)
    assert segment_topk_mask(torch.zeros(0), torch.zeros(1, dtype=torch.long), none).shape == (0,)
