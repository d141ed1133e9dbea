"""The information loss and the schedule of r."""

from __future__ import annotations

import math

import pytest
import torch

from gsat.attention import sample
from gsat.bottleneck import Schedule, information, sparsity
from gsat.ops import Draws

# Spec 1.7: interval, final r, first selectable epoch.
CONFIGS = {
    "GIN–BA2": (10, 0.5, 40),
    "GIN–Mutag": (10, 0.5, 40),
    "GIN–SPMotif": (10, 0.7, 20),
    "GIN–MNIST": (30, 0.7, 60),
    "GIN–SST2": (10, 0.7, 20),
    "GIN–OGB": (20, 0.7, 40),
    "PNA–BA2": (5, 0.5, 20),
    "PNA–Mutag": (5, 0.5, 20),
    "PNA–SPMotif": (60, 0.7, 120),
    "PNA–MNIST": (30, 0.7, 60),
    "PNA–SST2": (20, 0.7, 40),
    "PNA–OGB": (10, 0.7, 20),
    "SPMotifNet–SPMotif": (20, 0.5, 80),
}


# -- information -------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [0.5, 0.7, 0.9])
def test_attention_at_r_costs_nothing(r: float) -> None:
    assert information(torch.full((7,), r), r).abs() < 1e-5


def test_information_at_0_and_1() -> None:
    assert float(information(torch.zeros(3), 0.7)) == pytest.approx(1.20397, abs=1e-5)
    assert float(information(torch.ones(3), 0.7)) == pytest.approx(0.35668, abs=1e-5)


@pytest.mark.parametrize("end", [0.0, 1.0])
@pytest.mark.parametrize("r", [0.5, 0.7, 0.9])
def test_gradients_are_finite_at_the_ends(end: float, r: float) -> None:
    alpha = torch.full((1,), end, requires_grad=True)
    information(alpha, r).backward()
    assert alpha.grad is not None
    assert 10 < alpha.grad.abs() < 17.5  # steep, and still a number
    assert (alpha.grad > 0) == (end == 1.0)  # back into the interval


@pytest.mark.parametrize(("dtype", "rel"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_small_constants_match_the_published_code(dtype: torch.dtype, rel: float) -> None:
    """In the plain form (float64) and the compiled one."""
    alpha = torch.tensor([0.0, 1e-6, 0.3, 1.0], dtype=dtype)
    for r in (0.3, 0.7, 1 - 1e-6):
        expected = [
            a * math.log(a / r + 1e-6) + (1 - a) * math.log((1 - a) / (1 - r + 1e-6) + 1e-6)
            for a in alpha.tolist()
        ]
        actual = [float(information(a[None], r)) for a in alpha]
        assert actual == pytest.approx(expected, rel=rel)


def test_it_is_the_mean_over_all_entries() -> None:
    alpha = torch.rand(4, 5, generator=torch.Generator().manual_seed(0))
    each = torch.stack([information(a, 0.7) for a in alpha.flatten()])
    torch.testing.assert_close(information(alpha, 0.7), each.mean())
    assert information(alpha, 0.7).shape == ()


@pytest.mark.parametrize(("r", "expected"), [(0.5, 0.193), (0.7, 0.192), (0.9, 0.170)])
def test_samples_at_r_still_cost(r: float, expected: float) -> None:
    rows = torch.arange(2_000_000)
    alpha = sample(torch.full((len(rows),), math.log(r / (1 - r))), rows, Draws(0, "info"))
    assert float(information(alpha, r)) == pytest.approx(expected, abs=0.002)


def test_no_entries_have_no_loss() -> None:
    for cost in (lambda alpha: information(alpha, 0.7), sparsity):
        none = torch.zeros(0, requires_grad=True)
        value = cost(none)
        value.backward()
        assert float(value.detach()) == 0.0
        assert none.grad is not None


def test_sparsity_is_the_mean() -> None:
    alpha = torch.tensor([0.0, 0.25, 1.0, 0.75], requires_grad=True)
    cost = sparsity(alpha)
    cost.backward()
    assert float(cost.detach()) == 0.5
    assert alpha.grad is not None
    assert alpha.grad.tolist() == [0.25] * 4


# -- the schedule ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
def test_r_in_every_configuration_of_the_paper(name: str) -> None:
    interval, final, selectable = CONFIGS[name]
    schedule = Schedule(final=final, interval=interval)
    for epoch in range(200):
        expected = max(0.9 - epoch // interval * 0.1, final)
        assert schedule.r(epoch) == pytest.approx(expected, abs=1e-12)
        assert (schedule.r(epoch) == final) == (epoch >= schedule.epochs_to_final)  # exactly
    assert max(11, schedule.epochs_to_final) == selectable


def test_a_final_r_between_two_steps_is_reached_all_the_same() -> None:
    schedule = Schedule(start=0.9, final=0.65, step=0.1, interval=3)
    actual = [schedule.r(epoch) for epoch in range(0, 15, 3)]
    assert actual == pytest.approx([0.9, 0.8, 0.7, 0.65, 0.65])
    assert (schedule.steps, schedule.epochs_to_final) == (3, 9)
    assert schedule.r(8) > 0.65
    assert schedule.r(9) == 0.65


@pytest.mark.parametrize("final", [0.7, 0.8])
def test_without_a_fall_r_is_final_from_the_start(final: float) -> None:
    schedule = Schedule(start=0.7, final=final)
    assert schedule.epochs_to_final == 0
    assert {schedule.r(epoch) for epoch in range(50)} == {final}


@pytest.mark.parametrize("step", [0.1, 0.05, 0.2, 0.01, 0.3])
@pytest.mark.parametrize("final", [0.8, 0.6, 0.5, 0.3, 0.1])
def test_steps_are_counted_not_compared(step: float, final: float) -> None:
    schedule = Schedule(final=final, step=step, interval=1)
    exact = -(-round((0.9 - final) * 100) // round(step * 100))  # in hundredths, rounded up
    assert schedule.steps == exact
    falls = [schedule.r(t) - schedule.r(t + 1) for t in range(exact)]
    assert falls[:-1] == pytest.approx([step] * (exact - 1))
    assert 0 < falls[-1] <= step + 1e-9
    assert schedule.r(exact) == schedule.r(exact + 100) == final
