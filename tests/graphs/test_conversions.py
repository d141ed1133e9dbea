"""Exact conversions from and to PyG and networkx."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx as pyg_from_networkx

from gsat.core.errors import DataError
from gsat.graphs import from_networkx, from_pyg, to_networkx, to_pyg
from own_data import make_graphs

# -- PyG -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "shape"),
    [
        (torch.tensor(2), (2,)),
        (torch.tensor([2]), (2,)),
        (torch.tensor([[1.0]]), (2, 1)),
        (torch.tensor([1.0, 0.0, float("nan")]), (2, 3)),
        (torch.tensor([[1.0, 0.0]]), (2, 2)),
        (3, (2,)),
    ],
)
def test_labels_of_every_shape(y, shape):
    graphs = [Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, y=y) for _ in range(2)]
    store = from_pyg(graphs)
    assert store.batch().y.shape == shape
    expected = torch.as_tensor(y).reshape(-1)
    assert torch.equal(store[0].y.reshape(-1).nan_to_num(9), expected.nan_to_num(9))


def test_arrays_on_some_graphs_only_name_the_graph():
    edge = torch.tensor([[0], [1]])
    with pytest.raises(DataError, match=r"graph 1 .*'x'"):
        from_pyg([Data(x=torch.ones(2, 1), edge_index=edge), Data(edge_index=edge, num_nodes=2)])
    with pytest.raises(DataError, match=r"graph 1 .*edge_index"):
        from_pyg([Data(x=torch.ones(2, 1), edge_index=edge), Data(x=torch.ones(2, 1))])
    with pytest.raises(DataError, match="'x'"):
        from_pyg([Data(x=torch.ones(2, w), edge_index=edge) for w in (1, 2)])


def test_the_number_of_rows_is_checked_for_each_graph():
    # 1 + 3 rows for 2 + 2 edges: the sum is right, every value would sit on a wrong edge.
    edges = torch.tensor([[0, 1], [1, 0]])
    graphs = [Data(edge_index=edges, num_nodes=2, edge_attr=torch.rand(n, 1)) for n in (1, 3)]
    with pytest.raises(DataError, match=r"graph 0: 'edge_attr' .*\[1, 1\].* 2 edges"):
        from_pyg(graphs)
    graphs = [Data(edge_index=edges, num_nodes=2, x=torch.rand(n, 1)) for n in (2, 2)]
    graphs[1].num_nodes = 3
    with pytest.raises(DataError, match="graph 1: 'x'"):
        from_pyg(graphs)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("edge_index", torch.tensor([[0.0, 1.5], [1, 0]]), "torch.float"),
        ("edge_index", torch.tensor([[0, 1], [1, 0], [0, 1]]), r"torch.int64 \[3, 2\]"),
        ("x", torch.eye(2).to_sparse(), "'x'"),
        ("x", torch.eye(2, dtype=torch.bfloat16), "'x'"),
        ("y", "yes", "'y'"),
    ],
)
def test_unsupported_tensors_name_the_graph(name, value, why):
    graphs = [
        Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, x=torch.eye(2), y=1)
        for _ in range(2)
    ]
    graphs[1][name] = value
    with pytest.raises(DataError, match=f"graph 1: .*{why}") as caught:
        from_pyg(graphs)
    assert "\n" not in str(caught.value)


def test_graphs_without_edges_need_no_edge_values():
    edge = torch.tensor([[0, 1], [1, 0]])
    nothing = torch.zeros(2, 0, dtype=torch.long)
    graphs = [
        Data(edge_index=nothing, num_nodes=1),
        Data(edge_index=edge, num_nodes=2, edge_attr=torch.tensor([[1, 2], [3, 4]])),
        Data(edge_index=nothing, num_nodes=1, edge_attr=torch.tensor([])),
    ]
    store = from_pyg(graphs)
    assert store[0].edge_attr.shape == (0, 2)
    assert store[1].edge_attr.tolist() == [[1, 2], [3, 4]]
    assert store[1].edge_attr.dtype == torch.int64
    only = from_pyg([Data(edge_index=nothing, num_nodes=1, edge_attr=torch.zeros(0, 5))])
    assert only.num_edge_features == 5


# -- networkx --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_networkx_round_trip_is_exact(seed, random_graphs, same_graph):
    graphs = random_graphs(seed)
    back = from_networkx([to_networkx(graph) for graph in graphs])
    for place, graph in enumerate(graphs):
        same_graph(to_pyg(back, place), graph)


def test_round_trip_without_any_attribute(same_graph):
    graph = Data(edge_index=torch.tensor([[2, 0, 1], [0, 1, 2]]), num_nodes=4)
    same_graph(from_networkx([to_networkx(graph)])[0], graph)


@pytest.mark.parametrize("label", [[1.0], [1.0, 0.0, 1.0], 2])
def test_labels_survive(label):
    y = torch.tensor(label).reshape((1, -1) if isinstance(label, list) else (1,))
    graph = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, y=y)
    assert torch.equal(from_networkx([to_networkx(graph)])[0].y, y)


@pytest.mark.parametrize("seed", range(8))
def test_same_edges_as_pygs_own_conversion(seed):
    for kind in (nx.gnp_random_graph(9, 0.3, seed=seed), nx.gnp_random_graph(9, 0.3, seed, True)):
        ours = from_networkx([kind])[0]
        theirs = pyg_from_networkx(kind)
        assert ours.num_nodes == theirs.num_nodes
        assert Counter(map(tuple, ours.edge_index.T.tolist())) == Counter(
            map(tuple, theirs.edge_index.T.tolist())
        )


def test_undirected_graphs_with_names_loops_and_duplicates():
    graph = nx.MultiGraph(y=1)
    graph.add_node("c", x=[1.0, 0.0], truth=1)
    graph.add_node("n", x=[0.0, 1.0], truth=0)
    for attr in ([1.0], [2.0]):
        graph.add_edge("c", "n", attr=attr, truth=1)
    graph.add_edge("n", "n", attr=[3.0], truth=0)
    store = from_networkx([graph])
    data = store[0]
    assert data.edge_index.T.tolist() == [[0, 1], [1, 0], [0, 1], [1, 0], [1, 1]]
    assert data.edge_attr[:, 0].tolist() == [1, 1, 2, 2, 3]
    assert data.edge_truth.tolist() == [1, 1, 1, 1, 0]
    assert data.node_truth.tolist() == [1, 0]
    assert data.x.tolist() == [[1, 0], [0, 1]]
    assert data.y.tolist() == [1]
    assert store.per_graph("undirected")[0]


def test_labels_given_beside_the_graphs():
    graphs = [nx.path_graph(3), nx.path_graph(2)]
    assert from_networkx(graphs, y=np.array([4, 5])).per_graph("y").tolist() == [4, 5]
    with pytest.raises(DataError, match=r"1 .*2"):
        from_networkx(graphs, y=[1])


def test_an_attribute_on_some_edges_only_names_the_graph():
    graph = nx.path_graph(3)
    graph.edges[0, 1]["attr"] = [1.0]
    with pytest.raises(DataError, match="graph 1: 'attr'"):
        from_networkx([nx.path_graph(2), graph])


def test_graphs_converted_together_equal_single_conversions_and_share_no_memory() -> None:
    graphs = make_graphs(5, edge_attr=lambda i, g: torch.rand(g.num_edges, 3))
    store = from_pyg(graphs).select([3, 0, 4])
    for place, found in zip((3, 0, 4), store.each_pyg(), strict=True):
        for name in ("edge_index", "x", "edge_attr", "y"):
            assert found[name].reshape(-1).tolist() == graphs[place][name].reshape(-1).tolist()
        assert found.x.untyped_storage().nbytes() == found.x.numel() * found.x.element_size()
