"""Spurious-Motif: its structure graph by graph, and its statistics at full size."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from gsat.datasets import find_source, make_options
from gsat.datasets.load import Dataset, load_dataset

TREE, LADDER, WHEEL = range(3)
# Nodes of a balanced tree by (arity, height): no two are the same, so the size tells the tree.
TREE_NODES = {sum(r**i for i in range(w + 1)): (r, w) for w in range(6) for r in (2, 3)}


@pytest.fixture(scope="module")
def small() -> Dataset:
    return load_dataset("spmotif-0.7", train_per_class=90)


def width_of(base: int, nodes: int) -> int:
    """The width a base of ``nodes`` nodes was made with."""
    if base == TREE:
        return TREE_NODES[nodes][1]
    return nodes // 2 if base == LADDER else nodes


def base_edges(base: int, nodes: int) -> set[tuple[int, int]]:
    if base == TREE:
        graph = nx.balanced_tree(*TREE_NODES[nodes])
    else:
        graph = nx.ladder_graph(nodes // 2) if base == LADDER else nx.wheel_graph(nodes)
    assert len(graph) == nodes
    return {(min(e), max(e)) for e in graph.edges}


def test_counts(small: Dataset) -> None:
    assert [len(small.splits[s]) for s in ("train", "valid", "test")] == [270, 90, 180]
    for name, per_class in (("train", 90), ("valid", 30), ("test", 60)):
        label = small.split(name).per_graph("y")
        assert label.dtype == np.int64
        assert label.tolist() == sorted(label.tolist())
        assert np.bincount(label).tolist() == [per_class] * 3
    assert small.store.meta["classes"] == ["cycle", "house", "crane"]
    assert small.store.meta["bases"] == ["tree", "ladder", "wheel"]


def test_structure_of_every_graph(small: Dataset) -> None:
    motifs = (nx.cycle_graph(5), nx.house_graph(), nx.complete_bipartite_graph(2, 3))
    for data in small.store:
        nodes, base, label = data.num_nodes, int(data.base), int(data.y)
        edges = [tuple(e) for e in data.edge_index.T.tolist()]
        assert all(u < v for u, v in edges)
        assert len(set(edges)) == len(edges)
        # Listed by lower end, as networkx lists them.
        assert [u for u, _ in edges] == sorted(u for u, _ in edges)

        first = nodes - 5
        inside = [e for e in edges if e[0] >= first]
        assert len(inside) == (5, 6, 6)[label]
        assert nx.is_isomorphic(nx.Graph(inside), motifs[label])
        truth = [e for e, t in zip(edges, data.edge_truth.tolist(), strict=True) if t]
        assert truth == inside
        assert data.node_truth.tolist() == [0.0] * first + [1.0] * 5

        template = base_edges(base, first)
        assert template <= set(edges)
        added = set(edges) - template - set(inside)
        assert any(v == first for _, v in added)  # the joint
        # The rest is the perturbation; a trial that falls inside the motif is lost.
        assert len(added) - 1 <= int(0.05 * (len(template) + len(inside) + 1))


def test_motif_nodes_are_numbered_as_published(small: Dataset) -> None:
    expected = (
        {(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)},
        {(1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 4)},
        {(1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 3)},
    )
    for label, edges in enumerate(expected):
        data = small.store[int(np.flatnonzero(small.store.per_graph("y") == label)[0])]
        inside = data.edge_index[:, data.edge_truth.bool()] - (data.num_nodes - 5)
        assert {tuple(e) for e in inside.T.tolist()} == edges


def widths(data: Dataset, part: str, label: int, base: int) -> set[int]:
    view = data.split(part)
    chosen = (view.per_graph("y") == label) & (view.per_graph("base") == base)
    return {width_of(base, n - 5) for n in view.node_counts[chosen].tolist()}


def test_widths(small: Dataset) -> None:
    for label in range(3):
        assert widths(small, "train", label, TREE) == ({3} if label == 0 else {0, 1, 2})
        assert widths(small, "valid", label, TREE) == {3}
        assert widths(small, "test", label, TREE) == {3, 4, 5}
        for part in ("train", "valid"):
            assert widths(small, part, label, LADDER) <= {8, 9, 10, 11}
            assert widths(small, part, label, WHEEL) <= {15, 16, 17, 18, 19}
        assert widths(small, "test", label, LADDER) <= set(range(30, 50))
        assert widths(small, "test", label, WHEEL) <= set(range(60, 80))
    assert set.union(*(widths(small, "train", c, LADDER) for c in range(3))) == {8, 9, 10, 11}
    assert set.union(*(widths(small, "train", c, WHEEL) for c in range(3))) == set(range(15, 20))


@pytest.mark.parametrize("heights", ["same", "same-train", "same-valid"])
def test_tree_heights_same_for_all_classes(heights: str) -> None:
    data = load_dataset("spmotif-0.7", train_per_class=90, tree_heights=heights)
    for label in range(3):
        trained = {3} if heights == "same-valid" and label == 0 else {0, 1, 2}
        assert widths(data, "train", label, TREE) == trained
        validated = {3} if heights == "same-train" else {0, 1, 2}
        assert widths(data, "valid", label, TREE) == validated
        assert widths(data, "test", label, TREE) == {3, 4, 5}
    assert data.matches_paper == "different"


def test_features_are_noise_and_edges_are_ones(small: Dataset) -> None:
    x, ones = small.store.arrays["x"], small.store.arrays["edge_attr"]
    assert x.shape == (small.store.num_nodes, 4)
    assert x.dtype == np.float32
    assert 0 <= x.min() < x.max() < 1
    assert abs(x.mean() - 0.5) < 4 * np.sqrt(1 / 12 / x.size)
    assert ones.shape == (small.store.num_edges, 1)
    assert (ones == 1).all()


def test_undirected_is_the_same_set_with_both_directions(small: Dataset) -> None:
    both = load_dataset("spmotif-0.7", train_per_class=90, undirected=True)
    assert both.store.per_graph("undirected").all()
    assert not small.store.per_graph("undirected").any()
    assert both.matches_paper == "different"
    assert (both.store.arrays["x"] == small.store.arrays["x"]).all()
    assert (both.store.edge_counts == 2 * small.store.edge_counts).all()
    for position in range(0, 540, 41):
        one, two = small.store[position], both.store[position]
        pairs = {tuple(e) for e in one.edge_index.T.tolist()}
        expected = sorted(pairs | {(v, u) for u, v in pairs})
        assert [tuple(e) for e in two.edge_index.T.tolist()] == expected
        first = one.num_nodes - 5
        assert two.edge_truth.tolist() == [float(min(e) >= first) for e in expected]
        assert two.edge_attr.shape == (len(expected), 1)


@pytest.mark.parametrize(
    ("name", "match"),
    [("spmotif-0.5", "rebuilt"), ("spmotif-.9", "rebuilt"), ("spmotif-0.6", "different")],
)
def test_matches_paper(name: str, match: str) -> None:
    source = find_source(name)
    assert source.matches_paper(name, make_options(name, {})) == match
    fewer = make_options(name, {"train_per_class": 30})
    assert source.matches_paper(name, fewer) == "different"


@pytest.mark.parametrize(("bias", "bases"), [("0", {1, 2}), ("1.0", {0})])
def test_extreme_biases(bias: str, bases: set[int]) -> None:
    data = load_dataset(f"spmotif-{bias}", train_per_class=12)
    view = data.train
    assert set(view.per_graph("base")[view.per_graph("y") == 0]) == bases


@pytest.mark.medium
def test_bases_agree_with_the_class_as_often_as_the_bias_says() -> None:
    data = load_dataset("spmotif-0.5")
    for part, bias in (("train", 0.5), ("valid", 1 / 3), ("test", 1 / 3)):
        view = data.split(part)
        for label in range(3):
            base = view.per_graph("base")[view.per_graph("y") == label]
            share = np.bincount(base, minlength=3) / len(base)
            expected = np.full(3, (1 - bias) / 2)
            expected[label] = bias
            sigma = np.sqrt(expected * (1 - expected) / len(base))
            assert (np.abs(share - expected) < 3 * sigma).all()
