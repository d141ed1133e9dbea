"""Batches equal PyG's, and `pair` is the reverse edge."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from gsat.graphs import from_pyg

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_equals_pyg_batch(seed, random_graphs):
    graphs = random_graphs(seed)
    positions = np.random.default_rng(seed).permutation(len(graphs))[:9]
    ours = from_pyg(graphs).batch(positions)
    theirs = Batch.from_data_list([graphs[i] for i in positions])
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(ours.node_graph, theirs.batch)
    assert torch.equal(ours.node_ptr, theirs.ptr)
    assert torch.equal(ours.y, theirs.y)
    assert torch.equal(ours.node_truth, theirs.node_truth)
    assert torch.equal(ours.edge_index[:, ours.by_caller], theirs.edge_index)
    assert (ours.num_graphs, ours.num_nodes, ours.num_edges) == (
        theirs.num_graphs,
        theirs.num_nodes,
        theirs.num_edges,
    )

    # The same edges with the same values in any order.
    def rows(index, attr, truth):
        return Counter(
            (*edge, *values, t)
            for edge, values, t in zip(index.T.tolist(), attr.tolist(), truth.tolist(), strict=True)
        )

    assert rows(ours.edge_index, ours.edge_attr, ours.edge_truth) == rows(
        theirs.edge_index, theirs.edge_attr, theirs.edge_truth
    )
    assert torch.equal(ours.edge_graph, ours.node_graph[ours.src])
    assert torch.equal(ours.edge_graph, ours.node_graph[ours.dst])


@pytest.mark.parametrize("seed", SEEDS)
def test_slices_by_destination_and_by_source(seed, random_graphs):
    batch = from_pyg(random_graphs(seed)).batch()
    nodes = batch.num_nodes
    assert (batch.dst.diff() >= 0).all()
    assert torch.equal(batch.dst_ptr.diff(), torch.bincount(batch.dst, minlength=nodes))
    assert torch.equal(batch.src_ptr.diff(), torch.bincount(batch.src, minlength=nodes))
    assert torch.equal(batch.by_src.sort().values, torch.arange(batch.num_edges))
    for node in range(nodes):
        into = slice(batch.dst_ptr[node], batch.dst_ptr[node + 1])
        assert torch.equal(torch.arange(batch.num_edges)[into], (batch.dst == node).nonzero()[:, 0])
        out_of = batch.by_src[batch.src_ptr[node] : batch.src_ptr[node + 1]]
        assert torch.equal(out_of.sort().values, (batch.src == node).nonzero()[:, 0])
    # Sums over neighbours by means of the pointers.
    value = torch.arange(batch.num_edges, dtype=torch.float64)
    sums = torch.zeros(nodes, dtype=torch.float64).index_add_(0, batch.dst, value)
    ours = torch.segment_reduce(value, "sum", offsets=batch.dst_ptr)
    assert torch.equal(ours, sums)
    sums = torch.zeros(nodes, dtype=torch.float64).index_add_(0, batch.src, value)
    ours = torch.segment_reduce(value[batch.by_src], "sum", offsets=batch.src_ptr)
    assert torch.equal(ours, sums)


# -- the reverse edge ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_pair_equals_brute_force(seed, random_graphs):
    batch = from_pyg(random_graphs(seed)).batch()
    seen: Counter[tuple[int, int]] = Counter()
    places: dict[tuple[int, int], list[int]] = {}
    for place, edge in enumerate(batch.edge_index.T.tolist()):
        places.setdefault(tuple(edge), []).append(place)
    for place, (u, v) in enumerate(batch.edge_index.T.tolist()):
        rank = seen[(u, v)]
        seen[(u, v)] += 1
        if batch.undirected[batch.edge_graph[place]]:
            assert batch.pair[place] == places[(v, u)][rank]
        else:
            assert batch.pair[place] == place


@pytest.mark.parametrize("seed", SEEDS)
def test_pair_is_its_own_inverse(seed, random_graph):
    rng = np.random.default_rng(seed)
    kinds = ("undirected", "duplicates", "loops", "isolated", "no edges")
    batch = from_pyg([random_graph(rng, str(rng.choice(kinds))) for _ in range(12)]).batch()
    assert batch.undirected.all()
    assert torch.equal(batch.pair[batch.pair], torch.arange(batch.num_edges))
    assert torch.equal(batch.src[batch.pair], batch.dst)
    assert torch.equal(batch.dst[batch.pair], batch.src)


def test_a_directed_graph_keeps_its_attention_beside_undirected_ones(random_graph):
    rng = np.random.default_rng(0)
    path = Data(x=torch.zeros(3, 3), edge_index=torch.tensor([[0, 1, 1], [1, 2, 0]]))
    path.edge_attr = torch.rand(3, 2)
    ring = random_graph(rng, "undirected")
    given = [
        Data(x=g.x, edge_index=g.edge_index, edge_attr=g.edge_attr) for g in (ring, path, ring)
    ]
    batch = from_pyg(given).batch()
    assert batch.undirected.tolist() == [True, False, True]
    # 0 ⇄ 1 has both directions, but the graph as a whole is directed.
    own = batch.edge_graph == 1
    assert torch.equal(batch.pair[own], own.nonzero()[:, 0])
    assert torch.equal(batch.src[batch.pair[~own]], batch.dst[~own])


# -- keys of random draws --------------------------------------------------------------------------


def test_keys_do_not_depend_on_the_batch(random_graphs):
    graphs = random_graphs(3)
    store = from_pyg(graphs)
    rng = np.random.default_rng(0)
    alone = {i: store.batch([i]) for i in range(len(graphs))}
    for _ in range(10):
        positions = rng.permutation(len(graphs))[: int(rng.integers(1, len(graphs)))]
        shuffled = store.select(rng.permutation(len(graphs)))
        for view, chosen in ((store, positions), (shuffled, np.arange(4))):
            batch = view.batch(chosen)
            for place, row in enumerate(batch.graph_row.tolist()):
                nodes = batch.node_graph == place
                edges = batch.edge_graph == place
                assert torch.equal(batch.node_id[nodes], alone[row].node_id)
                assert torch.equal(batch.edge_id[edges], alone[row].edge_id)


def test_keys_are_unique(random_graphs):
    batch = from_pyg(random_graphs(4)).batch()
    assert len(batch.node_id.unique()) == batch.num_nodes
    assert len(batch.edge_id.unique()) == batch.num_edges


# -- tensors ---------------------------------------------------------------------------------------


def test_a_batch_may_contain_a_graph_twice(random_graph):
    store = from_pyg([random_graph(np.random.default_rng(0), "undirected")])
    once, twice = store.batch([0]), store.batch([0, 0])
    assert twice.num_graphs == 2
    assert torch.equal(twice.x, torch.cat([once.x, once.x]))
    assert torch.equal(
        twice.edge_index, torch.cat([once.edge_index, once.edge_index + once.num_nodes], dim=1)
    )


def test_optional_arrays_are_none_and_missing_features_are_ones():
    batch = from_pyg([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=3)]).batch()
    assert torch.equal(batch.x, torch.ones(3, 1))
    assert batch.edge_attr is batch.y is batch.node_truth is batch.edge_truth is None


def test_to_moves_every_array(random_graphs):
    batch = from_pyg(random_graphs(0)).batch()
    assert batch.to("cpu") is batch
    moved = batch.to("meta")
    assert moved.x.device.type == moved.pair.device.type == moved.edge_truth.device.type == "meta"
    assert moved.x.shape == batch.x.shape
    bare = from_pyg([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)]).batch()
    assert bare.to("meta").edge_attr is None


def test_a_batch_does_not_share_memory_with_the_store(random_graphs, tmp_path):
    store = from_pyg(random_graphs(0))
    loaded = type(store).load(store.save(tmp_path))
    batch = loaded.batch()
    before = loaded.arrays["x"].copy()
    batch.x.zero_()
    np.testing.assert_array_equal(loaded.arrays["x"], before)


def test_a_batch_is_printed_by_its_sizes(random_graphs):
    batch = from_pyg(random_graphs(3)).batch()
    shown = repr(batch)
    assert str(batch) == shown
    assert "\n" not in shown
    assert len(shown) < 200
    for size in (batch.num_graphs, batch.num_nodes, batch.num_edges):
        assert f" {size} " in f" {shown.replace('(', ' ')} "
    assert f"x={list(batch.x.shape)}" in shown
    assert "edge_weight" not in shown  # absent in these graphs
