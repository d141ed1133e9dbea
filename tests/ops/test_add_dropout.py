"""dropout(x + z): what is kept, and both gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gsat.ops import Draws, add_dropout


@pytest.mark.parametrize("rows", [0, 1, 700])
def test_the_compiled_form_agrees_with_the_plain_one(
    rows: int, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    names = torch.arange(rows) << 32
    x, z = normal(1, rows, 24), normal(2, rows, 24)
    agree(lambda x, z: add_dropout(x, z, names, 0.3, Draws(1)), x, z)
    agree(lambda x, z: add_dropout(x, z, names, 0.3, None), x, z)


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_a_kept_zero_still_has_a_gradient(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """x + z may be exactly 0, after a dropout before and a ReLU."""
    monkeypatch.setenv("GSAT_OPS", engine)
    x, z, names = torch.zeros(500, 20, requires_grad=True), torch.zeros(500, 20), torch.arange(500)
    out = add_dropout(x, z, names, 0.25, Draws(2))
    assert not out.any()
    (grad,) = torch.autograd.grad(out.sum(), x)
    kept = Draws(2).keep(names, 20, 0.25)
    torch.testing.assert_close(grad, kept / 0.75)
    assert kept.float().mean() == pytest.approx(0.75, abs=0.02)
