"""Normalisation per graph, ReLU and dropout: their meaning, compiled form and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn.norm import InstanceNorm

from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import (
    Draws,
    gather_normalise_relu_dropout,
    normalise_relu_dropout,
    relu_dropout,
    row_normalise_relu_dropout,
)
from reference import random_graphs

KINDS = ("normalise nodes", "normalise edges", "normalise rows", "gather", "relu", "relu with bias")
RELU = ("relu", "relu with bias")
ON_EDGES = ("normalise edges", "gather")
DRAWS = Draws(5, "dropout")


def inputs(kind: str, batch: GraphBatch, normal: Callable[..., Tensor], d: int) -> list[Tensor]:
    if kind == "gather":
        return [normal(1, batch.num_nodes, d), normal(2, batch.num_nodes, d)]
    if kind == "relu with bias":
        return [normal(1, batch.num_nodes, d), normal(2, d)]
    # Rows away from 0, so that a lost mean would show.
    return [normal(1, batch.num_edges if kind == "normalise edges" else batch.num_nodes, d) + 0.5]


def op(kind: str, batch: GraphBatch, drop: float, draws: Draws | None) -> Callable[..., Tensor]:
    def run(*given: Tensor) -> Tensor:
        if kind == "gather":
            return gather_normalise_relu_dropout(*given, batch, drop, draws)
        if kind == "normalise rows":
            return row_normalise_relu_dropout(given[0], batch.node_id, drop, draws)
        if kind in RELU:
            return relu_dropout(given[0], batch.node_id, drop, draws, *given[1:])
        edges = kind == "normalise edges"
        ptr, rows = (batch.edge_ptr, batch.edge_id) if edges else (batch.node_ptr, batch.node_id)
        return normalise_relu_dropout(given[0], ptr, rows, drop, draws)

    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draws", [None, DRAWS])
@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_it_is_the_norm_of_pyg_or_torch_then_relu_then_dropout(
    engine: str,
    draws: Draws | None,
    kind: str,
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    given = inputs(kind, mixed, normal, 8)
    if kind == "gather":
        z, graph, rows = given[0][mixed.src] + given[1][mixed.dst], mixed.edge_graph, mixed.edge_id
    elif kind == "normalise edges":
        z, graph, rows = given[0], mixed.edge_graph, mixed.edge_id
    else:
        z, graph, rows = given[0], mixed.node_graph, mixed.node_id
    if kind == "relu with bias":
        z = z + given[1]
    if kind == "normalise rows":
        z = nn.LayerNorm(8, elementwise_affine=False)(z)
    elif kind not in RELU:
        z = InstanceNorm(8)(z, graph, batch_size=mixed.num_graphs)
    expected = torch.relu(z)
    if draws:
        expected = expected * draws.keep(rows, 8, 0.3) / 0.7
    torch.testing.assert_close(op(kind, mixed, 0.3, draws)(*given), expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_form_is_as_exact_as_the_plain_one(
    kind: str, batch: GraphBatch, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    agree(op(kind, batch, 0.5, DRAWS), *inputs(kind, batch, normal, 16))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("d", "drop", "draws"), [(1, 0.3, DRAWS), (33, 0.0, DRAWS), (33, 0.5, None)]
)
def test_compiled_form_is_as_exact_at_other_widths_and_rates(
    kind: str,
    d: int,
    drop: float,
    draws: Draws | None,
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    agree: Callable[..., None],
) -> None:
    agree(op(kind, mixed, drop, draws), *inputs(kind, mixed, normal, d))


def test_one_large_graph(normal: Callable[..., Tensor], agree: Callable[..., None]) -> None:
    """Sums over many rows keep their digits."""
    ptr, rows = torch.tensor([0, 30_000]), torch.arange(30_000)
    agree(lambda z: normalise_relu_dropout(z, ptr, rows, 0.5, DRAWS), normal(1, 30_000, 2) + 5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_the_plain_form(
    kind: str, small: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    given = [t.double().requires_grad_() for t in inputs(kind, small, normal, 3)]
    # Without ReLU there is no kink, with it the values must stay off it. A graph with one row is
    # always on it: its gradient is 0 by convention, and other rows are checked.
    run = op(kind, small, 0.4, DRAWS)
    value = run(*given)
    assert value[value > 0].min() > 1e-4
    counts = (small.edge_ptr if kind in ON_EDGES else small.node_ptr).diff()
    graph = small.edge_graph if kind in ON_EDGES else small.node_graph
    many = counts[graph] > 1
    assert torch.autograd.gradcheck(lambda *ts: run(*ts)[many], given)


@pytest.mark.parametrize("kind", ["normalise nodes", "normalise edges", "gather"])
@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_a_graph_with_one_row_becomes_zero(
    engine: str,
    kind: str,
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    measured: Callable[..., list[Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    nodes = kind == "normalise nodes"
    ptr = mixed.node_ptr if nodes else mixed.edge_ptr
    graph = mixed.node_graph if nodes else mixed.edge_graph
    single = (ptr.diff() == 1)[graph]
    assert single.any()
    given = inputs(kind, mixed, normal, 8)
    value, *gradients = measured(op(kind, mixed, 0.5, DRAWS), *given)
    assert (value[single] == 0).all()
    if kind != "gather":
        assert (gradients[0][single] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drop", [0.3, 0.5, 0.9])
def test_dropout_keeps_what_the_draws_say_and_scales_it(
    kind: str, drop: float, mixed: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    given = inputs(kind, mixed, normal, 8)
    whole, dropped = op(kind, mixed, drop, None)(*given), op(kind, mixed, drop, DRAWS)(*given)
    rows = mixed.edge_id if kind in ON_EDGES else mixed.node_id
    keep = DRAWS.keep(rows, 8, drop)
    assert ((dropped > 0) == (keep & (whole > 0))).all()
    torch.testing.assert_close(dropped[keep], whole[keep] / (1 - drop))


@pytest.mark.parametrize("kind", KINDS)
def test_strided_tensors(
    kind: str,
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    measured: Callable[..., list[Tensor]],
) -> None:
    def strided(t: Tensor) -> Tensor:
        return t.repeat_interleave(2)[::2] if t.dim() == 1 else t.T.contiguous().T

    given, run = inputs(kind, mixed, normal, 4), op(kind, mixed, 0.5, DRAWS)
    expected = measured(run, *given)
    found = measured(lambda *ts: run(*(strided(t) for t in ts)), *given)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_left_alone(kind: str, mixed: GraphBatch, normal: Callable[..., Tensor]) -> None:
    leaves = [t.requires_grad_() for t in inputs(kind, mixed, normal, 4)]
    before = [t.detach().clone() for t in leaves]
    op(kind, mixed, 0.5, DRAWS)(*leaves).square().sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(leaves, before, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draws", [None, DRAWS])
def test_a_nan_is_not_hidden(
    kind: str, draws: Draws | None, mixed: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    """A run that has diverged must not look sane: dropout and ReLU pass a NaN on."""
    given = inputs(kind, mixed, normal, 32)
    given[0][:] = torch.nan
    value = op(kind, mixed, 0.5, draws)(*given)
    assert value.isnan().any(dim=1).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_a_graph_is_dropped_out_the_same_in_any_batch(
    engine: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    store = from_pyg(random_graphs(4, 5, awkward=False))
    found = []
    for chosen in ([2], [0, 2, 1], [4, 3, 2, 0]):
        batch = store.batch(chosen)
        ptr, graph = batch.node_ptr, batch.node_graph
        if kind == "normalise edges":
            ptr, graph = batch.edge_ptr, batch.edge_graph
        position = torch.arange(len(graph)) - ptr[graph]
        z = torch.sin(torch.outer(position + 1.0, torch.arange(32) + 1.0))
        more = {"gather": [z.cos()], "relu with bias": [torch.zeros(32)]}.get(kind, [])
        value = op(kind, batch, 0.5, DRAWS)(z, *more)
        graph = batch.edge_graph if kind == "gather" else graph
        found.append(value[graph == chosen.index(2)])
    assert 0.1 < (found[0] > 0).float().mean() < 0.4  # half is positive, half of that is kept
    assert all(torch.equal(other, found[0]) for other in found[1:])
