"""BA-Shapes, Tree-Cycles and Motif-Count, against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from networkx.algorithms.isomorphism import GraphMatcher
from torch_geometric.data import Data

import gsat
from gsat.core.errors import DataError
from gsat.datasets.sources._motifs import barabasi_albert


def undirected(data: Data) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(range(int(data.num_nodes or 0)))
    graph.add_edges_from(data.edge_index.T.tolist())
    return graph


def true_edges(data: Data) -> nx.Graph:
    return nx.Graph(data.edge_index[:, data.edge_truth > 0].T.tolist())


def test_ba_shapes() -> None:
    data = gsat.load_dataset("ba-shapes", seed=3)
    whole = data.store[0]
    graph, houses = undirected(whole), true_edges(whole)
    assert graph.number_of_nodes() == 300 + 80 * 5
    base = nx.barabasi_albert_graph(300, 5, seed=0).number_of_edges()
    assert graph.number_of_edges() == base + 80 * (6 + 1) + 70
    pieces = list(nx.connected_components(houses))
    assert len(pieces) == 80
    places = {1: "middle", 2: "bottom", 3: "roof"}
    template = nx.house_graph()  # 0, 1 the floor; 2, 3 the walls' ends; 4 the roof
    nx.set_node_attributes(template, {0: 2, 1: 2, 2: 1, 3: 1, 4: 3}, "place")
    for node in houses.nodes:
        houses.nodes[node]["place"] = int(whole.node_y[node])
    for piece in pieces:
        same = GraphMatcher(
            houses.subgraph(piece), template, node_match=lambda a, b: a["place"] == b["place"]
        )
        assert same.is_isomorphic()
    names = data.store.meta["classes"]
    assert {i: names[i] for i in places} == places
    assert whole.node_y.bincount().tolist() == [300, 160, 160, 80]
    assert ((whole.node_y > 0) == (whole.node_truth > 0)).all()
    assert nx.is_connected(graph)
    assert (whole.x == 1).all()


def test_tree_cycles() -> None:
    data = gsat.load_dataset("tree-cycles")
    whole = data.store[0]
    graph, cycles = undirected(whole), true_edges(whole)
    tree = graph.subgraph(range(511))
    assert nx.is_isomorphic(tree, nx.balanced_tree(2, 8))
    assert graph.number_of_edges() == 510 + 80 * (6 + 1)
    rings = [cycles.subgraph(piece) for piece in nx.connected_components(cycles)]
    assert len(rings) == 80
    assert all(nx.is_isomorphic(ring, nx.cycle_graph(6)) for ring in rings)
    assert len(nx.cycle_basis(graph)) == 80  # nothing else goes round
    assert whole.node_y.tolist() == [0] * 511 + [1] * 480


def test_the_base_grows_as_in_networkx() -> None:
    ours = nx.Graph(barabasi_albert(np.random.RandomState(0), 300, 5))
    theirs = nx.barabasi_albert_graph(300, 5, seed=0)
    assert ours.number_of_edges() == theirs.number_of_edges()
    assert min(d for _, d in ours.degree) == min(d for _, d in theirs.degree)
    # Preferential attachment: the largest degrees are far above those of a random graph.
    largest = [
        max(d for _, d in nx.Graph(barabasi_albert(np.random.RandomState(s), 300, 5)).degree)
        for s in range(10)
    ]
    expected = [
        max(d for _, d in nx.barabasi_albert_graph(300, 5, seed=s).degree) for s in range(10)
    ]
    assert np.mean(largest) == pytest.approx(np.mean(expected), rel=0.2)


@pytest.mark.parametrize("name", ["ba-shapes", "tree-cycles"])
def test_nodes_are_split(name: str) -> None:
    parts = [gsat.load_dataset(name, seed=seed, motifs=20) for seed in (0, 0, 1)]
    nodes = parts[0].store.num_nodes
    rows = [part.splits["train"].tolist() for part in parts]
    assert rows[0] == rows[1] != rows[2]
    together = np.concatenate([parts[0].splits[split] for split in ("train", "valid", "test")])
    assert sorted(together.tolist()) == list(range(nodes))
    assert parts[0].train.count("node") == int(0.8 * nodes)
    assert parts[0].valid.num_nodes == nodes  # messages flow through the whole graph
    assert gsat.load_dataset(name, data_seed=1, motifs=20).hash != parts[0].hash
    with pytest.raises(DataError, match=r"'motifs': .*, not 0"):
        gsat.load_dataset(name, motifs=0)


@pytest.mark.parametrize("level", ["graph", "node"])
def test_motif_count_counts_houses(level: str) -> None:
    data = gsat.load_dataset("motif-count", graphs=40, level=level)
    assert data.task.level == level
    seen, counts = set(), set()
    for whole in data.store:
        graph, houses = undirected(whole), true_edges(whole)
        count = sum(nx.triangles(graph).values()) // 3  # nothing but a house has a triangle
        assert nx.number_connected_components(houses) == count
        assert nx.is_connected(graph)
        counts.add(count)
        if level == "graph":
            rings = [len(ring) for ring in nx.minimum_cycle_basis(graph)]
            assert rings.count(3) == rings.count(4) == count
            seen.add((count, rings.count(5)))
            assert whole.y.tolist() == [[count]]
            continue
        for node in graph:
            touched = {
                frozenset(nx.node_connected_component(houses, other))
                for other in (node, *graph[node])
                if other in houses and (node in houses or graph.has_edge(node, other))
            }
            own = {piece for piece in touched if node in piece}
            expected = len(own) if node in houses else len(touched)
            assert float(whole.node_y[node, 0]) == expected
    assert len(seen) > 10 or level == "node"
    assert counts == {0, 1, 2, 3, 4}


def test_motif_count_splits_graphs_not_nodes() -> None:
    nodes = gsat.load_dataset("motif-count", graphs=40, level="node", seed=2)
    graphs = gsat.load_dataset("motif-count", graphs=40, seed=2)
    for split in ("train", "valid", "test"):
        assert sorted(nodes.split(split).index) == sorted(graphs.split(split).index)
        assert nodes.split(split).count("node") == graphs.split(split).num_nodes
