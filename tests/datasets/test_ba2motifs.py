"""BA-2Motifs, generated and published, and the set of houses made from the same parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from gsat.core.errors import DataError
from gsat.datasets.load import Dataset, load_dataset
from gsat.datasets.sources.ba2motifs import TREE_NODES, random_trees


@pytest.fixture(scope="module")
def generated() -> Dataset:
    return load_dataset("ba2motifs", source="generated")


@pytest.fixture(scope="module")
def houses() -> Dataset:
    return load_dataset("houses")


@pytest.fixture(scope="module")
def published(raw_file: Callable[[str], Path]) -> Dataset:
    raw_file("ba_2motifs/BA_2Motifs_dense.npz")
    return load_dataset("ba2motifs", source="published")


def positives(data: Dataset) -> np.ndarray:
    """Positive directed edges of each graph [G]."""
    batch = data.store.batch()
    graph = np.repeat(np.arange(len(data.store)), data.store.edge_counts)
    assert batch.edge_truth is not None
    return np.bincount(graph, weights=batch.edge_truth.numpy()).astype(int)


def graph_of(data: Dataset, position: int, nodes: np.ndarray | None = None) -> nx.Graph:
    graph = nx.Graph(data.store[position].edge_index.T.tolist())
    return graph if nodes is None else graph.subgraph(nodes.tolist())


def test_generated_counts(generated: Dataset) -> None:
    store = generated.store
    assert len(store) == 1000
    assert (store.node_counts == 25).all()
    assert (store.edge_counts == np.repeat([50, 52], 500)).all()
    assert store.per_graph("undirected").all()
    assert store.arrays["x"].shape == (25_000, 10)
    assert np.unique(store.arrays["x"]) == np.float32(0.1)
    assert store.per_graph("y").tolist() == [[0.0]] * 500 + [[1.0]] * 500
    assert store.per_graph("y").dtype == np.float32
    assert store.meta["classes"] == ["five-cycle", "house"]
    assert generated.matches_paper == "rebuilt"


def test_generated_truth(generated: Dataset) -> None:
    assert (positives(generated) == np.repeat([10, 12], 500)).all()
    for position in range(0, 1000, 37):
        data = generated.store[position]
        inside = (data.edge_index >= 20).all(dim=0)
        assert (data.edge_truth.bool() == inside).all()
        assert data.node_truth.tolist() == [0.0] * 20 + [1.0] * 5


def test_generated_motifs_are_what_they_are_called(generated: Dataset) -> None:
    for position, motif in ((0, nx.cycle_graph(5)), (999, nx.house_graph())):
        assert nx.is_isomorphic(graph_of(generated, position, np.arange(20, 25)), motif)


def test_each_motif_hangs_on_one_base_node(generated: Dataset) -> None:
    joints = []
    for position in range(0, 1000, 10):
        graph = graph_of(generated, position)
        assert nx.is_tree(graph.subgraph(range(20)))
        outside = [(u, v) for u, v in nx.edge_boundary(graph, range(20))]
        assert len(outside) == 1
        assert outside[0][1] == 20
        joints.append(outside[0][0])
    assert len(set(joints)) > 15


def test_edges_come_row_by_row(generated: Dataset) -> None:
    for position in (0, 500):
        index = generated.store[position].edge_index
        key = index[0] * 25 + index[1]
        assert (key[1:] > key[:-1]).all()


def test_trees_grow_like_networkx() -> None:
    """Mean degree of each node, oldest first, within 5 standard errors of networkx."""
    ours = random_trees(np.random.RandomState(0), 2000).sum(axis=2)
    assert (ours.sum(axis=1) == 2 * (TREE_NODES - 1)).all()
    theirs = np.array(
        [
            [d for _, d in nx.barabasi_albert_graph(TREE_NODES, 1, seed=s).degree]
            for s in range(1000)
        ]
    )
    error = np.sqrt(theirs.var(axis=0) / 1000 + ours.var(axis=0) / 2000)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) <= 5 * error).all()


def test_published_truth_and_its_forty_self_loops(published: Dataset) -> None:
    counts = positives(published)
    assert set(counts[:500]) == {10, 11}
    assert set(counts[500:]) == {12, 13}
    odd = np.flatnonzero(counts % 2)
    assert len(odd) == 40
    assert (odd < 500).sum() == 20
    for position in odd:
        data = published.store[int(position)]
        loops = data.edge_index[0] == data.edge_index[1]
        assert data.edge_index[:, loops].tolist() == [[20], [20]]
        assert data.edge_truth[loops].tolist() == [1.0]
    even = published.store.select(np.flatnonzero(counts % 2 == 0)).batch().edge_index
    assert (even[0] != even[1]).all()


def test_published_motifs_hang_on_the_oldest_node(published: Dataset) -> None:
    """Not said anywhere: the joint is always 0 – 20. The documentation states it."""
    batch = published.store.batch()
    src, dst = batch.edge_index.numpy() % 25
    assert np.unique(src[(src < 20) & (dst >= 20)]).tolist() == [0]
    assert ((src < 20) & (dst >= 20)).sum() == 960


def test_published_edges_are_the_files_own(
    published: Dataset, raw_file: Callable[[str], Path]
) -> None:
    path = raw_file("ba_2motifs/BA_2Motifs_dense.npz")
    with np.load(path, allow_pickle=False) as arrays:
        assert (arrays["features"] == np.float32(0.1)).all()
        for position in (0, 25, 999):
            expected = np.stack(np.nonzero(arrays["adj"][position]))
            assert (published.store[position].edge_index.numpy() == expected).all()


@pytest.mark.parametrize("name", ["ba2motifs", "houses"])
def test_other_counts(name: str) -> None:
    data = load_dataset(name, graphs=57)
    assert [len(data.splits[s]) for s in ("train", "valid", "test")] == [45, 5, 7]
    assert sorted(np.concatenate(list(data.splits.values()))) == list(range(57))
    assert data.store.per_graph("y").sum() == 29
    assert data.matches_paper == "different"
    for graphs in (9, 0, -1):
        with pytest.raises(DataError, match=f"'graphs': .*10, not {graphs}"):
            load_dataset(name, graphs=graphs)


def test_houses_counts(houses: Dataset) -> None:
    store = houses.store
    assert (store.node_counts == np.repeat([30, 35], 500)).all()
    # 19 base edges, and 6 edges with a joint for each house; both directions.
    assert (store.edge_counts == np.repeat([2 * (19 + 14), 2 * (19 + 21)], 500)).all()
    assert (positives(houses) == np.repeat([24, 36], 500)).all()
    assert store.per_graph("undirected").all()
    assert store.meta["classes"] == ["two houses", "three houses"]
    assert houses.matches_paper == "rebuilt"


def test_houses_are_separate_houses(houses: Dataset) -> None:
    for position, count in ((0, 2), (250, 2), (500, 3), (999, 3)):
        data = houses.store[position]
        true = nx.Graph(data.edge_index[:, data.edge_truth.bool()].T.tolist())
        pieces = [true.subgraph(nodes) for nodes in nx.connected_components(true)]
        assert len(pieces) == count
        assert all(nx.is_isomorphic(piece, nx.house_graph()) for piece in pieces)
        assert set(true.nodes) == set(np.flatnonzero(data.node_truth.numpy()))
        whole = graph_of(houses, position)
        assert nx.is_connected(whole)
        assert nx.is_tree(whole.subgraph(range(20)))
