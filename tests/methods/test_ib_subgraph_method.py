"""IB-subgraph against dense matrices and loops over graphs (check 19 of the spec)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from planted import one_kind_comes_first, planted
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import Adam
from torch_geometric.utils import to_dense_adj

import gsat
from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, from_pyg
from gsat.methods import Context, TrainingSettings
from gsat.methods.ib_subgraph import (
    IBSubgraph,
    IBSubgraphMethod,
    IBSubgraphSettings,
    connectivity,
    pooled_adjacency,
)
from gsat.ops import Draws
from gsat.tasks import Task
from gsat.training.loop import Loop
from gsat.training.recipe import make_recipe
from reference import random_graphs


def labelled(seed: int, **how: Any) -> GraphBatch:
    graphs = random_graphs(seed, 6, **how)
    draw = torch.Generator().manual_seed(seed)
    for graph in graphs:
        graph.y = torch.randint(2, (1, 1), generator=draw).float()
    return from_pyg(graphs).batch()


@pytest.fixture
def made() -> Callable[..., IBSubgraphMethod]:
    """``made(**settings)``: a small IB-subgraph, ready to train, with dropout off."""

    def make(**settings: Any) -> IBSubgraphMethod:
        backbone = gsat.GIN(4, Task("binary"), hidden=6, dropout=0.0, seed=1)
        training = TrainingSettings(lr=0.01)
        method = IBSubgraphMethod.create(backbone, IBSubgraphSettings(**settings), training, seed=1)
        method.begin("train")
        return method

    return make


def context(step: int = 0) -> Context:
    return Context("train", 0, Draws(3), step, 4)


def dense(batch: GraphBatch, graph: int) -> tuple[Tensor, Tensor]:
    """The nodes of a graph and its dense adjacency."""
    nodes = (batch.node_graph == graph).nonzero()[:, 0]
    index = batch.edge_index[:, batch.edge_graph == graph]
    first = int(nodes[0]) if len(nodes) else 0
    return nodes, to_dense_adj(index - first, max_num_nodes=max(len(nodes), 1))[0]


# -- connectivity ----------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
def test_pooled_adjacency_is_the_dense_product(directed: bool) -> None:
    batch = labelled(1, directed=directed)
    draw = torch.Generator().manual_seed(1)
    s = torch.rand(batch.num_nodes, 2, generator=draw).softmax(dim=1)
    actual = pooled_adjacency(s, batch)
    missing = []
    for graph in range(batch.num_graphs):
        nodes, adjacency = dense(batch, graph)
        own = s[nodes] if len(nodes) else torch.zeros(1, 2)
        pooled = own.T @ adjacency @ own
        torch.testing.assert_close(actual[graph], pooled)
        rows = pooled / pooled.sum(dim=1, keepdim=True).clamp(min=1e-12)
        missing.append((rows.diagonal() - 1).square().mean())
    torch.testing.assert_close(connectivity(s, batch), torch.stack(missing).mean())


# -- a step ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph_embedding", ["mean", "sum"])
def test_a_step_is_the_inner_loop_and_then_one_step_against_it(
    graph_embedding: str, made: Callable[..., IBSubgraphMethod]
) -> None:
    settings = {"inner_steps": 12, "mi_weight": 0.7, "graph_embedding": graph_embedding}
    method, batch = made(**settings), labelled(4)
    model, t = copy.deepcopy(method.model), copy.deepcopy(method.estimator)
    outer = Adam(model.parameters(), 0.01)
    inner = Adam(t.parameters(), 1e-3, weight_decay=5e-5)
    for step in range(2):
        actual = method.step(batch, context(step))
        orders = method._orders(batch.num_graphs, Draws(3).child("shuffle", step))
        assert orders.sort(dim=1).values.unique(dim=0).tolist() == [list(range(batch.num_graphs))]
        assert len(orders.unique(dim=0)) == 13
        x = model.backbone.embed(batch)
        s = model.assignment(x).softmax(dim=1)
        graphs, subgraphs = [], []
        for number in range(batch.num_graphs):
            nodes, _ = dense(batch, number)
            both = s[nodes].T @ x[nodes]
            scale = max(len(nodes), 1) if graph_embedding == "mean" else 2
            graphs.append(both.sum(dim=0) / scale)
            subgraphs.append(both[0])
        e, p = torch.stack(graphs), torch.stack(subgraphs)

        def estimate(e: Tensor, p: Tensor, order: Tensor) -> Tensor:
            shuffled = t(e[order], p)
            return t(e, p).mean() - shuffled.exp().mean().log()

        for order in orders[1:]:
            inner.zero_grad()
            (-estimate(e.detach(), p.detach(), order)).backward()
            inner.step()
        assert batch.y is not None
        loss = binary_cross_entropy_with_logits(model.backbone.head(p), batch.y)
        mi, cut = estimate(e, p, orders[0]), connectivity(s, batch)
        expected = {
            "loss": loss, "information": mi, "connectivity": cut,
            "total": loss + 0.7 * mi + 5 * cut,
        }  # fmt: skip
        assert actual.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(actual[name], value, rtol=1e-3, atol=1e-4)
        outer.zero_grad()
        expected["total"].backward()
        outer.step()
    for ours, theirs in zip(method.estimator.parameters(), t.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    for ours, theirs in zip(method.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=2e-3)


# -- the authors' definition -----------------------------------------------------------------------


def exact(batch: GraphBatch) -> GraphBatch:
    return replace(batch, x=batch.x.double())


class Authors:
    """IB-subgraph from its definition, graph by graph, on the weights of one of ours."""

    def __init__(self, method: IBSubgraphMethod) -> None:
        model = copy.deepcopy(method.model)
        self.backbone, self.assignment = model.backbone, model.assignment
        first = nn.Linear(12, 3).double()
        last = nn.Linear(3, 1).double()
        nn.init.constant_(first.weight, 0.01)
        nn.init.constant_(last.weight, 0.01)
        with torch.no_grad():
            first.bias.copy_(method.estimator.first.bias)
        self.estimator = nn.Sequential(first, nn.ReLU(), last)
        self.optimiser = Adam([*self.backbone.parameters(), *self.assignment.parameters()], 0.01)

    def estimate(self, e: Tensor, p: Tensor, order: Tensor) -> Tensor:
        joint = self.estimator(torch.cat([e, p], dim=1))
        shuffled = self.estimator(torch.cat([e[order], p], dim=1))
        return joint.mean() - shuffled.exp().mean().log()

    def step(self, batch: GraphBatch, orders: Tensor) -> dict[str, Tensor]:
        x = self.backbone.embed(batch)
        graphs, subgraphs, penalties = [], [], []
        for number in range(batch.num_graphs):
            nodes, adjacency = dense(batch, number)
            s = self.assignment(x[nodes]).softmax(dim=1)
            rows = s.T @ x[nodes]  # [2, h]: the subgraph and the rest
            pooled = s.T @ adjacency.double() @ s
            pooled = pooled / pooled.sum(dim=1, keepdim=True).clamp(min=1e-12)
            subgraphs.append(rows[0].clamp(-100, 100))
            graphs.append(rows.mean(dim=0))
            penalties.append(F.mse_loss(pooled.diagonal(), torch.ones(2).double()))
        e, p = torch.stack(graphs), torch.stack(subgraphs)
        for order in orders[1:]:
            inner = Adam(self.estimator.parameters(), 1e-3, weight_decay=5e-5)
            inner.zero_grad()
            (-self.estimate(e, p, order)).backward(retain_graph=True)
            inner.step()
        information = self.estimate(e, p, orders[0])
        assert batch.y is not None
        answers = self.backbone.head(torch.cat([e, p]))
        loss = F.binary_cross_entropy_with_logits(answers, torch.cat([batch.y, batch.y]).double())
        penalty = sum(penalties) / len(penalties)
        total = loss + 5 * penalty + 0.2 * information
        self.optimiser.zero_grad()
        total.backward()
        self.optimiser.step()
        return {"loss": loss, "information": information, "connectivity": penalty, "total": total}


def test_steps_are_those_of_the_authors_definition(
    made: Callable[..., IBSubgraphMethod],
) -> None:
    """Losses, gradients and weights in double precision; all graphs have nodes and edges."""
    recipe = make_recipe("ba2motifs", method="ib-subgraph").settings
    method = made(**{**recipe.model_dump(), "mi_weight": 0.2, "inner_steps": 15})
    method.model.double(), method.estimator.double()
    method.begin("train")
    batch, authors = exact(labelled(4, awkward=False)), Authors(method)
    for step in range(3):
        orders = method._orders(batch.num_graphs, Draws(3).child("shuffle", step))
        expected = authors.step(batch, orders)
        actual = method.step(batch, context(step))
        for name, value in expected.items():
            torch.testing.assert_close(actual[name], value, rtol=1e-10, atol=1e-12)
        pairs = [
            (method.model.backbone, authors.backbone),
            (method.model.assignment, authors.assignment),
        ]
        for ours, theirs in pairs:
            for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-8, atol=1e-11)
                torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)
        own = list(authors.estimator.parameters())[:3]  # without the last bias, which cancels
        for one, other in zip(method.estimator.parameters(), own, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def test_scores_are_products_of_assignments_and_embeddings_are_clamped(
    made: Callable[..., IBSubgraphMethod],
) -> None:
    model, batch = made().model.eval(), labelled(5)
    output = model(batch)
    s = model.assign(batch).assignment[:, 0].detach()
    expected = [float(s[u] * s[v]) for u, v in batch.edge_index.T.tolist()]
    torch.testing.assert_close(output.edge_weight, torch.tensor(expected))
    torch.testing.assert_close(output.probability, s)
    with torch.no_grad():
        model.backbone.layers[-1].outer.bias.add_(1e4)
    assert float(model.assign(batch).subgraph.detach().max()) == 100


def test_labels_of_nodes_are_refused() -> None:
    with pytest.raises(GSATError, match="labels of graphs"):
        IBSubgraph(gsat.GIN(4, Task("multiclass", 3, level="node")))


# -- runs ------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_planted_edge_comes_first() -> None:
    data = planted()
    backbone = gsat.GIN.for_data(data, hidden=16, layers=1, dropout=0.0)
    training = TrainingSettings(epochs=40, batch_size=40, lr=0.01)
    method = IBSubgraphMethod.create(backbone, IBSubgraphSettings(), training, seed=0)
    result = Loop(method, data, batch_size=40, seed=0).train()
    assert result["test"]["accuracy"] == 1
    assert one_kind_comes_first(method.model, data)
