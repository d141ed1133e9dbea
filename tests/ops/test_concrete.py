"""Concrete samples and the information loss: the compiled form against the plain one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gsat.ops import Draws, bernoulli_kl, concrete

DRAWS = Draws(2, "concrete")
ROWS = torch.arange(700) + (5 << 32)


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 700])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_samples_are_as_exact_as_the_plain_ones(
    count: int, temperature: float, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    rows = ROWS[:count]
    agree(lambda logits: concrete(logits, rows, DRAWS, temperature), 3 * normal(1, count))


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 700])
@pytest.mark.parametrize("r", [0.1, 0.5, 0.7, 0.9])
def test_information_is_as_exact_as_the_plain_one(
    count: int, r: float, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    agree(lambda alpha: bernoulli_kl(alpha, r), (3 * normal(1, count)).sigmoid())


def test_gradients_of_the_plain_forms(normal: Callable[..., Tensor]) -> None:
    given = normal(1, 9).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: concrete(x, ROWS[:9], DRAWS, 0.7), given)
    assert torch.autograd.gradcheck(lambda x: bernoulli_kl(x.sigmoid(), 0.7), given)


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_the_ends_are_finite(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    logits = torch.tensor([-1000.0, -100.0, 0.0, 100.0, 1000.0], requires_grad=True)
    alpha = concrete(logits, ROWS[:5], DRAWS, 0.1)
    assert alpha[[0, 1, 3, 4]].tolist() == [0.0, 0.0, 1.0, 1.0]
    loss = bernoulli_kl(alpha, 0.7)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_shapes_and_strides(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    table = torch.rand(700, 3, generator=torch.Generator().manual_seed(0))
    column = table[:, 1]
    assert torch.equal(concrete(column, ROWS, DRAWS), concrete(column.contiguous(), ROWS, DRAWS))
    wide, turned = table.clone().requires_grad_(), table.T.clone().requires_grad_()
    bernoulli_kl(wide, 0.7).backward()
    bernoulli_kl(turned.T, 0.7).backward()
    assert wide.grad is not None
    assert wide.grad.shape == (700, 3)
    torch.testing.assert_close(wide.grad, turned.grad.T)
    flat = table.flatten().requires_grad_()
    bernoulli_kl(flat, 0.7).backward()
    torch.testing.assert_close(wide.grad.flatten(), flat.grad)


def test_a_nan_is_not_hidden() -> None:
    logits = torch.tensor([0.0, torch.nan])
    alpha = concrete(logits, ROWS[:2], DRAWS)
    assert alpha.isnan().tolist() == [False, True]
    assert bernoulli_kl(alpha, 0.7).isnan()
