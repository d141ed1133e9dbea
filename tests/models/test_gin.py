"""GIN: PyG's network with a weight on every message."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GINConv, GINEConv, global_add_pool

from gsat.graphs import GraphBatch, from_pyg
from gsat.models import GIN
from gsat.ops import Draws, gin_layers
from gsat.tasks import Task
from reference import random_graphs

BINARY, THREE = Task("binary"), Task("multiclass", 3)


def lived_in(gin: GIN) -> GIN:
    """As after some training: BatchNorm has seen something, and is in evaluation mode."""
    generator = torch.Generator().manual_seed(0)
    for module in gin.modules():
        if isinstance(module, nn.BatchNorm1d):
            width = module.num_features
            module.running_mean.copy_(torch.randn(width, generator=generator))
            module.running_var.copy_(torch.rand(width, generator=generator) + 0.5)
            module.weight.data.copy_(torch.rand(width, generator=generator) + 0.5)
            module.bias.data.copy_(torch.randn(width, generator=generator))
    return gin.eval()


def make(edge_features: int = 0, task: Task = THREE, **settings: object) -> GIN:
    settings = {"hidden": 16, "layers": 2, **settings}
    return lived_in(GIN(4, task, edge_features=edge_features, **settings))


def batch_of(edge_features: int = 0, **kind: bool) -> GraphBatch:
    return from_pyg(random_graphs(1, edge_features=edge_features, **kind)).batch()


# -- what it computes --------------------------------------------------------------------------


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
    gin, batch = make(edge_features).train(training), batch_of(edge_features, directed=directed)
    theirs = pygs(copy.deepcopy(gin), batch)
    actual = gin(batch, torch.ones(batch.num_edges))
    torch.testing.assert_close(actual, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("edge_features", [0, 1, 3])
def test_gradients_equal_pygs(edge_features: int) -> None:
    gin, batch = make(edge_features).train(), batch_of(edge_features)
    other = copy.deepcopy(gin)
    gin(batch).square().sum().backward()
    pygs(other, batch).square().sum().backward()
    for (name, ours), theirs in zip(gin.named_parameters(), other.parameters(), strict=True):
        # A bias before BatchNorm has no gradient but rounding errors: ours says so.
        actual = torch.zeros_like(ours) if ours.grad is None else ours.grad
        assert ours.grad is not None or name.endswith("inner.bias")
        assert (actual - theirs.grad).norm() < 1e-4 * theirs.grad.norm() + 1e-4, name


@pytest.mark.parametrize("edge_features", [0, 1, 3])
def test_attention_of_zeros_leaves_each_node_alone(edge_features: int) -> None:
    gin, batch = make(edge_features), batch_of(edge_features)
    x = batch.x.double().numpy() @ gin.encoder.weight.double().detach().numpy().T
    x = x + gin.encoder.bias.double().detach().numpy()
    for layer in gin.layers:
        first, norm, second = layer.inner, layer.norm, layer.outer
        w1, b1, w2, b2 = (
            t.double().detach().numpy()
            for t in (first.weight, first.bias, second.weight, second.bias)
        )
        mean, var, gamma, beta = (
            t.double().detach().numpy()
            for t in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
        )
        x = (x @ w1.T + b1 - mean) / np.sqrt(var + 1e-5) * gamma + beta
        x = np.maximum(np.maximum(x, 0) @ w2.T + b2, 0)
    actual = gin.embed(batch, torch.zeros(batch.num_edges))
    np.testing.assert_allclose(actual.detach().numpy(), x, atol=1e-4)
    ptr = batch.node_ptr.tolist()
    pooled = np.stack([x[a:b].sum(0) for a, b in itertools.pairwise(ptr)])
    logits = pooled @ gin.head.weight.double().detach().numpy().T + gin.head.bias.detach().numpy()
    actual = gin(batch, torch.zeros(batch.num_edges))
    np.testing.assert_allclose(actual.detach().numpy(), logits, rtol=1e-4, atol=1e-4)


def test_attention_weighs_every_layer() -> None:
    """With linear messages, dropping an edge by attention is dropping it from the graph."""
    graph = random_graphs(2, 1, awkward=False)[0]
    keep = torch.arange(graph.edge_index.shape[1]) % 3 > 0
    smaller = Data(x=graph.x, edge_index=graph.edge_index[:, keep])
    whole = from_pyg([graph])
    order = whole.arrays["order"]
    gin = make(layers=3)
    actual = gin(whole.batch(), keep[order].float())
    torch.testing.assert_close(actual, gin(from_pyg([smaller]).batch()), rtol=1e-5, atol=1e-5)


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


# -- evaluation and dropout --------------------------------------------------------------------


def test_dropout_follows_the_draws() -> None:
    batch, draws = batch_of(), Draws(0, "test")
    gin = make(dropout=0.4)
    actual = gin.embed(batch, draws=draws)
    x = gin.encoder(batch.x)
    for number, layer in enumerate(gin.layers):
        x = gin_layers(x, batch, None, [None], [layer.mlp])
        x = x * draws.child("dropout", number).keep(batch.node_id, 16, 0.4) / 0.6
    torch.testing.assert_close(actual, x)
    assert torch.equal(gin.embed(batch, draws=draws), actual)
    assert not torch.equal(gin.embed(batch, draws=draws.child(1)), actual)
    assert torch.equal(make(dropout=0.0).embed(batch, draws=draws), make().embed(batch))


# -- construction ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "features", "edge_features", "task", "count"),
    [
        ("BA2", 10, 0, BINARY, 17_665),
        ("Mutag", 14, 0, BINARY, 17_921),
        ("SPMotif", 4, 1, THREE, 25_859),
        ("MNIST", 5, 1, Task("multiclass", 10), 26_378),
        ("SST2", 768, 1, BINARY, 74_625),
    ],
)
def test_parameters(name: str, features: int, edge_features: int, task: Task, count: int) -> None:
    gin = GIN(features, task, edge_features=edge_features)
    assert sum(p.numel() for p in gin.parameters()) == count
    assert gin.config["dropout"] == 0.3
