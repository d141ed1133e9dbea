"""Batches of awkward graphs, and the measure of agreement between the forms of an op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from gsat.graphs import GraphBatch, from_pyg
from reference import random_graph, random_graphs

RNG = np.random.default_rng(0)
BATCHES: dict[str, GraphBatch] = {
    "mixed": from_pyg([*random_graphs(1, 12), *random_graphs(2, 12, directed=True)]).batch(),
    "one edge": from_pyg([random_graph(RNG, 2, 1, directed=True)]).batch(),
    "one node": from_pyg([random_graph(RNG, 1, 0)]).batch(),
    "no edge": from_pyg([random_graph(RNG, 4, 0)]).batch(),
    "no node": from_pyg([random_graph(RNG, 0, 0)]).batch(),
    "no graph": from_pyg([random_graph(RNG, 3, 2)]).batch([]),
}


@pytest.fixture(params=BATCHES)
def batch(request: pytest.FixtureRequest) -> GraphBatch:
    """Many graphs of every kind, or one (or no) graph of one awkward kind."""
    return BATCHES[request.param]


@pytest.fixture
def mixed() -> GraphBatch:
    """Many graphs of every kind."""
    return BATCHES["mixed"]


@pytest.fixture(scope="session")
def small() -> GraphBatch:
    """A few small graphs for finite differences.

    None has a single node: normalised, it would lie on the kink of the ReLU.
    """
    return from_pyg([graph for graph in random_graphs(3, 2) if graph.num_nodes != 1]).batch()


@pytest.fixture(scope="session")
def large() -> GraphBatch:
    """More rows than kernels process together, in several blocks."""
    store = from_pyg(random_graphs(11, 30))
    return store.batch([i % len(store) for i in range(900)])


@pytest.fixture(params=["numba", "torch"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with each form of the ops."""
    monkeypatch.setenv("GSAT_OPS", request.param)
    return request.param


def with_gradients(op: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    """The value of ``op(*inputs)``, and the gradient to each input for a random one of it."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    value = op(*leaves)
    along = torch.randn(value.shape, generator=torch.Generator().manual_seed(9)).to(value.dtype)
    return [value.detach(), *torch.autograd.grad(value, leaves, along)]


@pytest.fixture
def measured() -> Callable[..., list[Tensor]]:
    """:func:`with_gradients`."""
    return with_gradients


@pytest.fixture
def agree(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``agree(op, *inputs)``: the compiled form is about as exact as the plain one in float32.

    Against the plain form in float64, and for the value and each gradient, the norm of its error
    is at most four times the plain form's. By luck that may be next to 0 on a few numbers, so a few
    roundings are added: of numbers of size 1, or of sums where a vector is one.
    """

    def check(op: Callable[..., Tensor], *inputs: Tensor) -> None:
        assert all(tensor.dtype == torch.float32 for tensor in inputs)
        exact = with_gradients(op, *(tensor.double() for tensor in inputs))
        monkeypatch.setenv("GSAT_OPS", "torch")
        plain = with_gradients(op, *inputs)
        monkeypatch.setenv("GSAT_OPS", "numba")
        fast = with_gradients(op, *inputs)
        for number, (ours, theirs, truth) in enumerate(zip(fast, plain, exact, strict=True)):
            what = f"gradient {number - 1}" if number else "value"
            assert ours.shape == truth.shape, what
            assert ours.dtype == torch.float32, what
            error, usual = (ours - truth).norm(), (theirs - truth).norm()
            rounding = 2e-6 if ours.dim() > 1 else 1e-5 + 1e-6 * truth.norm()
            assert error <= 4 * usual + rounding, f"{what}: {error:.2e}, {usual:.2e}"

    return check
