"""The LEConv network against PyG's layers, and its scalar edge attribute."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import LEConv, global_mean_pool

from gsat.core.errors import DataError
from gsat.datasets.load import Dataset
from gsat.graphs import GraphBatch, from_pyg
from gsat.models import LEConvNet
from gsat.tasks import Task
from reference import random_graphs, whole

THREE = Task("multiclass", 3)


def make(edge_features: int = 0, **settings: float) -> LEConvNet:
    return LEConvNet(4, THREE, edge_features=edge_features, **settings)


def batch_of(edge_features: int = 0) -> GraphBatch:
    return from_pyg(random_graphs(1, edge_features=edge_features, directed=True)).batch()


def pygs(net: LEConvNet, batch: GraphBatch, weight: Tensor | None) -> Tensor:
    """The same network from PyG's LEConv with edge weights."""
    x = net.encoder(batch.x.to(net.encoder.weight.dtype))
    if net.config["edge_features"]:
        attribute = batch.edge_attr[:, 0].to(x.dtype)
        weight = attribute if weight is None else attribute * weight
    for layer in net.layers:
        conv = LEConv(net.hidden, net.hidden)
        conv.lin1, conv.lin2, conv.lin3 = layer.source, layer.centre, layer.own
        x = torch.relu(conv(x, batch.edge_index, weight))
    return net.head(global_mean_pool(x, batch.node_graph, batch.num_graphs))


@pytest.mark.parametrize("edge_features", [0, 1])
@pytest.mark.parametrize("attended", [False, True])
def test_values_and_gradients_equal_pygs(edge_features: int, attended: bool) -> None:
    net, batch = make(edge_features), batch_of(edge_features)
    exact = copy.deepcopy(net).double()
    weight = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(1))
    ours = weight.clone().requires_grad_() if attended else None
    theirs = weight.double().requires_grad_() if attended else None
    actual, expected = net(batch, ours), pygs(exact, batch, theirs)
    torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-5)
    actual.square().sum().backward()
    expected.square().sum().backward()
    pairs = list(zip(net.parameters(), exact.parameters(), strict=True))
    for p, q in [*pairs, *([(ours, theirs)] if attended else [])]:
        assert q.grad.norm() > 1e-3
        assert (p.grad - q.grad).norm() < 1e-4 * q.grad.norm()


def data_with(edge_features: int) -> Dataset:
    return whole(from_pyg(random_graphs(6, edge_features=edge_features)), THREE)


def test_only_scalar_edge_attributes_are_accepted() -> None:
    data = data_with(1)
    assert LEConvNet.for_data(data).config["edge_features"] == 1
    assert LEConvNet.for_data(data, edge_features=False).config["edge_features"] == 0
    with pytest.raises(DataError, match="one number each"):
        LEConvNet.for_data(data_with(3))
    assert LEConvNet.for_data(data_with(3), edge_features=False).config["edge_features"] == 0
    with pytest.raises(DataError, match="needs edge feature"):
        make(1)(batch_of(0))
