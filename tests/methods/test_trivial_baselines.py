"""Trivial baselines: random edge scores and scores by degree, computed edge by edge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gsat
from gsat.graphs import from_pyg
from gsat.methods.degree import DegreeScores
from gsat.methods.random import RandomScores
from gsat.ops import Draws
from gsat.tasks import Task
from gsat.training.recipe import make_recipe

TASK = Task("binary")


def graphs(undirected: bool) -> list[Data]:
    """Random graphs of 3 to 9 nodes, one without edges."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(6):
        nodes = int(rng.integers(3, 10))
        pairs = {tuple(sorted(p)) for p in rng.integers(0, nodes, (12, 2)).tolist() if p[0] != p[1]}
        edges = np.array(sorted(pairs) if number else [], dtype=np.int64).reshape(-1, 2)
        if undirected:
            edges = np.concatenate([edges, edges[:, ::-1]])
        edges = torch.from_numpy(edges[rng.permutation(len(edges))].T.copy())
        made.append(Data(x=torch.ones(nodes, 2), edge_index=edges))
    return made


@pytest.fixture
def gin() -> gsat.GIN:
    return gsat.GIN(2, TASK, hidden=4, layers=1)


@pytest.mark.parametrize("undirected", [True, False])
def test_degrees_by_hand(undirected: bool, gin: gsat.GIN) -> None:
    given = graphs(undirected)
    for graph, explained in zip(given, DegreeScores(gin).explain(given), strict=True):
        edges = graph.edge_index.T.tolist()
        degree = [sum(node in edge for edge in edges) for node in range(graph.num_nodes)]
        sums = [degree[u] + degree[v] for u, v in edges]
        expected = torch.tensor([s / max(sums) for s in sums])
        torch.testing.assert_close(explained.edge_mask, expected)


@pytest.mark.parametrize("undirected", [True, False])
def test_random_scores_are_a_function_of_seed_graph_and_edge(
    undirected: bool, gin: gsat.GIN
) -> None:
    store = from_pyg(graphs(undirected))
    model = RandomScores(gin, seed=3).eval()
    batch = store.batch()
    scores = model(batch).edge_weight
    draws = Draws(3, "random scores")
    for edge in range(batch.num_edges):
        # The two directions share one score, that of the edge which comes first.
        first = min(edge, int(batch.pair[edge]))
        assert scores[edge] == draws.uniform(batch.edge_id[first : first + 1])[0]
        assert scores[edge] == scores[batch.pair[edge]]
    assert ((scores > 0) & (scores < 1)).all()
    kinds = batch.num_edges // 2 if undirected else batch.num_edges
    assert len(scores.unique()) == kinds
    # Whatever the batch.
    for row in range(len(store)):
        alone = store.batch(np.array([row]))
        mine = scores[batch.edge_graph == row]
        assert torch.equal(model(alone).edge_weight, mine)
    assert not torch.equal(RandomScores(gin, seed=4)(batch).edge_weight, scores)


@pytest.mark.parametrize("method", ["random", "degree"])
def test_the_backbone_is_erms_and_edges_are_scored(method: str) -> None:
    settings = {"graphs": 60, "epochs": 3, "hidden": 8, "batch_size": 32, "plateau": 1}
    ours, erm = (
        gsat.train(make_recipe("ba2motifs", method=name, settings=settings))
        for name in (method, "erm")
    )
    assert ours.test["accuracy"] == erm.test["accuracy"]
    for name, tensor in erm.model.state_dict().items():
        assert torch.equal(ours.model.state_dict()[name], tensor)
    assert erm.test["explanation_auc"] is None
    assert 0 < ours.test["explanation_auc"] < 1
