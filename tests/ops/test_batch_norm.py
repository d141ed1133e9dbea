"""Batch normalisation and ReLU with the bias before them: torch's own, in one pass."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from gsat.ops import batch_norm_relu


def made(h: int, **settings: float | None) -> nn.BatchNorm1d:
    generator = torch.Generator().manual_seed(0)
    norm = nn.BatchNorm1d(h, **settings)
    norm.weight.data = torch.randn(h, generator=generator)
    norm.bias.data = torch.randn(h, generator=generator)
    norm.running_mean.copy_(torch.randn(h, generator=generator))
    norm.running_var.copy_(torch.rand(h, generator=generator) + 0.5)
    return norm


@pytest.mark.parametrize("rows", [2, 7, 256, 700])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_it_is_torchs(
    engine: str,
    training: bool,
    rows: int,
    normal: Callable[..., Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    ours = made(5).train(training)
    theirs = copy.deepcopy(ours)
    z, bias = normal(1, rows, 5) + 3, normal(2, 5)
    for step in range(3):
        found, expected = batch_norm_relu(z + step, bias, ours), theirs(z + step + bias).relu()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-5, atol=1e-5)
    assert ours.num_batches_tracked == theirs.num_batches_tracked == (3 if training else 0)


def test_an_average_over_all_batches(normal: Callable[..., Tensor]) -> None:
    ours = made(5, momentum=None)
    theirs = copy.deepcopy(ours)
    for step in range(4):
        z = normal(step, 20, 5)
        batch_norm_relu(z, torch.ones(5), ours)
        theirs(z + 1)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


@pytest.mark.parametrize("rows", [2, 90, 300, 1500])
@pytest.mark.parametrize("training", [True, False])
def test_compiled_form_is_as_exact_as_the_plain_one(
    rows: int, training: bool, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    bias = normal(2, 33)

    def op(z: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
        norm = made(33).train(training).to(z.dtype)
        del norm.weight, norm.bias
        norm.weight, norm.bias = weight, shift
        return batch_norm_relu(z, bias.to(z.dtype), norm)

    agree(op, normal(1, rows, 33) + 0.5, normal(3, 33), normal(4, 33))


def test_the_bias_counts_in_evaluation(normal: Callable[..., Tensor]) -> None:
    norm, bias = made(5).eval(), normal(2, 5).requires_grad_()
    z = normal(1, 40, 5)
    batch_norm_relu(z, bias, norm).sum().backward()
    again = bias.detach().clone().requires_grad_()
    norm(z + again).relu().sum().backward()
    torch.testing.assert_close(bias.grad, again.grad)


def test_strided_rows_and_gradients(normal: Callable[..., Tensor]) -> None:
    leaf = normal(1, 40, 6)
    turned = leaf.T.contiguous().T.requires_grad_()
    straight = leaf.clone().requires_grad_()
    for z in (turned, straight):
        batch_norm_relu(z, torch.zeros(6), made(6)).sum().backward()  # an expanded gradient
    assert torch.equal(turned.grad, straight.grad)
    assert torch.equal(turned, leaf)


def test_a_nan_is_not_hidden(normal: Callable[..., Tensor]) -> None:
    z = normal(1, 40, 6)
    z[3, 2] = torch.nan
    for training in (True, False):
        found = batch_norm_relu(z, torch.zeros(6), made(6).train(training))
        assert found[3, 2].isnan()


def test_one_row_cannot_be_normalised() -> None:
    with pytest.raises(ValueError, match="more than 1 value"):
        batch_norm_relu(torch.ones(1, 4), torch.zeros(4), made(4))
    assert batch_norm_relu(torch.ones(1, 4), torch.zeros(4), made(4).eval()).shape == (1, 4)
    assert batch_norm_relu(torch.ones(0, 4), torch.zeros(4), made(4).eval()).shape == (0, 4)
