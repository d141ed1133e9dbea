"""Places of nodes: apart, the same every time, parts side by side."""

from __future__ import annotations

import time

import networkx as nx
import numpy as np
import pytest

from gsat.draw.layout import _crossings, layout


def edges_of(graph: nx.Graph) -> np.ndarray:
    return np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)


def nearest(at: np.ndarray) -> float:
    apart = np.linalg.norm(at[:, None] - at[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    return float(apart.min())


GRAPHS = {
    "path": nx.path_graph(7),
    "star": nx.star_graph(9),
    "cycle": nx.cycle_graph(6),
    "complete": nx.complete_graph(6),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5)),
    "tree": nx.balanced_tree(2, 4),
    "parts": nx.disjoint_union_all([nx.cycle_graph(5), nx.path_graph(2), nx.empty_graph(4)]),
    "no edges": nx.empty_graph(7),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_nodes_stand_apart_and_edges_are_about_one_long(name):
    graph = GRAPHS[name]
    at = layout(graph.number_of_nodes(), edges_of(graph))
    assert at.shape == (graph.number_of_nodes(), 2)
    assert np.isfinite(at).all()
    assert at.min() >= 0
    assert nearest(at) > 0.4
    ends = edges_of(graph)
    if len(ends):
        lengths = np.linalg.norm(at[ends[:, 0]] - at[ends[:, 1]], axis=1)
        assert np.median(lengths) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_same_graph_gets_the_same_places(name):
    graph = GRAPHS[name]
    first = layout(graph.number_of_nodes(), edges_of(graph))
    np.random.seed(1)  # the global generator plays no part
    np.testing.assert_array_equal(first, layout(graph.number_of_nodes(), edges_of(graph)))


@pytest.mark.parametrize("name", ["path", "star", "cycle", "grid", "tree"])
def test_planar_graphs_are_drawn_without_crossings(name):
    ends = edges_of(GRAPHS[name])
    assert len(_crossings(layout(GRAPHS[name].number_of_nodes(), ends), ends)) == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_motif_on_a_random_tree_is_not_folded(seed):
    graph = nx.barabasi_albert_graph(20, 1, seed=seed)
    house = [(20, 21), (21, 22), (22, 23), (23, 20), (20, 24), (21, 24)]
    graph.add_edges_from([*house, (seed, 22)])
    ends = edges_of(graph)
    assert len(_crossings(layout(25, ends), ends)) == 0


def test_crossings_are_counted():
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], dtype=float)
    assert len(_crossings(square, np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))) == 0
    assert _crossings(square, np.array([[0, 2], [1, 3]])).tolist() == [[0, 1]]
    assert len(_crossings(square, np.array([[0, 2], [2, 3]]))) == 0


def test_direction_duplicates_and_loops_make_no_difference():
    plain = layout(4, np.array([[0, 1], [1, 2], [2, 3]]))
    messy = layout(4, np.array([[1, 0], [0, 1], [1, 2], [2, 3], [2, 2]]))
    np.testing.assert_allclose(plain, messy, atol=1e-3)


def test_parts_do_not_overlap():
    graph = nx.disjoint_union_all([nx.cycle_graph(8), nx.star_graph(5), nx.path_graph(3)])
    graph.add_nodes_from(range(17, 23))
    at = layout(23, edges_of(graph))
    boxes = [at[sorted(part)] for part in nx.connected_components(graph)]
    for i, first in enumerate(boxes):
        for second in boxes[:i]:
            gap = np.maximum(
                first.min(axis=0) - second.max(axis=0), second.min(axis=0) - first.max(axis=0)
            )
            assert gap.max() > 0.9


@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_tiny_graphs(nodes):
    assert layout(nodes, np.zeros((0, 2), dtype=np.int64)).shape == (nodes, 2)


def test_a_graph_of_400_nodes_takes_seconds():
    start = time.perf_counter()
    layout(400, edges_of(nx.barabasi_albert_graph(400, 2, seed=0)))
    assert time.perf_counter() - start < 20  # 0.5 s on an idle machine


def test_a_very_large_graph_falls_back_to_springs(monkeypatch):
    ends = edges_of(nx.random_labeled_tree(60, seed=0))
    stress = layout(60, ends)
    monkeypatch.setattr("gsat.draw.layout.STRESS_LIMIT", 50)
    springs = layout(60, ends)
    assert np.isfinite(springs).all()
    assert not np.array_equal(springs, stress)
    np.testing.assert_array_equal(springs, layout(60, ends))
