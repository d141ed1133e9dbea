"""Explanations of single nodes, against PyG's k_hop_subgraph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

from gsat.core.errors import GSATError
from gsat.explanation import Explanation


@pytest.fixture
def explained(random_graph: Callable[..., Data]) -> Explanation:
    """A node-level explanation with a value per node and per edge."""
    import numpy as np

    data = random_graph(np.random.default_rng(5), "undirected")
    count = int(data.num_nodes or 0)
    out = Explanation(x=data.x, edge_index=data.edge_index, edge_truth=data.edge_truth)
    out.edge_mask = torch.rand(data.edge_index.shape[1])
    out.undirected, out.hops, out.num_nodes = True, 2, count
    out.node_logits = torch.randn(count, 3)
    out.node_probabilities = out.node_logits.softmax(1)
    out.node_prediction = out.node_logits.argmax(1)
    out.node_y = torch.arange(count) % 3
    return out


def test_a_node_is_explained_within_its_computation_graph(explained: Explanation) -> None:
    for node in range(int(explained.num_nodes)):
        one = explained.of_node(node)
        subset, index, place, mask = k_hop_subgraph(
            node, 2, explained.edge_index, relabel_nodes=True, num_nodes=explained.num_nodes
        )
        assert torch.equal(one.node_id, subset)
        assert torch.equal(one.edge_index, index)
        assert torch.equal(one.edge_mask, explained.edge_mask[mask])
        assert torch.equal(one.edge_truth, explained.edge_truth[mask])
        assert torch.equal(one.x, explained.x[subset])
        assert one.node == node
        assert one.marked == int(place)
        assert int(one.prediction) == int(explained.node_prediction[node])
        assert int(one.y) == node % 3
        assert one.confidence == float(explained.node_probabilities[node].max())
        assert one.get("node_prediction") is None
        assert one.as_dict()["node"] == node


def test_labels_in_y_as_in_pyg(explained: Explanation) -> None:
    explained.y = explained.node_y
    del explained.node_y
    assert int(explained.of_node(1).y) == 1
    assert explained.of_node(2).as_dict()["y"] == 2


def test_a_budget_keeps_the_node(explained: Explanation) -> None:
    for node in range(int(explained.num_nodes)):
        few = explained.of_node(node).top(1)
        assert few.marked is not None
        assert int(few.node_id[few.marked]) == node
        edge = explained.edge_index[:, few.edge_id]
        assert torch.equal(few.node_id[few.edge_index], edge)


def test_an_isolated_node_is_its_own_computation_graph() -> None:
    out = Explanation(edge_index=torch.tensor([[0, 1], [1, 0]]), edge_mask=torch.rand(2))
    out.undirected, out.hops, out.num_nodes = True, 3, 3
    out.node_prediction = torch.tensor([0, 1, 2])
    one = out.of_node(2)
    assert one.num_nodes == 1
    assert one.marked == 0
    assert not one.found


def test_refusals(explained: Explanation) -> None:
    count = int(explained.num_nodes)
    for wrong in (-1, count):
        with pytest.raises(GSATError, match=f"{wrong}.*{count - 1}"):
            explained.of_node(wrong)
    whole = explained.of_node(0)
    with pytest.raises(GSATError, match="whole graphs"):
        whole.of_node(0)
