"""Places of nodes: apart, the same every time, parts side by side."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from gsat.draw.layout import crossings, layout


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
    np.testing.assert_array_equal(at, layout(graph.number_of_nodes(), ends))
    if len(ends):
        lengths = np.linalg.norm(at[ends[:, 0]] - at[ends[:, 1]], axis=1)
        assert np.median(lengths) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", ["path", "star", "cycle", "grid", "tree"])
def test_planar_graphs_are_drawn_without_crossings(name):
    ends = edges_of(GRAPHS[name])
    assert len(crossings(layout(GRAPHS[name].number_of_nodes(), ends), ends)) == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_motif_on_a_random_tree_is_not_folded(seed):
    graph = nx.barabasi_albert_graph(20, 1, seed=seed)
    house = [(20, 21), (21, 22), (22, 23), (23, 20), (20, 24), (21, 24)]
    graph.add_edges_from([*house, (seed, 22)])
    ends = edges_of(graph)
    assert len(crossings(layout(25, ends), ends)) == 0


# -- structure is visible --------------------------------------------------------------------------


def angles(at: np.ndarray, ring: list[int]) -> np.ndarray:
    """The inner angles of a polygon, in degrees."""
    points = at[ring]
    to, back = np.roll(points, -1, axis=0) - points, np.roll(points, 1, axis=0) - points
    cosine = (to * back).sum(axis=1) / np.linalg.norm(to, axis=1) / np.linalg.norm(back, axis=1)
    return np.degrees(np.arccos(cosine))


def wheel(rim: int, chords: list[tuple[int, int]] = ()) -> nx.Graph:
    graph = nx.wheel_graph(rim + 1)
    graph.add_edges_from(chords)
    return graph


@pytest.mark.parametrize("seed", range(4))
def test_a_house_is_a_square_with_a_roof(seed):
    graph = nx.barabasi_albert_graph(20, 1, seed=seed)
    house = [(20, 21), (21, 22), (22, 23), (23, 20), (20, 24), (21, 24)]
    graph.add_edges_from([*house, (seed, 22)])
    at = layout(25, edges_of(graph))
    assert angles(at, [20, 21, 22, 23]) == pytest.approx(90, abs=15)
    assert angles(at, [20, 21, 24]) == pytest.approx(60, abs=15)
    # The roof is outside the square.
    (x, y), gaps = at[21] - at[20], at[[22, 24]] - at[20]
    assert np.prod(x * gaps[:, 1] - y * gaps[:, 0]) < 0


def test_a_motif_that_springs_would_fold_is_drawn_by_its_faces():
    crane = nx.complete_bipartite_graph(2, 3)
    tree = nx.disjoint_union(nx.balanced_tree(2, 3), crane)
    tree.add_edge(7, 17)
    for graph in (crane, tree):
        ends = edges_of(graph)
        at = layout(graph.number_of_nodes(), ends)
        assert len(crossings(at, ends)) == 0
        assert nearest(at) > 0.4


@pytest.mark.parametrize("chords", [[], [(3, 30), (10, 41), (20, 55)]])
def test_a_wheel_is_round_with_its_hub_in_the_middle(chords):
    ends = edges_of(wheel(60, chords))
    at = layout(61, ends)
    spokes = np.linalg.norm(at[1:] - at[0], axis=1)
    assert spokes.max() / spokes.min() < 1.25
    turn = np.unwrap(np.arctan2(*(at[1:] - at[0]).T[::-1]))
    steps = np.diff(turn) * np.sign(turn[-1] - turn[0])
    assert (steps > 0).all()  # the rim goes round once, in order
    assert abs(turn[-1] - turn[0]) < 2 * np.pi
    assert nearest(at) > 0.4


def test_a_few_shortcuts_do_not_bend_a_ladder():
    straight = nx.ladder_graph(20)
    ends = edges_of(straight)
    bent = np.vstack([ends, [[2, 15], [25, 38]]])
    for edges in (ends, bent):
        at = layout(40, edges)
        length, width = np.ptp(at, axis=0)
        assert length == pytest.approx(19, rel=0.1)
        assert width < 2
        assert len(crossings(at, ends)) == 0


def test_a_ring_is_round():
    at = layout(30, edges_of(nx.cycle_graph(30)))
    radius = np.linalg.norm(at - at.mean(axis=0), axis=1)
    assert radius == pytest.approx(30 / (2 * np.pi), rel=0.05)


@pytest.mark.parametrize("centre", [0, 3])
def test_around_a_centre_nodes_stand_as_far_as_they_are_away(centre):
    graph = nx.barabasi_albert_graph(15, 1, seed=1)
    at = layout(15, edges_of(graph), centre)
    away = nx.single_source_shortest_path_length(graph, centre)
    drawn = np.linalg.norm(at - at[centre], axis=1)
    assert drawn == pytest.approx([away[node] for node in range(15)], abs=0.1)


def test_crossings_are_counted():
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], dtype=float)
    assert len(crossings(square, np.array([[0, 1], [1, 2], [2, 3], [3, 0]]))) == 0
    assert crossings(square, np.array([[0, 2], [1, 3]])).tolist() == [[0, 1]]
    assert len(crossings(square, np.array([[0, 2], [2, 3]]))) == 0


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


def test_a_very_large_graph_falls_back_to_springs(monkeypatch):
    ends = edges_of(nx.random_labeled_tree(60, seed=0))
    stress = layout(60, ends)
    monkeypatch.setattr("gsat.draw.layout.STRESS_LIMIT", 50)
    springs = layout(60, ends)
    assert np.isfinite(springs).all()
    assert not np.array_equal(springs, stress)
    np.testing.assert_array_equal(springs, layout(60, ends))
