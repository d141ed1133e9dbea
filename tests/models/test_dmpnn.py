"""The directed message passing network, against its definition edge by edge."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import gsat
from gsat.graphs import GraphBatch, from_pyg
from gsat.models import DMPNN
from gsat.molecules import featurise
from gsat.molecules.featuriser import ATOM_FEATURES, BOND_FEATURES
from gsat.tasks import Task
from reference import random_graphs

NUMBER = Task("regression", metric="rmse")


def make(edge_features: int = 0, **settings: float) -> DMPNN:
    return DMPNN(4, NUMBER, edge_features=edge_features, **{"hidden": 6, **settings}).double()


def batch_of(edge_features: int, directed: bool) -> GraphBatch:
    return from_pyg(random_graphs(3, edge_features=edge_features, directed=directed)).batch()


def edge_by_edge(net: DMPNN, batch: GraphBatch, weight: Tensor) -> Tensor:
    """The network as its docstring defines it, one edge after the other."""
    x = net.encoder(batch.x.double())
    edges = list(zip(batch.src.tolist(), batch.dst.tolist(), strict=True))
    start = [x[u] for u, _ in edges]
    if net.edge_encoder is not None:
        start = [
            c + net.edge_encoder(b.double()) for c, b in zip(start, batch.edge_attr, strict=True)
        ]
    state = [torch.relu(c) for c in start]
    for _ in range(net.rounds - 1):
        new = []
        for (u, v), c in zip(edges, start, strict=True):
            total = torch.zeros(net.hidden, dtype=torch.float64)
            for k, (s, t) in enumerate(edges):
                if t == u and s != v:
                    total = total + weight[k] * state[k]
            new.append(torch.relu(c + net.pass_on(total)))
        state = new
    rows = []
    for v in range(batch.num_nodes):
        total = torch.zeros(net.hidden, dtype=torch.float64)
        for k, (_, t) in enumerate(edges):
            if t == v:
                total = total + weight[k] * state[k]
        rows.append(torch.relu(net.arrive(torch.cat([x[v], total]))))
    nodes = torch.stack(rows)
    parts = [nodes[batch.node_graph == g].sum(dim=0) / net.divisor for g in range(batch.num_graphs)]
    return net.head(torch.stack(parts))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("edge_features", [0, 3])
def test_embeddings_follow_the_definition(edge_features: int, directed: bool) -> None:
    net, batch = make(edge_features), batch_of(edge_features, directed)
    both = {(int(u), int(v)) for u, v in batch.edge_index.T}
    if directed:  # no edge may have its reverse, or the definition leaves that out, too
        keep = [(v, u) not in both for u, v in both]
        assert any(keep)
        weight = torch.tensor(
            [float((int(v), int(u)) not in both) for u, v in batch.edge_index.T],
            dtype=torch.float64,
        )
    else:
        weight = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(1)).double()
    weight = weight.requires_grad_()
    actual, expected = net(batch, weight), edge_by_edge(net, batch, weight)
    torch.testing.assert_close(actual, expected)
    inputs = [weight, *net.parameters()]
    for a, b in zip(
        torch.autograd.grad(actual.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_molecules_without_bonds() -> None:
    store = featurise(["C", "CC", "[Na+].[Cl-]"])
    net = DMPNN(
        10, NUMBER, edge_features=len(BOND_FEATURES), categories=list(ATOM_FEATURES.values())
    ).eval()
    together = net(store.batch())
    alone = torch.cat([net(store.batch([row])) for row in range(3)])
    torch.testing.assert_close(together, alone)


def test_it_is_the_network_of_molecules() -> None:
    assert gsat.make_recipe("mols.csv").backbone.name == "dmpnn"
    assert gsat.make_recipe("ibench-n").backbone.name == "dmpnn"
    assert gsat.make_recipe("mols.csv", backbone="gin").backbone.name == "gin"
    assert gsat.make_recipe("ba2motifs").backbone.name == "gin"
