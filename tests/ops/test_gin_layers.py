"""Layers of GIN in one op: its meaning, compiled form and gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv

from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import Draws, EdgeTerm, ScalarTerm, gin_layers
from gsat.ops.numba import gin_layers as gin_layers_numba
from gsat.ops.numba import matmul
from gsat.ops.numba.matmul import run_over_blocks
from reference import random_graphs

DRAWS = Draws(3, "layer")
H = 8
KINDS = {"none": 0, "scalar": 3, "dense": 1}


def layer(batch: GraphBatch, kind: str, draws: Draws | None) -> Callable[..., Tensor]:
    """The op as a function of its tensors: x, edge weight, the MLP's, then the edge term's."""

    def run(x: Tensor, weight: Tensor, w1: Tensor, g: Tensor, b: Tensor, w2: Tensor, b2: Tensor,
            *terms: Tensor) -> Tensor:  # fmt: skip
        inner, outer, norm = nn.Linear(H, H), nn.Linear(H, H), nn.BatchNorm1d(H)
        inner, outer, norm = (m.to(x.dtype) for m in (inner, outer, norm))
        for module, tensors in ((inner, {"weight": w1}), (norm, {"weight": g, "bias": b}),
                                (outer, {"weight": w2, "bias": b2})):  # fmt: skip
            for name, tensor in tensors.items():
                delattr(module, name)
                setattr(module, name, tensor)
        term: EdgeTerm = ScalarTerm(*terms) if len(terms) == 3 else terms[0] if terms else None
        return gin_layers(x, batch, weight, [term], [(inner, norm, outer)], 0.3, draws and [draws])

    return run


def inputs(batch: GraphBatch, kind: str, normal: Callable[..., Tensor]) -> list[Tensor]:
    n, e = batch.num_nodes, batch.num_edges
    made = [normal(1, n, H), normal(2, e).sigmoid(), normal(3, H, H), normal(4, H) + 1]
    made += [normal(5, H), normal(6, H, H), normal(7, H)]
    terms = {"none": [], "scalar": [normal(8, e), normal(9, H), normal(10, H)],
             "dense": [normal(8, e, H)]}  # fmt: skip
    return made + terms[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draws", [None, DRAWS])
def test_compiled_form_is_as_exact_as_the_plain_one(
    kind: str,
    draws: Draws | None,
    batch: GraphBatch,
    normal: Callable[..., Tensor],
    agree: Callable[..., None],
) -> None:
    if batch.num_nodes > 2:
        agree(layer(batch, kind, draws), *inputs(batch, kind, normal))


@pytest.mark.parametrize("kind", KINDS)
def test_two_rows(
    kind: str, normal: Callable[..., Tensor], measured: Callable[..., list[Tensor]]
) -> None:
    """The gradient through the norm of two rows is what is left of a difference of equals: float32
    has few digits for it (torch sums in float64 there)."""
    edge = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    batch = from_pyg([edge]).batch()
    given = inputs(batch, kind, normal)
    run = layer(batch, kind, DRAWS)
    for ours, exact in zip(
        measured(run, *given), measured(run, *(t.double() for t in given)), strict=True
    ):
        torch.testing.assert_close(ours.double(), exact, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_many_rows_in_blocks_and_chunks(
    kind: str,
    normal: Callable[..., Tensor],
    agree: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More rows than go through the steps together, in several blocks."""
    store = from_pyg(random_graphs(11, 30, awkward=False))
    batch = store.batch([i % 30 for i in range(900)])
    assert batch.num_nodes > 8 * gin_layers_numba.CHUNK
    agree(layer(batch, kind, DRAWS), *inputs(batch, kind, normal))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_the_plain_form(
    kind: str, small: GraphBatch, normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", "torch")
    given = [t.double().requires_grad_() for t in inputs(small, kind, normal)]
    assert torch.autograd.gradcheck(layer(small, kind, DRAWS), given, nondet_tol=0.0)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_it_is_pygs_gin(
    engine: str,
    training: bool,
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    torch.manual_seed(0)
    inner, outer, norm = nn.Linear(H, H), nn.Linear(H, H), nn.BatchNorm1d(H)
    theirs = GINConv(nn.Sequential(inner, nn.BatchNorm1d(H), nn.ReLU(), outer))
    norm.train(training)
    theirs.train(training)
    x = normal(1, mixed.num_nodes, H)
    ours = gin_layers(x, mixed, None, [None], [(inner, norm, outer)], 0.3, [DRAWS])
    expected = torch.relu(theirs(x, mixed.edge_index))
    expected = expected * DRAWS.keep(mixed.node_id, H, 0.3) / 0.7
    torch.testing.assert_close(ours, expected, rtol=0, atol=2e-5)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(norm, name), getattr(theirs.nn[1], name))


def test_it_works_without_mkl(
    mixed: GraphBatch, normal: Callable[..., Tensor], measured: Callable[..., list[Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    given = inputs(mixed, "scalar", normal)
    fast = measured(layer(mixed, "scalar", DRAWS), *given)
    monkeypatch.setattr(matmul, "sgemm_address", lambda: 0)
    for ours, unfused in zip(fast, measured(layer(mixed, "scalar", DRAWS), *given), strict=True):
        torch.testing.assert_close(ours, unfused, rtol=1e-4, atol=1e-4)


def test_only_what_is_asked_for_gets_a_gradient(
    mixed: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    given = inputs(mixed, "scalar", normal)
    given[0].requires_grad_()
    layer(mixed, "scalar", DRAWS)(*given).sum().backward()
    assert given[0].grad is not None
    assert all(t.grad is None for t in given[1:])


def test_a_nan_is_not_hidden(mixed: GraphBatch, normal: Callable[..., Tensor]) -> None:
    given = inputs(mixed, "none", normal)
    given[0][3, 2] = torch.nan
    assert layer(mixed, "none", DRAWS)(*given).isnan().any()


@pytest.mark.parametrize("kind", KINDS)
def test_without_gradients_it_is_the_same_in_one_pass(
    kind: str, batch: GraphBatch, normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    inner, outer, norm = nn.Linear(H, H), nn.Linear(H, H), nn.BatchNorm1d(H).eval()
    with torch.no_grad():
        norm.running_mean.copy_(normal(20, H))
        norm.running_var.copy_(normal(21, H).square())
        norm.weight.copy_(normal(22, H))
    x, weight, *_, terms = *inputs(batch, kind, normal)[:7], inputs(batch, kind, normal)[7:]
    term: EdgeTerm = ScalarTerm(*terms) if len(terms) == 3 else terms[0] if terms else None
    with_gradients = gin_layers(x, batch, weight, [term], [(inner, norm, outer)], 0.3)
    calls = []
    monkeypatch.setattr(
        gin_layers_numba,
        "run_over_blocks",
        lambda *args: calls.append(1) or run_over_blocks(*args),
    )
    with torch.no_grad():
        found = gin_layers(x, batch, weight, [term], [(inner, norm, outer)], 0.3)
    assert len(calls) == (1 if matmul.sgemm_address() else 0)
    torch.testing.assert_close(found, with_gradients, rtol=1e-4, atol=1e-4)
