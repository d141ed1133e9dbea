"""GIN without attention equals PyG's GINConv and GINEConv; test_gsat.py weights its messages."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, GINEConv, global_add_pool

from gsat.graphs import GraphBatch, from_pyg
from gsat.models import GIN
from gsat.tasks import Task
from reference import lived_in, random_graphs


def make(edge_features: int) -> GIN:
    """A network as after some training, in evaluation mode."""
    gin = GIN(4, Task("multiclass", 3), edge_features=edge_features, hidden=16, layers=2)
    return lived_in(gin)


def pygs(gin: GIN, batch: GraphBatch) -> Tensor:
    """The same network from PyG's GINConv or GINEConv."""
    x = gin.encoder(batch.x)
    for layer in gin.layers:
        mlp = nn.Sequential(layer.inner, layer.norm, nn.ReLU(), layer.outer)
        spare = copy.deepcopy(mlp)  # the constructors reset what they are given
        if gin.edge_encoder is None:
            conv = GINConv(spare)
            conv.nn = mlp
            x = conv(x, batch.edge_index)
        else:
            conv = GINEConv(spare, edge_dim=gin.hidden)
            conv.nn, conv.lin = mlp, layer.edge
            x = conv(x, batch.edge_index, gin.edge_encoder(batch.edge_attr))
        x = torch.relu(x)
    return gin.head(global_add_pool(x, batch.node_graph, batch.num_graphs))


@pytest.mark.parametrize("edge_features", [0, 1, 3])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_logits_equal_pygs(edge_features: int, directed: bool, training: bool) -> None:
    gin = make(edge_features).train(training)
    batch = from_pyg(random_graphs(1, edge_features=edge_features, directed=directed)).batch()
    theirs = pygs(copy.deepcopy(gin), batch)
    actual = gin(batch, torch.ones(batch.num_edges))
    torch.testing.assert_close(actual, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("edge_features", [1, 3])
def test_edge_features_matter_and_may_be_integers(edge_features: int) -> None:
    graphs = random_graphs(3, edge_features=edge_features)
    for graph in graphs:
        graph.edge_attr = graph.edge_attr.round().long()
    batch = from_pyg(graphs).batch()
    gin = make(edge_features)
    assert batch.edge_attr is not None
    assert batch.edge_attr.dtype == torch.int64
    float_attr = [g.clone() for g in graphs]
    for graph in float_attr:
        graph.edge_attr = graph.edge_attr.float()
    torch.testing.assert_close(gin(batch), gin(from_pyg(float_attr).batch()), rtol=0, atol=1e-5)
    for graph in graphs:
        graph.edge_attr = graph.edge_attr + 1
    assert not torch.allclose(gin(from_pyg(graphs).batch()), gin(batch), atol=1e-2)
