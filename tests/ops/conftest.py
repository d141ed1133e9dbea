"""Batches of awkward graphs."""

from __future__ import annotations

import numpy as np
import pytest

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
