"""Initial weights that depend on a seed and nothing else."""

from __future__ import annotations

import torch

from gsat.models import seeded


def drawn(seed: int, *purpose: str) -> list[float]:
    with seeded(seed, *purpose):
        return torch.rand(4).tolist()


def test_seed_and_purpose_decide() -> None:
    torch.manual_seed(1)
    first = drawn(0, "gin")
    torch.manual_seed(2)
    assert drawn(0, "gin") == first
    assert drawn(1, "gin") != first
    assert drawn(0, "extractor") != first


def test_torchs_generator_is_as_before() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    drawn(0)
    assert torch.equal(torch.rand(4), expected)
