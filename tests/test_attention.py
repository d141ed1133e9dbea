"""The extractor, the samples, and the way from attention to a weight per edge."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import gsat
from gsat.attention import (
    Extractor,
    average_directions,
    edge_weights,
    in_context,
    lift,
    sample,
    strongest_edge,
)
from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import Draws
from reference import random_graph, random_graphs

DRAWS = Draws(0, "attention")


def logits(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def counted(batch: GraphBatch) -> Tensor:
    """[E], a different attention for every edge."""
    return torch.arange(batch.num_edges) / batch.num_edges


# -- from attention to weights -----------------------------------------------------------------


def test_both_directions_get_their_mean() -> None:
    batch = from_pyg(random_graphs(0)).batch()
    alpha = counted(batch)
    at = {(u, v): float(alpha[e]) for e, (u, v) in enumerate(batch.edge_index.T.tolist())}
    expected = [(at[u, v] + at[v, u]) / 2 for u, v in batch.edge_index.T.tolist()]
    actual = average_directions(alpha, batch)
    assert actual.tolist() == pytest.approx(expected)
    assert (actual != alpha).any()
    assert torch.equal(edge_weights(alpha, batch, "edge"), actual)
    exact = alpha.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda alpha: average_directions(alpha, batch), exact)


def test_self_loops_and_doubled_edges_are_averaged_too() -> None:
    index = torch.tensor([[0, 1, 1, 0, 2, 0, 1], [1, 0, 0, 1, 2, 2, 2]])
    index = torch.cat([index, torch.tensor([[2, 2], [0, 1]])], dim=1)
    batch = from_pyg([Data(edge_index=index, num_nodes=3)]).batch()
    assert batch.undirected.all()
    alpha = counted(batch)
    actual = average_directions(alpha, batch)
    assert actual.sum() == pytest.approx(float(alpha.sum()))
    loop = batch.src == batch.dst
    assert torch.equal(actual[loop], alpha[loop])
    for u, v in ((0, 1), (0, 2), (1, 2)):  # as a set: doubled edges pair by rank
        there, back = (batch.src == u) & (batch.dst == v), (batch.src == v) & (batch.dst == u)
        assert sorted(actual[there].tolist()) == pytest.approx(sorted(actual[back].tolist()))


def test_permuting_the_edges_permutes_the_weights() -> None:
    rng = np.random.default_rng(1)
    graphs = random_graphs(1)
    table = torch.from_numpy(rng.random((len(graphs), 20, 20)))
    weights = []
    orders = [torch.from_numpy(rng.permutation(g.edge_index.shape[1])) for g in graphs]
    permuted = [
        Data(x=g.x, edge_index=g.edge_index[:, order])
        for g, order in zip(graphs, orders, strict=True)
    ]
    for listed in (graphs, permuted):
        store = from_pyg(listed)
        batch = store.batch()
        first = batch.node_ptr[batch.edge_graph]
        alpha = table[batch.edge_graph, batch.src - first, batch.dst - first]
        ordered = store.caller_order(average_directions(alpha, batch).numpy())
        weights.append(np.split(ordered, np.cumsum([g.edge_index.shape[1] for g in listed])))
    for number, order in enumerate(orders):
        np.testing.assert_array_equal(weights[1][number], weights[0][number][order.numpy()])


def test_directed_graphs_keep_each_direction() -> None:
    batch = from_pyg(random_graphs(2, awkward=False, directed=True)).batch()
    assert not batch.undirected.any()
    alpha = counted(batch)
    assert torch.equal(average_directions(alpha, batch), alpha)


def test_a_mixed_batch_is_decided_graph_by_graph() -> None:
    directed = random_graphs(3, 3, awkward=False, directed=True)
    undirected = random_graphs(4, 3, awkward=False)
    store = from_pyg([g for pair in zip(directed, undirected, strict=True) for g in pair])
    batch = store.batch()
    assert batch.undirected.tolist() == [False, True] * 3
    alpha = counted(batch)
    actual = average_directions(alpha, batch)
    kept = batch.edge_graph % 2 == 0
    assert torch.equal(actual[kept], alpha[kept])
    for number in (1, 3, 5):
        alone = store.batch([number])
        mine = batch.edge_graph == number
        torch.testing.assert_close(actual[mine], average_directions(alpha[mine], alone))
        assert (actual[mine] != alpha[mine]).any()


@pytest.mark.parametrize("directed", [False, True])
def test_node_attention_is_lifted_to_edges(directed: bool) -> None:
    batch = from_pyg(random_graphs(5, directed=directed)).batch()
    alpha = torch.arange(1, batch.num_nodes + 1) / batch.num_nodes
    expected = [float(alpha[u] * alpha[v]) for u, v in batch.edge_index.T.tolist()]
    assert lift(alpha, batch).tolist() == pytest.approx(expected)
    assert torch.equal(edge_weights(alpha, batch, "node"), lift(alpha, batch))


# -- samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("how", ["concrete", "straight-through"])
def test_a_sample_is_above_one_half_with_probability_p(p: float, how: str) -> None:
    count = 100_000
    alpha = sample(
        torch.full((count,), math.log(p / (1 - p))), torch.arange(count), DRAWS, 1.0, how
    )
    sigma = math.sqrt(p * (1 - p) / count)
    assert abs(float((alpha > 0.5).double().mean()) - p) < 4 * sigma


def test_temperature_divides_logit_and_noise() -> None:
    given, rows = logits(0, 500), torch.arange(500)
    u = DRAWS.uniform(rows).double()
    noisy = given.double() + torch.log(u / (1 - u))
    for temperature in (0.2, 1.0, 3.0):
        expected = torch.sigmoid(noisy / temperature).float()
        torch.testing.assert_close(sample(given, rows, DRAWS, temperature), expected)
    assert torch.equal(sample(given, rows, DRAWS), sample(given, rows, DRAWS, 1.0))


def test_straight_through_is_binary_with_the_soft_gradient() -> None:
    rows = torch.arange(1000)
    soft_logits, hard_logits = (logits(2, 1000).requires_grad_() for _ in range(2))
    soft = sample(soft_logits, rows, DRAWS, 0.7, "concrete")
    hard = sample(hard_logits, rows, DRAWS, 0.7, "straight-through")
    assert set(hard.tolist()) == {0.0, 1.0}  # exactly
    assert torch.equal(hard > 0.5, soft > 0.5)
    along = logits(3, 1000)
    soft.backward(along)
    hard.backward(along)
    assert soft_logits.grad is not None
    assert hard_logits.grad is not None
    assert (soft_logits.grad != 0).all()
    assert torch.equal(hard_logits.grad, soft_logits.grad)


def test_no_sampling_gives_p() -> None:
    given = logits(4, 100)
    assert torch.equal(sample(given, torch.arange(100), DRAWS, 0.3, "none"), given.sigmoid())


@pytest.mark.parametrize("how", ["concrete", "straight-through", "none"])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_extreme_logits_stay_finite(how: str, temperature: float) -> None:
    given = torch.tensor([-100.0, 100.0, -1000.0, 1000.0, 0.0]).repeat(200).requires_grad_()
    alpha = sample(given, torch.arange(1000), DRAWS, temperature, how)
    assert alpha.isfinite().all()
    assert ((alpha >= 0) & (alpha <= 1)).all()
    alpha.sum().backward()
    assert given.grad is not None
    assert given.grad.isfinite().all()


def test_samples_follow_their_rows() -> None:
    given, rows = logits(5, 50), torch.arange(50) + (3 << 32)
    whole = sample(given, rows, DRAWS)
    assert torch.equal(sample(given.flip(0), rows.flip(0), DRAWS), whole.flip(0))
    assert torch.equal(sample(given[7:9], rows[7:9], DRAWS), whole[7:9])
    assert not torch.equal(sample(given, rows, DRAWS.child(1)), whole)
    assert sample(given.double(), rows, DRAWS).dtype == torch.float64


# -- the extractor -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hidden", "on", "count"),
    [
        (64, "edge", 49_537),
        (64, "node", 16_641),
        (80, "edge", 77_281),
        (80, "node", 25_921),
        (32, "edge", 12_481),
    ],
)
def test_extractor_parameters(hidden: int, on: str, count: int) -> None:
    assert sum(p.numel() for p in Extractor(hidden, on).parameters()) == count


@pytest.mark.parametrize("on", ["edge", "node"])
def test_a_graph_with_one_row_gets_the_last_bias(on: str) -> None:
    rng = np.random.default_rng(7)
    lone = random_graph(rng, 2, 1, directed=True) if on == "edge" else random_graph(rng, 1, 0)
    batch = from_pyg([random_graph(rng, 5, 4), lone]).batch()
    g = Extractor(8, on)
    actual = g(logits(7, batch.num_nodes, 8), batch)
    assert torch.equal(actual[-1:], g.last.bias)
    assert (actual[:-1] != g.last.bias).all()


def test_context_is_the_mean_of_the_neighbours() -> None:
    graph = nx.path_graph(4)
    graph.add_node(4)  # without neighbours
    index = torch.tensor([*graph.edges, *((v, u) for u, v in graph.edges)]).T
    batch = from_pyg([Data(x=torch.ones(5, 1), edge_index=index)]).batch()
    score = torch.tensor([0.1, 0.9, 0.3, 0.5, 0.7])
    expected = [
        (
            float(score[v])
            + 0.5 * float(np.mean([float(score[u]) for u in graph[v]] or [float(score[v])]))
        )
        / 1.5
        for v in graph
    ]
    torch.testing.assert_close(in_context(score, batch, 0.5, "node"), torch.tensor(expected))


def test_context_changes_explanations_and_no_prediction() -> None:
    data = gsat.load_dataset("ba2motifs", graphs=20)
    plain, wide = (
        gsat.GSAT(gsat.GIN.for_data(data, hidden=8), "node", context=context).eval()
        for context in (None, 0.5)
    )
    batch = data.test.batch()
    own, other = plain(batch), wide(batch)
    assert torch.equal(own.logits, other.logits)
    torch.testing.assert_close(other.probability, in_context(own.probability, batch, 0.5, "node"))
    torch.testing.assert_close(other.edge_weight, edge_weights(other.probability, batch, "node"))
    assert gsat.GSAT.from_config(wide.config).options.context == 0.5
    for outside in (-0.5, 1.5):
        with pytest.raises(GSATError, match="context"):
            gsat.GSAT(gsat.GIN.for_data(data, hidden=8), context=outside)


def test_context_of_an_edge_is_the_mean_at_its_ends() -> None:
    graph = nx.path_graph(4)
    index = torch.tensor([*graph.edges, *((v, u) for u, v in graph.edges)]).T
    batch = from_pyg([Data(x=torch.ones(4, 1), edge_index=index)]).batch()
    of_edge = {
        frozenset(edge): value for edge, value in zip(graph.edges, (0.2, 0.8, 0.5), strict=True)
    }
    pairs = [frozenset(pair) for pair in batch.edge_index.T.tolist()]
    score = torch.tensor([of_edge[pair] for pair in pairs])
    at = {v: np.mean([of_edge[frozenset(edge)] for edge in graph.edges(v)]) for v in graph}
    expected = [(of_edge[pair] + 0.5 * np.mean([at[v] for v in pair])) / 1.5 for pair in pairs]
    actual = in_context(score, batch, 0.5, "edge")
    assert actual.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("directed", [False, True])
def test_the_strongest_edge_of_each_node(directed: bool) -> None:
    batch = from_pyg(random_graphs(3, directed=directed)).batch()
    weight = logits(4, batch.num_edges).sigmoid().requires_grad_()
    ends = list(zip(batch.src.tolist(), batch.dst.tolist(), strict=True))
    if not directed:  # as edge weights are
        weight = average_directions(weight, batch).detach().requires_grad_()
    expected = [
        max((float(weight.detach()[e]) for e, pair in enumerate(ends) if v in pair), default=1.0)
        for v in range(batch.num_nodes)
    ]
    actual = strongest_edge(weight, batch)
    torch.testing.assert_close(actual, torch.tensor(expected))
    actual.sum().backward()
    assert weight.grad is not None
    assert float(weight.grad.sum()) == pytest.approx(
        sum(1 for v in range(batch.num_nodes) if any(v in pair for pair in ends))
    )


@pytest.mark.parametrize("draws", [None, DRAWS])
@pytest.mark.parametrize("on", ["edge", "node"])
@pytest.mark.parametrize("norm", ["row", "none"])
def test_an_extractor_of_rows_is_a_network_of_linear_layers(
    on: str, norm: str, draws: Draws | None
) -> None:
    batch = from_pyg(random_graphs(5)).batch()
    network = Extractor(8, on, norm=norm)
    h = logits(6, batch.num_nodes, 8)
    x = torch.cat([h[batch.src], h[batch.dst]], dim=1) if on == "edge" else h
    for number, layer in enumerate((network.first, network.second)):
        z = layer(x)
        x = torch.relu(
            nn.LayerNorm(z.shape[1], elementwise_affine=False)(z) if norm == "row" else z
        )
        if draws:
            rows = batch.edge_id if on == "edge" else batch.node_id
            x = 2 * x * draws.child(number).keep(rows, z.shape[1], 0.5)
    actual = network(h, batch, draws)
    torch.testing.assert_close(actual, network.last(x)[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", ["row", "none"])
def test_rows_are_scored_independently(norm: str) -> None:
    """Other nodes cannot change the attention of a node but through its embedding."""
    batch = from_pyg(random_graphs(7)).batch()
    h, changed = logits(8, batch.num_nodes, 8), logits(9, batch.num_nodes, 8)
    changed[0] = h[0]
    of_row, of_graph = Extractor(8, "node", norm=norm), Extractor(8, "node")
    assert of_row(h, batch)[0] == of_row(changed, batch)[0]
    assert of_graph(h, batch)[0] != of_graph(changed, batch)[0]
