"""Labels and selections of nodes, and edge weights, in stores and batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from gsat.core.errors import DataError
from gsat.graphs import GraphStore, from_networkx, from_pyg, to_networkx


@pytest.fixture
def graphs(random_graphs: Callable[..., list[Data]]) -> list[Data]:
    """Graphs with a unique label for every node, and with edge weights."""
    listed, first = random_graphs(1, 12), 0
    for data in listed:
        del data.y
        data.node_y = torch.arange(first, first + int(data.num_nodes or 0))
        data.edge_weight = torch.rand(data.edge_index.shape[1])
        first += int(data.num_nodes or 0)
    return listed


def test_labels_and_weights_are_stored_and_converted(
    graphs: list[Data], same_graph: Callable[[Data, Data], None], tmp_path: Path
) -> None:
    store = GraphStore.load(from_pyg(graphs).save(tmp_path))
    for number, data in enumerate(graphs):
        same_graph(store[number], data)
        again = from_networkx([to_networkx(store[number])])[0]
        assert torch.equal(again.node_y, data.node_y)
        if data.edge_index.shape[1]:
            assert torch.equal(again.edge_weight, data.edge_weight)


def test_networkx_weights_apply_to_both_directions() -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=3)
    graph.add_edge("b", "c", weight=0.5)
    data = from_networkx([graph])[0]
    assert data.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert data.edge_weight.tolist() == [3, 3, 0.5, 0.5]
    assert data.edge_weight.dtype == torch.float32


def test_a_view_selects_nodes(graphs: list[Data], tmp_path: Path) -> None:
    store = from_pyg(graphs)
    chosen = np.random.default_rng(0).permutation(store.num_nodes)[: store.num_nodes // 4]
    view = store.at_nodes(chosen)
    mask = np.isin(np.arange(store.num_nodes), chosen)
    assert store.at_nodes(mask).labels("node").tolist() == view.labels("node").tolist()
    owners = np.searchsorted(store.arrays["node_ptr"], chosen, side="right") - 1
    assert view.index.tolist() == sorted(set(owners.tolist()))  # graphs without one are left out
    assert len(view) < len(store)
    # Labels are row numbers.
    assert view.labels("node").tolist() == sorted(chosen.tolist())
    assert view.count("node") == len(chosen)
    assert view.count("graph") == len(view)
    graph, number = view.target_places()
    rows = store.arrays["node_ptr"][view.index[graph]] + number
    assert rows.tolist() == sorted(chosen.tolist())

    found = torch.cat([batch.y for batch in view.batches(3)])
    assert found.tolist() == sorted(chosen.tolist())
    order = np.random.default_rng(1).permutation(len(view))
    batch = view.batch(order)
    assert batch.targets is not None
    assert batch.num_nodes == view.num_nodes  # the graphs stay whole
    names = torch.cat([view[int(i)].node_y for i in order])
    assert torch.equal(batch.at_targets(names), batch.y)

    for same in (GraphStore.load(view.save(tmp_path)), view.compact()):
        assert same.labels("node").tolist() == sorted(chosen.tolist())
    assert view.at_nodes(None).labels("node").tolist() == [
        label for i in view.index for label in graphs[i].node_y.tolist()
    ]
    assert store.labels("node").tolist() == list(range(store.num_nodes))  # untouched


def test_all_nodes_are_targets_by_default(graphs: list[Data]) -> None:
    batch = from_pyg(graphs).batch()
    assert batch.targets is None
    assert batch.at_targets(batch.x) is batch.x
    assert batch.y is not None
    assert batch.y.tolist() == list(range(batch.num_nodes))


def test_weights_and_attention_multiply(graphs: list[Data]) -> None:
    store = from_pyg(graphs)
    batch, attention = store.batch(), torch.rand(store.num_edges)
    expected = torch.cat([data.edge_weight for data in graphs])
    weight = batch.weighted(None)
    assert weight is not None
    assert torch.equal(torch.from_numpy(store.caller_order(weight.numpy())), expected)
    both = batch.weighted(attention)
    assert both is not None
    torch.testing.assert_close(both, weight * attention)
    for data in graphs:
        del data.edge_weight
    plain = from_pyg(graphs).batch()
    assert plain.weighted(None) is None
    assert plain.weighted(attention) is attention


def test_errors(graphs: list[Data]) -> None:
    store = from_pyg(graphs)
    with pytest.raises(DataError, match="'y'"):
        store.labels("graph")
    for wrong in ([0, -1], [store.num_nodes], [True]):
        with pytest.raises(DataError):
            store.at_nodes(wrong)
    graphs[-1].edge_weight = None
    graphs[-1].edge_index = torch.tensor([[0], [0]])
    graphs[-1].edge_attr = graphs[-1].edge_attr.new_zeros(1, 2)
    graphs[-1].edge_truth = torch.zeros(1, dtype=torch.long)
    with pytest.raises(DataError, match="edge_weight"):
        from_pyg(graphs)
