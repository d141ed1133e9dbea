"""PNA's aggregations: the compiled form, PyG's own, and the destination's messages by algebra."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_geometric.nn.aggr import MultiAggregation

from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import (
    Aggregator,
    multi_aggregate,
    multi_aggregate_edges,
    multi_aggregate_target,
    reference,
    weight_statistics,
)
from gsat.ops.numba import parallel
from reference import random_graphs

ALL: tuple[Aggregator, ...] = ("mean", "min", "max", "std", "sum")


def op(
    batch: GraphBatch, kinds: tuple[Aggregator, ...] = ALL
) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, weight: multi_aggregate(x, batch, weight, kinds)


def target(
    batch: GraphBatch, kinds: tuple[Aggregator, ...] = ALL
) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, weight: multi_aggregate_target(x, weight_statistics(weight, batch), kinds)


def test_the_compiled_form_agrees_with_the_plain_one(
    batch: GraphBatch, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    agree(op(batch), normal(1, batch.num_nodes, 8), normal(2, batch.num_edges).sigmoid())


def test_ties_share_the_gradient(mixed: GraphBatch, agree: Callable[..., None]) -> None:
    """Equal messages are equally the smallest and the largest."""
    x = torch.arange(mixed.num_nodes).remainder(2).float()[:, None].expand(-1, 3).contiguous()
    extremes: tuple[Aggregator, ...] = ("min", "max")
    agree(op(mixed, extremes), x, torch.ones(mixed.num_edges))


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_it_is_what_pyg_computes(
    engine: str, mixed: GraphBatch, normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    x, weight = normal(1, mixed.num_nodes, 5), normal(2, mixed.num_edges).sigmoid()
    pyg = MultiAggregation(list(ALL))(
        x[mixed.src] * weight[:, None], mixed.dst, dim_size=mixed.num_nodes
    )
    ours = multi_aggregate(x, mixed, weight, ALL).flatten(1)
    busy = mixed.dst_ptr.diff() > 1  # on fewer messages PyG's std is 0, the published one √1e-5
    torch.testing.assert_close(ours[busy], pyg[busy], rtol=1e-4, atol=2e-3)
    named = dict(zip(ALL, multi_aggregate(x, mixed, weight, ALL).unbind(1), strict=True))
    lonely = mixed.dst_ptr.diff() == 0
    assert lonely.any()
    for name, values in named.items():
        expected = 1e-5**0.5 if name == "std" else 0.0
        torch.testing.assert_close(values[lonely], torch.full_like(values[lonely], expected))


def test_only_what_is_asked_for_in_that_order(
    mixed: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    x, weight = normal(1, mixed.num_nodes, 4), normal(2, mixed.num_edges).sigmoid()
    every = dict(zip(ALL, multi_aggregate(x, mixed, weight, ALL).unbind(1), strict=True))
    some = multi_aggregate(x, mixed, weight, ("sum", "min"))
    assert torch.equal(some, torch.stack([every["sum"], every["min"]], dim=1))
    ones = torch.ones(mixed.num_edges)
    none = multi_aggregate(x, mixed, None, ALL)
    assert torch.equal(none, multi_aggregate(x, mixed, ones, ALL))


def test_finite_differences(small: GraphBatch, normal: Callable[..., Tensor]) -> None:
    x = normal(1, small.num_nodes, 2).double().requires_grad_()
    weight = normal(2, small.num_edges).sigmoid().double().requires_grad_()
    smooth: tuple[Aggregator, ...] = ("mean", "sum", "min", "max")
    assert torch.autograd.gradcheck(op(small, smooth), (x, weight))
    assert torch.autograd.gradcheck(target(small, smooth), (x, weight))


@pytest.mark.parametrize("seed", range(3))
def test_the_destination_by_algebra_equals_its_messages(
    seed: int, normal: Callable[..., Tensor]
) -> None:
    """Values and gradients, for positive and negative x and for one row shared by all nodes."""
    batch = from_pyg(random_graphs(seed, 10)).batch()
    weight = normal(2, batch.num_edges).sigmoid().double().requires_grad_()
    for x in (normal(1, batch.num_nodes, 3), normal(7, 1, 3)):
        x = x.double().requires_grad_()
        whole = x.expand(batch.num_nodes, -1)
        by_messages = reference.multi_aggregate_edges(whole[batch.dst], batch, weight, ALL)
        by_algebra = target(batch)(x, weight)
        torch.testing.assert_close(by_algebra, by_messages)
        probe = torch.randn_like(by_messages)
        for found, expected in zip(
            torch.autograd.grad((by_algebra * probe).sum(), (x, weight)),
            torch.autograd.grad((by_messages * probe).sum(), (x, weight)),
            strict=True,
        ):
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kinds", [("min",), ("std",), ("sum", "max"), ("mean", "std", "min")])
def test_the_compiled_form_agrees_on_some_of_them(
    kinds: tuple[Aggregator, ...],
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    agree: Callable[..., None],
) -> None:
    x, weight = normal(1, mixed.num_nodes, 8), normal(2, mixed.num_edges).sigmoid()
    agree(op(mixed, kinds), x, weight)
    agree(target(mixed, kinds), x, weight)


def test_the_compiled_form_agrees_on_edges_and_destinations(
    batch: GraphBatch, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    weight = normal(2, batch.num_edges).sigmoid()
    agree(
        lambda e, w: multi_aggregate_edges(e, batch, w, ALL), normal(1, batch.num_edges, 8), weight
    )
    agree(target(batch), normal(1, batch.num_nodes, 8), weight)
    agree(target(batch), normal(1, 1, 8), weight)
    agree(lambda w: weight_statistics(w, batch), weight)


def test_equal_weights_share_the_gradient(mixed: GraphBatch, agree: Callable[..., None]) -> None:
    x = torch.arange(mixed.num_nodes).remainder(3).float()[:, None].expand(-1, 3) - 1
    weight = 0.5 + torch.arange(mixed.num_edges).remainder(2).float()
    agree(target(mixed, ("min", "max")), x.contiguous(), weight)


def test_an_edge_aggregation_is_that_of_its_messages(
    mixed: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    e, ones = normal(1, mixed.num_edges, 5), torch.ones(mixed.num_edges)
    found = multi_aggregate_edges(e, mixed, None, ALL)
    torch.testing.assert_close(
        found, reference.multi_aggregate_edges(e, mixed, None, ALL), rtol=1e-4, atol=1e-3
    )
    assert torch.equal(found, multi_aggregate_edges(e, mixed, ones, ALL))


def test_threads_do_not_matter(
    normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = from_pyg(random_graphs(5, 500)).batch()
    x, weight = normal(1, batch.num_nodes, 8), normal(2, batch.num_edges).sigmoid()
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(parallel, "_kernel_threads", [threads])
        leaves = x.clone().requires_grad_(), weight.clone().requires_grad_()
        value = op(batch)(*leaves) + target(batch)(*leaves)
        found.append([value, *torch.autograd.grad(value.square().sum(), leaves)])
    assert batch.num_nodes > 3 * 1024  # enough work for three
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
