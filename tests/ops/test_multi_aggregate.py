"""Several aggregations side by side: the compiled form, the plain one and PyG's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_geometric.nn.aggr import MultiAggregation

from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import Aggregator, multi_aggregate_edges
from gsat.ops.numba import parallel
from reference import random_graphs

ALL: tuple[Aggregator, ...] = ("mean", "min", "max", "std", "sum")


def op(
    batch: GraphBatch, kinds: tuple[Aggregator, ...] = ALL
) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda e, weight: multi_aggregate_edges(e, batch, weight, kinds)


def test_the_compiled_form_agrees_with_the_plain_one(
    batch: GraphBatch, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    agree(op(batch), normal(1, batch.num_edges, 8), normal(2, batch.num_edges).sigmoid())


def test_ties_share_the_gradient(mixed: GraphBatch, agree: Callable[..., None]) -> None:
    """Equal messages are equally the smallest and the largest."""
    e = torch.arange(mixed.num_edges).remainder(2).float()[:, None].expand(-1, 3).contiguous()
    extremes: tuple[Aggregator, ...] = ("min", "max")
    agree(op(mixed, extremes), e, torch.ones(mixed.num_edges))


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_it_is_what_pyg_computes(
    engine: str, mixed: GraphBatch, normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    e, weight = normal(1, mixed.num_edges, 5), normal(2, mixed.num_edges).sigmoid()
    pyg = MultiAggregation(list(ALL))(e * weight[:, None], mixed.dst, dim_size=mixed.num_nodes)
    ours = multi_aggregate_edges(e, mixed, weight, ALL)
    busy = mixed.dst_ptr.diff() > 1  # on fewer messages PyG's std is 0, the published one √1e-5
    torch.testing.assert_close(ours.flatten(1)[busy], pyg[busy], rtol=1e-4, atol=4e-3)
    lonely = mixed.dst_ptr.diff() == 0
    assert lonely.any()
    for name, values in zip(ALL, ours.unbind(1), strict=True):
        expected = 1e-5**0.5 if name == "std" else 0.0
        torch.testing.assert_close(values[lonely], torch.full_like(values[lonely], expected))


def test_only_what_is_asked_for_in_that_order(
    mixed: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    e, weight = normal(1, mixed.num_edges, 4), normal(2, mixed.num_edges).sigmoid()
    every = dict(zip(ALL, multi_aggregate_edges(e, mixed, weight, ALL).unbind(1), strict=True))
    some = multi_aggregate_edges(e, mixed, weight, ("sum", "min"))
    assert torch.equal(some, torch.stack([every["sum"], every["min"]], dim=1))
    ones = torch.ones(mixed.num_edges)
    none = multi_aggregate_edges(e, mixed, None, ALL)
    assert torch.equal(none, multi_aggregate_edges(e, mixed, ones, ALL))


def test_finite_differences(small: GraphBatch, normal: Callable[..., Tensor]) -> None:
    e = normal(1, small.num_edges, 2).double().requires_grad_()
    weight = normal(2, small.num_edges).sigmoid().double().requires_grad_()
    smooth: tuple[Aggregator, ...] = ("mean", "sum", "min", "max")
    assert torch.autograd.gradcheck(op(small, smooth), (e, weight))


@pytest.mark.parametrize("kinds", [("min",), ("std",), ("sum", "max"), ("mean", "std", "min")])
def test_the_compiled_form_agrees_on_some_of_them(
    kinds: tuple[Aggregator, ...],
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    agree: Callable[..., None],
) -> None:
    agree(op(mixed, kinds), normal(1, mixed.num_edges, 8), normal(2, mixed.num_edges).sigmoid())


def test_threads_do_not_matter(
    normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = from_pyg(random_graphs(5, 500)).batch()
    e, weight = normal(1, batch.num_edges, 8), normal(2, batch.num_edges).sigmoid()
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(parallel, "_kernel_threads", [threads])
        leaves = e.clone().requires_grad_(), weight.clone().requires_grad_()
        value = op(batch)(*leaves)
        found.append([value, *torch.autograd.grad(value.square().sum(), leaves)])
    assert batch.num_nodes > 3 * 1024  # enough work for three
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
