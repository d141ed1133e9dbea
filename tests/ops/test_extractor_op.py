"""The extractor in one op: compiled form and gradients; its meaning is in test_attention.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import Draws, extractor
from gsat.ops.numba import matmul
from reference import random_graphs

DRAWS = Draws(4, "extractor")
H = 4


def op(batch: GraphBatch, draws: Draws | None) -> Callable[..., Tensor]:
    def run(h: Tensor, *weights: Tensor) -> Tensor:
        return extractor(h, batch, *weights, 0.4, draws)

    return run


def inputs(batch: GraphBatch, on: str, normal: Callable[..., Tensor]) -> list[Tensor]:
    width = 2 * H if on == "edge" else H
    shapes = [(2 * width, width), (H, 2 * width), (1, H), (1,)]
    rows = normal(1, batch.num_nodes, H) + 0.5
    return [rows, *(normal(2 + i, *shape) / shape[-1] ** 0.5 for i, shape in enumerate(shapes))]


@pytest.mark.parametrize("on", ["edge", "node"])
@pytest.mark.parametrize("draws", [None, DRAWS])
def test_compiled_form_is_as_exact_as_the_plain_one(
    on: str,
    draws: Draws | None,
    batch: GraphBatch,
    normal: Callable[..., Tensor],
    agree: Callable[..., None],
) -> None:
    agree(op(batch, draws), *inputs(batch, on, normal))


@pytest.mark.parametrize("on", ["edge", "node"])
def test_many_graphs_in_blocks_and_groups(
    on: str, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    store = from_pyg(random_graphs(12, 30))
    batch = store.batch([i % len(store) for i in range(500)])
    assert batch.num_edges > 8 * 256
    agree(op(batch, DRAWS), *inputs(batch, on, normal))


@pytest.mark.parametrize("on", ["edge", "node"])
def test_gradients_of_the_plain_form(
    on: str, small: GraphBatch, normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", "torch")
    given = [t.double().requires_grad_() for t in inputs(small, on, normal)]
    assert torch.autograd.gradcheck(op(small, DRAWS), given, nondet_tol=0.0)


@pytest.mark.parametrize("on", ["edge", "node"])
def test_it_works_without_mkl(
    on: str, mixed: GraphBatch, normal: Callable[..., Tensor],
    measured: Callable[..., list[Tensor]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    given = inputs(mixed, on, normal)
    fast = measured(op(mixed, DRAWS), *given)
    monkeypatch.setattr(matmul, "sgemm_address", lambda: 0)
    for ours, unfused in zip(fast, measured(op(mixed, DRAWS), *given), strict=True):
        torch.testing.assert_close(ours, unfused, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("on", ["edge", "node"])
def test_a_nan_is_not_hidden(on: str, mixed: GraphBatch, normal: Callable[..., Tensor]) -> None:
    given = inputs(mixed, on, normal)
    given[0][int(mixed.src[0])] = torch.nan
    assert op(mixed, DRAWS)(*given).isnan().any()
