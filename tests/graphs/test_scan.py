"""Statistics and digests of graphs."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import contains_isolated_nodes, degree

import gsat.graphs.scan
from gsat.graphs import GraphStore, from_pyg
from gsat.graphs.scan import scan_graphs

Make = Callable[..., list[Data]]


def with_weights(graphs: list[Data]) -> list[Data]:
    for graph in graphs:
        graph.edge_weight = torch.rand(graph.num_edges)
    return graphs


def test_counts_equal_pygs(random_graphs: Make) -> None:
    graphs = random_graphs(0, 40)
    seen = scan_graphs(from_pyg(graphs))
    assert seen.true_edges is not None
    for number, graph in enumerate(graphs):
        ends = degree(graph.edge_index.flatten(), graph.num_nodes)
        assert seen.isolated[number] == (ends == 0).sum()
        assert seen.true_edges[number] == graph.edge_truth.sum()
        kept = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
        if kept.shape == graph.edge_index.shape:  # PyG does not count self-loops as edges
            assert contains_isolated_nodes(kept, graph.num_nodes) == (seen.isolated[number] > 0)
    assert not any(bad.any() for bad in seen.invalid.values())


def test_invalid_rows_are_counted_per_graph(random_graphs: Make) -> None:
    graphs = with_weights(random_graphs(1, 20))
    arrays = dict(from_pyg(graphs).arrays)
    rng = np.random.default_rng(0)
    planted: dict[str, Any] = {}
    values = {
        "x": (np.nan, np.inf),
        "edge_attr": (-np.inf, np.nan),
        "edge_weight": (np.nan, np.inf),
        "node_truth": (-1, 2),
        "edge_truth": (-1, 2),
        "src": (-1, 50),
    }
    for name, wrong in values.items():
        arrays[name] = arrays[name].copy()
        rows = rng.choice(len(arrays[name]), size=6, replace=False)
        arrays[name][rows] = np.resize(wrong, (len(rows), *arrays[name].shape[1:]))
        ptr = arrays["node_ptr" if name in ("x", "node_truth") else "edge_ptr"]
        planted[name] = np.array([((rows >= a) & (rows < b)).sum() for a, b in _pairs(ptr)])
    seen = scan_graphs(GraphStore(arrays, {}))
    planted["edges"] = planted.pop("src")
    planted["order"] = np.zeros(20, dtype=int)
    assert sorted(seen.invalid) == sorted(planted)
    for name, counts in planted.items():
        assert seen.invalid[name].tolist() == counts.tolist(), name


def _pairs(ptr: Any) -> list[tuple[int, int]]:
    return list(zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True))


@pytest.mark.parametrize("chunk", [1, 60])
def test_statistics_do_not_depend_on_the_chunk_size(
    random_graphs: Make, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = from_pyg(with_weights(random_graphs(2, 30)))
    view = store.select([7, 3, 3, 29, 0])
    whole, part = scan_graphs(store), scan_graphs(view)
    monkeypatch.setattr(gsat.graphs.scan, "CHUNK", chunk)
    again = scan_graphs(store)
    assert (whole.digest == again.digest).all()
    assert (whole.isolated == again.isolated).all()
    assert (whole.true_edges == again.true_edges).all()
    assert (whole.digest[[7, 3, 3, 29, 0]] == part.digest).all()
    assert scan_graphs(store, digests=False).digest is None


def test_digests_are_equal_exactly_for_equal_graphs(random_graphs: Make) -> None:
    graphs = with_weights(random_graphs(3, 60))
    graphs += [graph.clone() for graph in graphs[::3]]
    for graph in graphs[60:]:  # digests ignore labels and truth
        graph.y = graph.y + 1
        graph.edge_truth = 1 - graph.edge_truth
        shuffle = torch.randperm(graph.num_edges)
        if len(torch.unique(graph.edge_index, dim=1).T) == graph.num_edges:
            for name in ("edge_index", "edge_attr", "edge_weight", "edge_truth"):
                graph[name] = (
                    graph[name][..., shuffle] if name == "edge_index" else graph[name][shuffle]
                )
    store = from_pyg(graphs)
    digest = scan_graphs(store).digest
    assert digest is not None
    keys = []
    for number in range(len(store)):
        batch = store.batch([number])
        parts = (batch.x, batch.src, batch.dst, batch.edge_attr, batch.edge_weight)
        keys.append(b"|".join(part.numpy().tobytes() for part in parts if part is not None))
    for a in range(len(keys)):
        for b in range(a):
            assert (digest[a] == digest[b]) == (keys[a] == keys[b]), (a, b)
    assert len(set(keys)) < len(keys)


def test_every_bit_of_a_graph_changes_its_digest() -> None:
    arrays: dict[str, Any] = {
        "node_ptr": [0, 4],
        "edge_ptr": [0, 3],
        "edge_index": [[0, 1, 2], [1, 2, 3]],
        "x": np.zeros((4, 3), dtype=np.float32),
        "edge_attr": np.zeros((3, 2), dtype=np.float32),
        "edge_weight": np.zeros(3, dtype=np.float32),
    }
    changed = [arrays, {**arrays, "node_ptr": [0, 5], "x": np.zeros((5, 3), dtype=np.float32)}]
    for name in ("x", "edge_attr", "edge_weight"):
        for place in np.ndindex(arrays[name].shape):
            other = arrays[name].copy()
            other[place] = 1
            changed.append({**arrays, name: other})
    for index in ([[0, 1, 2], [1, 2, 0]], [[1, 1, 2], [0, 2, 3]], [[0, 1, 1], [1, 2, 3]]):
        changed.append({**arrays, "edge_index": index})
    digests = [int(scan_graphs(GraphStore.from_arrays(**a)).digest[0]) for a in changed]
    assert len(set(digests)) == len(digests) == 2 + 12 + 6 + 3 + 3


def test_memory_is_bounded_for_large_stores() -> None:
    graphs, nodes, edges = 20_000, 20, 40
    rng = np.random.default_rng(0)
    store = GraphStore(
        {
            "node_ptr": np.arange(graphs + 1) * nodes,
            "edge_ptr": np.arange(graphs + 1) * edges,
            "src": rng.integers(0, nodes, graphs * edges, dtype=np.int32),
            "dst": rng.integers(0, nodes, graphs * edges, dtype=np.int32),
            "x": rng.random((graphs * nodes, 40), dtype=np.float32),
            "by_src": np.tile(np.arange(edges, dtype=np.int32), graphs),
            "order": np.tile(np.arange(edges, dtype=np.int32), graphs),
            "undirected": np.zeros(graphs, dtype=bool),
        },
        {},
    )
    tracemalloc.start()
    scan_graphs(store)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 2**20 < store.arrays["x"].nbytes * 8  # as the features in 64 bits


def test_no_graphs() -> None:
    store = GraphStore.from_arrays(node_ptr=[0], edge_ptr=[0], edge_index=[[], []])
    seen = scan_graphs(store)
    assert seen.digest is not None
    assert len(seen.digest) == len(seen.isolated) == 0
