"""RBGV: more red or more blue, with a green and a violet node that say nothing."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import torch
from torch_geometric.utils import to_networkx

import gsat

COLOURS = ("red", "blue", "green", "violet")


def test_the_label_is_the_colour_of_which_there_are_more() -> None:
    data = gsat.load_dataset("rbgv", graphs=60)
    assert data.store.meta["node_types"] == list(COLOURS)
    labels, sizes = Counter(), set()
    for graph in data.store:
        assert torch.equal(graph.x.sum(dim=1), torch.ones(graph.num_nodes))
        counted = Counter(COLOURS[i] for i in graph.x.argmax(dim=1).tolist())
        assert counted["green"] == counted["violet"] == 1
        assert counted["red"] != counted["blue"]
        assert min(counted["red"], counted["blue"]) >= 1
        assert float(graph.y) == (counted["red"] > counted["blue"])
        labels[float(graph.y)] += 1
        sizes.add(graph.num_nodes - 2)
    assert labels == {0.0: 30, 1.0: 30}
    assert min(sizes) >= 12
    assert max(sizes) <= 20


def test_the_truth_is_the_edges_between_red_and_blue_nodes() -> None:
    for graph in gsat.load_dataset("rbgv", graphs=20).store:
        colour = graph.x.argmax(dim=1)
        for (u, v), true in zip(
            graph.edge_index.T.tolist(), graph.edge_truth.tolist(), strict=True
        ):
            assert bool(true) == (colour[u] <= 1 and colour[v] <= 1)
        assert torch.equal(graph.node_truth > 0, colour <= 1)
        # Three layers see all of it.
        assert nx.diameter(to_networkx(graph, to_undirected=True)) <= 4
