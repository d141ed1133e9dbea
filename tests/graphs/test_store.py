"""Stores: order, types, views and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gsat.core.errors import DataError
from gsat.graphs import GraphStore, from_pyg
from gsat.graphs.build import ranges


def triangle_and_path(**more: object) -> GraphStore:
    """Graph 0: a triangle, undirected. Graph 1: 0 → 1 → 2 with one isolated node, directed."""
    triangle = [[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]
    path = [[0, 1], [1, 2]]
    return GraphStore.from_arrays(
        node_ptr=[0, 3, 7],
        edge_ptr=[0, 6, 8],
        edge_index=np.concatenate([triangle, path], axis=1),
        **more,  # type: ignore[arg-type]
    )


# -- in and out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_round_trip_is_exact_in_the_callers_order(seed, random_graphs, same_graph):
    graphs = random_graphs(seed)
    store = from_pyg(graphs)
    assert len(store) == len(graphs)
    for position, graph in enumerate(graphs):
        same_graph(store[position], graph)
    for ours, graph in zip(store, graphs, strict=True):
        same_graph(ours, graph)


def test_stored_edges_are_sorted_by_graph_destination_source(random_graphs):
    store = from_pyg(random_graphs(0, 30))
    arrays = store.arrays
    graph = np.repeat(np.arange(len(store)), store.edge_counts)
    keys = list(zip(graph, arrays["dst"], arrays["src"], strict=True))
    assert keys == sorted(keys)
    by_src = arrays["by_src"] + arrays["edge_ptr"][graph]
    keys = list(zip(graph, arrays["src"][by_src], arrays["dst"][by_src], strict=True))
    assert keys == sorted(keys)


@pytest.mark.parametrize("seed", range(15))
def test_graphs_are_undirected_if_all_edges_and_duplicates_have_reverses(seed, random_graphs):
    graphs = random_graphs(seed)
    store = from_pyg(graphs)
    for graph, found in zip(graphs, store.per_graph("undirected"), strict=True):
        there = sorted(map(tuple, graph.edge_index.T.tolist()))
        back = sorted((v, u) for u, v in there)
        assert found == (there == back)


def test_an_empty_store():
    store = from_pyg([])
    assert len(store) == store.num_nodes == store.num_edges == 0
    assert list(store) == []
    assert list(store.batches(4)) == []
    assert store.batch().num_graphs == 0
    assert len(store.compact()) == 0


def test_values_become_float32_int64_or_bool():
    store = triangle_and_path(
        x=np.arange(7, dtype=np.float64),
        edge_attr=np.arange(8, dtype=np.uint8),
        y=np.array([[1.0, np.nan], [0.0, 1.0]]),
        node_truth=np.arange(7) % 2 == 0,
    )
    first = store[0]
    assert first.x.dtype == torch.float32
    assert first.x.shape == (3, 1)
    assert first.edge_attr.dtype == torch.int64
    assert first.edge_attr[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert first.y.dtype == torch.float32
    assert torch.isnan(first.y[0, 1])
    assert first.node_truth.dtype == torch.bool


def test_further_arrays_follow_their_graphs():
    store = triangle_and_path(graph_fields={"weight": [30, 40]}, y=[5, 6])
    assert store.has("weight")
    assert not store.has("colour")
    assert store.select([1]).per_graph("weight").tolist() == [40]
    assert store[1].weight.tolist() == [40]
    with pytest.raises(DataError, match="colour"):
        store.per_graph("colour")


def test_counts_and_repr():
    store = triangle_and_path(x=np.zeros((7, 4)), edge_attr=np.zeros((8, 2)))
    assert store.node_counts.tolist() == [3, 4]
    assert store.edge_counts.tolist() == [6, 2]
    assert (store.num_features, store.num_edge_features) == (4, 2)
    assert repr(store) == "GraphStore(2 graphs, 7 nodes, 8 edges)"
    assert (triangle_and_path().num_features, triangle_and_path().num_edge_features) == (0, 0)


@pytest.mark.parametrize("seed", range(10))
def test_caller_order_of_any_view(seed, random_graphs):
    graphs = random_graphs(seed)
    rng = np.random.default_rng(seed)
    positions = rng.integers(0, len(graphs), size=9)
    view = from_pyg(graphs).select(positions)
    batch = view.batch()
    ours = view.caller_order(batch.edge_attr.numpy())
    theirs = torch.cat([graphs[i].edge_attr for i in positions])
    np.testing.assert_array_equal(ours, theirs)


def test_ranges_equals_its_loop():
    rng = np.random.default_rng(0)
    for _ in range(20):
        starts, counts = rng.integers(0, 50, size=7), rng.integers(0, 4, size=7)
        loop = [np.arange(s, s + c) for s, c in zip(starts, counts, strict=True)]
        np.testing.assert_array_equal(ranges(starts, counts), np.concatenate(loop))
    assert len(ranges(np.zeros(0, int), np.zeros(0, int))) == 0


# -- views -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_views_of_views_and_compact(seed, random_graphs, same_graph):
    graphs = random_graphs(seed)
    store = from_pyg(graphs, meta={"classes": ["a", "b"]})
    rng = np.random.default_rng(seed)
    outer = rng.permutation(len(graphs))[:8]
    inner = rng.integers(0, 8, size=5)
    view = store.select(outer).select(inner)
    assert view.arrays["src"] is store.arrays["src"]
    assert view.meta == store.meta
    small = view.compact()
    assert small.arrays["src"].shape == (view.num_edges,)
    for place, i in enumerate(inner):
        same_graph(view[place], graphs[outer[i]])
        same_graph(small[place], graphs[outer[i]])


def test_select_by_mask_negative_numbers_and_nothing():
    store = triangle_and_path()
    assert store.select([False, True]).index.tolist() == [1]
    assert store.select([-1, 0]).index.tolist() == [1, 0]
    assert store.select(1).index.tolist() == [1]
    assert len(store.select([])) == 0
    assert store[-1].num_nodes == 4
    assert store.batch([]).num_graphs == 0
    assert store.batch([-1]).num_nodes == 4
    assert [b.num_graphs for b in store.select([0, 1, 0]).batches(2)] == [2, 1]


@pytest.mark.parametrize("wrong", [2, -3, [0, 7]])
def test_a_position_out_of_range_is_named(wrong):
    number = wrong[-1] if isinstance(wrong, list) else wrong
    with pytest.raises(DataError, match=f"graph {number}"):
        triangle_and_path().select(wrong)
    with pytest.raises(DataError, match=f"graph {number}"):
        triangle_and_path().batch(wrong)
    with pytest.raises(DataError, match="graph 0"):
        from_pyg([]).select([0])


def test_masks_of_another_length_and_fractions_are_refused():
    with pytest.raises(DataError, match="3"):
        triangle_and_path().select([True, False, True])
    with pytest.raises(DataError, match="float64"):
        triangle_and_path().select([0.5])


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 1, 0], [1, 0, 3]], r"graph 1 .*0 → 3"),
        ([[0, 1, -1], [1, 0, 0]], r"graph 1 .*-1 → 0"),
        ([[0, 2, 0], [1, 0, 1]], r"graph 0 .*2 → 0"),
    ],
)
def test_wrong_indices_name_the_graph(edges, message):
    with pytest.raises(DataError, match=message):
        GraphStore.from_arrays(node_ptr=[0, 2, 5], edge_ptr=[0, 2, 3], edge_index=edges)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node_ptr": [1, 3]}, "node_ptr"),
        ({"node_ptr": [0, 3, 2]}, "node_ptr"),
        ({"edge_ptr": [0, 1, 2]}, "1 and 2"),
        ({"edge_ptr": [0, 3]}, "2 edges.*3"),
        ({"edge_index": [[0, 1], [1, 2], [2, 0]]}, r"\[3, 2\]"),
        ({"edge_index": [[0, 1.5], [1, 2]]}, "edge_index.*float64"),
        ({"x": np.zeros((3, 1), complex)}, "x .*complex128"),
        ({"x": ["C", "N", "O"]}, "x .*<U1"),
        ({"y": ["yes"]}, "y .*<U3"),
        ({"x": np.array([[0.5]] * 3, object)}, "x .*object"),
        ({"x": np.zeros((2, 1))}, "x .*2 rows.*3 nodes"),
        ({"x": np.zeros((3, 3, 4))}, r"x .*\[3, 3, 4\]"),
        ({"edge_attr": np.zeros(3)}, "edge_attr .*3 rows.*2 edges"),
        ({"edge_weight": np.zeros((2, 2))}, r"edge_weight .*\[2, 2\]"),
        ({"y": [1, 2]}, "y .*2 rows.*1 graphs"),
        ({"y": [1], "node_y": [1, 2, 3]}, "node_y"),
        ({"edge_truth": [1]}, "edge_truth .*1 rows"),
        ({"graph_fields": {"size": [1, 2]}}, "size .*2 rows"),
    ],
)
def test_arrays_that_do_not_fit_are_named(change, message):
    right = {"node_ptr": [0, 3], "edge_ptr": [0, 2], "edge_index": [[0, 1], [1, 2]]}
    GraphStore.from_arrays(**right)
    with pytest.raises(DataError, match=message):
        GraphStore.from_arrays(**{**right, **change})


def test_batches_keep_to_a_number_of_edges() -> None:
    """A graph with more edges gets a batch of its own."""
    edges = [3, 3, 3, 10, 1, 0, 2]
    graphs = [Data(edge_index=torch.zeros(2, e, dtype=torch.long), num_nodes=1) for e in edges]
    store = from_pyg(graphs)
    found = [b.graph_row.tolist() for b in store.batches(3, max_edges=6)]
    assert found == [[0, 1], [2], [3], [4, 5, 6]]
    assert [len(b.graph_row) for b in store.batches(3)] == [3, 3, 1]


def test_a_slice_is_a_view(random_graphs, same_graph):
    store = from_pyg(random_graphs(3))
    part = store[1:6:2]
    assert isinstance(part, GraphStore)
    assert part.index.tolist() == [1, 3, 5]
    same_graph(part[1], store[3])
    assert len(store[4:2]) == 0
    assert store[-2:].index.tolist() == [len(store) - 2, len(store) - 1]


# -- half precision --------------------------------------------------------------------------------

HALF = np.linspace(-3, 3, 12).reshape(6, 2)


def half_store(dtype: type) -> GraphStore:
    return GraphStore.from_arrays(
        node_ptr=[0, 2, 6],
        edge_ptr=[0, 1, 3],
        edge_index=[[0, 1, 3], [1, 2, 0]],
        x=HALF.astype(dtype),
        edge_attr=np.ones(3, dtype=np.float16),
        y=np.array([0.5, 1.5], dtype=np.float16),
    )


def test_half_precision_features_stay_on_disk_and_are_single_in_a_batch(tmp_path: Path) -> None:
    half = HALF.astype(np.float16)
    for store in (
        half_store(np.float16),
        GraphStore.load(half_store(np.float16).save(tmp_path / "saved")),
    ):
        assert store.arrays["x"].dtype == np.float16
        assert store.compact().arrays["x"].dtype == np.float16
        batch = store.batch([1, 0])
        assert batch.x.dtype == torch.float32
        assert (batch.x.numpy() == half[[2, 3, 4, 5, 0, 1]].astype(np.float32)).all()
        assert store[0].x.dtype == torch.float32


def test_other_arrays_are_not_half_precision() -> None:
    store = half_store(np.float16)
    assert store.arrays["edge_attr"].dtype == store.arrays["y"].dtype == np.float32
    assert half_store(np.float64).arrays["x"].dtype == np.float32
    graph = Data(x=torch.from_numpy(HALF).half(), edge_index=torch.zeros(2, 0, dtype=torch.long))
    assert from_pyg([graph]).arrays["x"].dtype == np.float16
