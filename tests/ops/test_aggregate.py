"""The weighted sum of messages: its meaning, its compiled form, its gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gsat.graphs import GraphBatch
from gsat.ops import ScalarTerm, aggregate, scalar_term

KINDS = ("none", "scalar", "dense")


def inputs(kind: str, batch: GraphBatch, normal: Callable[..., Tensor], h: int) -> list[Tensor]:
    """x and weight, then what the edge term is made of."""
    edges = batch.num_edges
    more = {
        "none": [],
        "scalar": [normal(3, edges), normal(4, h), normal(5, h)],
        "dense": [normal(6, edges, h)],
    }
    return [normal(1, batch.num_nodes, h), normal(2, edges).sigmoid(), *more[kind]]


def op(kind: str, batch: GraphBatch, include_self: bool = False) -> Callable[..., Tensor]:
    def run(x: Tensor, weight: Tensor | None, *term: Tensor) -> Tensor:
        made = {"none": lambda: None, "scalar": lambda: ScalarTerm(*term), "dense": lambda: term[0]}
        return aggregate(x, batch, weight, made[kind](), include_self)

    return run


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_sum_over_incoming_edges(
    kind: str, include_self: bool, mixed: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    x, weight, *term = inputs(kind, mixed, normal, 5)
    expected = x.double().numpy().copy() if include_self else np.zeros((mixed.num_nodes, 5))
    for e, (u, v) in enumerate(mixed.edge_index.T.tolist()):
        message = x[u].double().numpy()
        if kind == "scalar":
            attribute, slope, offset = (t.double().numpy() for t in term)
            message = np.maximum(message + attribute[e] * slope + offset, 0)
        elif kind == "dense":
            message = np.maximum(message + term[0][e].double().numpy(), 0)
        expected[v] += float(weight[e]) * message
    found = op(kind, mixed, include_self)(x, weight, *term)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(("h", "include_self"), [(1, True), (33, False), (33, True)])
@pytest.mark.parametrize("kind", KINDS)
def test_compiled_form_is_as_exact_as_the_plain_one(
    kind: str,
    h: int,
    include_self: bool,
    batch: GraphBatch,
    normal: Callable[..., Tensor],
    agree: Callable[..., None],
) -> None:
    agree(op(kind, batch, include_self), *inputs(kind, batch, normal, h))


@pytest.mark.parametrize("kind", KINDS)
def test_one_gradient_is_the_same_as_among_all(
    kind: str,
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    measured: Callable[..., list[Tensor]],
) -> None:
    """The gradient of one input by itself equals that of the same input among all."""
    given, run = inputs(kind, mixed, normal, 4), op(kind, mixed, include_self=True)
    everything = measured(run, *given)[1:]
    for place, expected in enumerate(everything):

        def on_one(leaf: Tensor, place: int = place) -> Tensor:
            return run(*(leaf if i == place else t for i, t in enumerate(given)))

        assert torch.equal(measured(on_one, given[place])[1], expected)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_the_plain_form(
    kind: str, small: GraphBatch, normal: Callable[..., Tensor]
) -> None:
    made = [t.double().requires_grad_() for t in inputs(kind, small, normal, 3)]
    x, _, *term = (t.detach() for t in made)
    if kind != "none":
        edge = term[0][:, None] * term[1] + term[2] if kind == "scalar" else term[0]
        assert (x[small.src] + edge).abs().min() > 1e-4  # finite differences stay off the kink
    assert torch.autograd.gradcheck(op(kind, small, include_self=True), made)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_no_weight_means_all_ones(
    engine: str,
    kind: str,
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    measured: Callable[..., list[Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    x, weight, *term = inputs(kind, mixed, normal, 4)
    run, ones = op(kind, mixed), torch.ones_like(weight)
    without = measured(lambda x, *term: run(x, None, *term), x, *term)
    given = measured(lambda x, *term: run(x, ones, *term), x, *term)
    assert all(torch.equal(a, b) for a, b in zip(without, given, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_strided_tensors(
    kind: str,
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    measured: Callable[..., list[Tensor]],
) -> None:
    def strided(t: Tensor) -> Tensor:
        return t.repeat_interleave(2, dim=0)[::2] if t.dim() == 1 else t.T.contiguous().T

    given = inputs(kind, mixed, normal, 4)
    expected = measured(op(kind, mixed), *given)
    found = measured(lambda *ts: op(kind, mixed)(*map(strided, ts)), *given)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    # The gradient of a sum is one number, expanded.
    leaves = [t.clone().requires_grad_() for t in given]
    op(kind, mixed)(*leaves).sum().backward()
    exact = [t.double().requires_grad_() for t in given]
    op(kind, mixed)(*exact).sum().backward()
    for ours, truth in zip(leaves, exact, strict=True):
        torch.testing.assert_close(ours.grad, truth.grad.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_left_alone(kind: str, mixed: GraphBatch, normal: Callable[..., Tensor]) -> None:
    leaves = [t.requires_grad_() for t in inputs(kind, mixed, normal, 4)]
    before = [t.detach().clone() for t in leaves]
    op(kind, mixed)(*leaves).square().sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(leaves, before, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_nan_is_not_hidden(kind: str, mixed: GraphBatch, normal: Callable[..., Tensor]) -> None:
    x, weight, *term = inputs(kind, mixed, normal, 4)
    x[mixed.src[0]] = torch.nan
    assert op(kind, mixed)(x, weight, *term)[mixed.dst[0]].isnan().all()


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_two_linear_layers_on_a_scalar_are_one_line(
    engine: str, normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", engine)
    torch.manual_seed(0)
    encoder, edge = nn.Linear(1, 6), nn.Linear(6, 6)
    parameters = [*encoder.parameters(), *edge.parameters()]
    attribute, along = normal(1, 20), normal(2, 20, 6)
    term = scalar_term(attribute, encoder, edge)
    ours = term.attribute[:, None] * term.slope + term.offset
    theirs = edge(encoder(attribute[:, None]))
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(
        torch.autograd.grad(ours, parameters, along),
        torch.autograd.grad(theirs, parameters, along),
        strict=True,
    ):
        torch.testing.assert_close(a, b)
