"""Initial weights that depend on a seed and nothing else."""

from __future__ import annotations

import pytest
import torch

from gsat.attention import Extractor
from gsat.core.errors import GSATError
from gsat.models import GIN, seeded
from gsat.tasks import Task


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


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_a_dropout_that_can_not_be_is_refused(share: float) -> None:
    with pytest.raises(GSATError, match="dropout"):
        GIN(3, Task("binary"), dropout=share)
    with pytest.raises(GSATError, match="dropout"):
        Extractor(4, dropout=share)
