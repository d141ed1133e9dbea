"""Mutual information by the Donsker-Varadhan bound, and the training of its estimator."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.optim import Adam

from gsat.ops import StatisticsNetwork, donsker_varadhan, train_statistics_network


def pairs(rows: int, h: int) -> tuple[Tensor, Tensor]:
    """Embeddings that contain much information about each other."""
    draw = torch.Generator().manual_seed(rows)
    e = torch.randn(rows, h, generator=draw)
    return e, e + 0.3 * torch.randn(rows, h, generator=draw)


def estimator(
    h: int, dtype: torch.dtype = torch.float32, width: int | None = None
) -> StatisticsNetwork:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return StatisticsNetwork(h, width).to(dtype)


def shuffles(steps: int, rows: int) -> Tensor:
    draw = torch.Generator().manual_seed(7)
    return torch.stack([torch.randperm(rows, generator=draw) for _ in range(steps)])


def test_the_estimate_is_the_formula() -> None:
    draw = torch.Generator().manual_seed(0)
    joint, shuffled = torch.randn(2, 50, generator=draw).double()
    naive = joint.mean() - torch.log(torch.exp(shuffled).mean())
    torch.testing.assert_close(donsker_varadhan(joint, shuffled), naive)


@pytest.mark.parametrize("size", [200.0, -200.0])
def test_the_estimate_stays_finite(size: float) -> None:
    scores = torch.full((8,), size, requires_grad=True)
    estimate = donsker_varadhan(torch.zeros(8), scores)
    estimate.backward()
    assert float(estimate.detach()) == pytest.approx(-size)
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, torch.full((8,), -1 / 8))


@pytest.mark.parametrize(
    ("ops", "dtype", "allowed"),
    [("numba", torch.float32, 1e-5), ("torch", torch.float32, 1e-5), ("torch", torch.float64, 0)],
)
@pytest.mark.parametrize(
    ("rows", "h", "width"), [(64, 16, None), (3, 5, None), (1, 4, None), (9, 6, 3)]
)
def test_training_is_autograd_and_adam(
    ops: str,
    dtype: torch.dtype,
    allowed: float,
    rows: int,
    h: int,
    width: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two calls after each other; against the formulas in float64 with an Adam of torch's own."""
    monkeypatch.setenv("GSAT_OPS", ops)
    e, p = pairs(rows, h)
    ours, orders = estimator(h, dtype, width), shuffles(60, rows)
    adam = ours.adam(lr=1e-3, weight_decay=0.01)
    first, bias, last = (w.detach().clone().double() for w in ours.parameters())
    weights = [w.requires_grad_() for w in (first, bias, last)]
    theirs = Adam(weights, lr=1e-3, weight_decay=0.01)
    expected = []

    def score(left: Tensor) -> Tensor:
        z = torch.cat([left, p], dim=1).double() @ first.T + bias
        return (z.clamp(min=0) * last).sum(dim=1)

    for order in orders:
        estimate = score(e).mean() - score(e[order]).exp().mean().log()
        theirs.zero_grad()
        (-estimate).backward()
        theirs.step()
        expected.append(estimate.detach())
    with torch.no_grad():  # as inside an evaluation
        halves = [
            train_statistics_network(ours, adam, e.to(dtype), p.to(dtype), o)
            for o in orders.split(30)
        ]
    assert all(w.grad is None for w in ours.parameters())
    allowed = allowed or 1e-12
    found = torch.cat(halves).double()
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=10 * allowed)
    for one, other in zip(ours.parameters(), weights, strict=True):
        torch.testing.assert_close(one.detach().double(), other.detach(), rtol=0, atol=allowed)
        for name, value in theirs.state[other].items():
            mine = adam.state[one][name].double()
            torch.testing.assert_close(mine, value.double(), rtol=1e-3, atol=allowed)


@pytest.mark.parametrize("ops", ["torch", "numba"])
def test_no_steps_change_nothing(ops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSAT_OPS", ops)
    ours = estimator(4)
    before = copy.deepcopy(ours.state_dict())
    none = train_statistics_network(
        ours, ours.adam(1e-3, 0.0), torch.ones(3, 4), torch.ones(3, 4), shuffles(1, 3)[:0]
    )
    assert none.shape == (0,)
    assert all(torch.equal(before[name], w) for name, w in ours.state_dict().items())
