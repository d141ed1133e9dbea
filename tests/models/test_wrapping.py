"""`gsat.wrap`: a network of the user's own as a backbone of GSAT."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

import gsat
from gsat.core.errors import DataError, GSATError
from gsat.graphs import from_pyg
from gsat.models.wrapping.wrap import Wrapped
from gsat.ops import Draws
from gsat.tasks import Task
from reference import random_graphs

THREE, BINARY = Task("multiclass", 3), Task("binary")


def gcn(**settings: Any) -> nn.Module:
    torch.manual_seed(1)
    return pyg.GCN(4, 16, num_layers=3, **{"dropout": 0.5, **settings})


class Classifier(nn.Module):
    """Node features to the logits of graphs, layers in another order than they run in."""

    def __init__(self, out: int = 3) -> None:
        super().__init__()
        self.out = nn.Linear(6, out)
        self.last = pyg.GraphConv(5, 6)
        self.first = pyg.SAGEConv(4, 5)
        self.act = nn.ReLU()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        x = self.act(self.last(torch.relu(self.first(x, edge_index)), edge_index))
        return self.out(pyg.global_mean_pool(x, batch, batch_size))


# -- embeddings, logits, explanations --------------------------------------------------------------


def test_node_embeddings_are_pooled_and_classified() -> None:
    module, listed = gcn(), random_graphs(0)
    backbone = gsat.wrap(module, task=THREE, seed=5)
    assert isinstance(backbone, Wrapped)
    batch, both = from_pyg(listed).batch(), Batch.from_data_list(listed)
    nodes = module.eval()(both.x, both.edge_index)
    torch.testing.assert_close(backbone.embed(batch), nodes)
    pooled = pyg.global_add_pool(nodes, both.batch, len(listed))
    torch.testing.assert_close(backbone(batch), backbone.head(pooled))
    again, other = (gsat.wrap(module, THREE, seed=s).head.weight for s in (5, 6))
    assert torch.equal(backbone.head.weight, again)
    assert not torch.equal(backbone.head.weight, other)


def test_logits_come_from_the_network_and_embeddings_from_its_last_layer() -> None:
    torch.manual_seed(0)
    module, listed = Classifier(), random_graphs(1)
    backbone = gsat.wrap(module, task=THREE)
    batch, both = from_pyg(listed).batch(), Batch.from_data_list(listed)
    torch.testing.assert_close(
        backbone(batch), module(both.x, both.edge_index, both.batch, len(listed))
    )
    hidden = torch.relu(module.first(both.x, both.edge_index))
    embeddings = module.last(hidden, both.edge_index)
    torch.testing.assert_close(backbone.embed(batch), embeddings)
    assert backbone.hidden == 6
    named = gsat.wrap(module, task=THREE, embed="act")
    torch.testing.assert_close(named.embed(batch), torch.relu(embeddings))
    first = gsat.wrap(module, task=THREE, embed="first")
    assert first.hidden == 5
    assert [p for p, _ in backbone.named_parameters()] == [
        f"module.{p}" for p, _ in module.named_parameters()
    ]


@pytest.mark.parametrize("on", ["edge", "node"])
def test_a_wrapped_network_predicts_and_explains(on: str) -> None:
    torch.manual_seed(0)
    listed = random_graphs(2)
    for module in (gcn(), Classifier()):
        model = gsat.GSAT(gsat.wrap(module, task=THREE), attention=on)
        actual = model.explain(listed)
        assert torch.equal(model.predict(listed).logits, torch.stack([e.logits for e in actual]))
        graph, order = listed[0], torch.randperm(listed[0].edge_index.shape[1])
        moved = model.explain(Data(x=graph.x, edge_index=graph.edge_index[:, order]))
        torch.testing.assert_close(moved.edge_mask, actual[0].edge_mask[order])
        # The answer is the network's own on the graph with these weights.
        weight = actual[0].edge_mask
        if isinstance(module, pyg.GCN):
            nodes = module.eval()(graph.x, graph.edge_index, edge_weight=weight)
            expected = model.backbone.head(nodes.sum(0))
            torch.testing.assert_close(actual[0].logits, expected, rtol=1e-4, atol=1e-5)


def test_networks_get_edge_attributes_if_they_take_them() -> None:
    torch.manual_seed(0)
    listed = random_graphs(3, awkward=False, edge_features=2)
    batch, both = from_pyg(listed).batch(), Batch.from_data_list(listed)
    wants = pyg.GAT(4, 8, num_layers=2, edge_dim=2)
    backbone = gsat.wrap(wants, THREE)
    torch.testing.assert_close(
        backbone.embed(batch), wants(both.x, both.edge_index, edge_attr=both.edge_attr)
    )
    assert backbone.config["edge_features"] == 2
    # PyG's own PNA breaks on attributes it was not built for.
    settings: Any = {"aggregators": ["max"], "scalers": ["identity"], "deg": torch.tensor([1, 1])}
    without = pyg.PNA(4, 8, num_layers=2, **settings)
    actual = gsat.wrap(without, THREE).embed(batch)
    torch.testing.assert_close(actual, without(both.x, both.edge_index))


def test_integers_stay_integers_for_embeddings() -> None:
    class Types(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.types, self.conv = nn.Embedding(5, 8), pyg.GCNConv(8, 8)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(self.types(x[:, 0]), edge_index)

    listed = random_graphs(4, awkward=False)
    for number, graph in enumerate(listed):
        graph.x = torch.arange(graph.num_nodes or 0)[:, None] % 5
        graph.y = torch.tensor([number % 3])
    with pytest.raises(GSATError, match="example="):
        gsat.wrap(Types(), THREE)
    model = gsat.GSAT(gsat.wrap(Types(), THREE, example=listed[0]))
    assert model.predict(listed).logits.shape == (len(listed), 3)
    counts = gsat.wrap(gcn(), THREE).embed  # elsewhere they are numbers like others
    for graph in listed:
        graph.x = graph.x.repeat(1, 4)
    assert counts(from_pyg(listed).batch()).is_floating_point()


def test_a_sequential_network_and_double_precision() -> None:
    torch.manual_seed(0)
    conv = [(pyg.GraphConv(4, 8), "x, edge_index -> x"), nn.ReLU()]
    module = pyg.Sequential("x, edge_index", [*conv, (pyg.GraphConv(8, 8), "x, edge_index -> x")])
    listed = random_graphs(5, awkward=False)
    batch, both = from_pyg(listed).batch(), Batch.from_data_list(listed)
    expected = module(both.x, both.edge_index)
    backbone = gsat.wrap(module, THREE)
    torch.testing.assert_close(backbone.embed(batch), expected)
    zeros = backbone.embed(batch, torch.zeros(batch.num_edges))
    bare = module(both.x, both.edge_index[:, :0])
    torch.testing.assert_close(zeros, bare)
    model = gsat.GSAT(backbone).double()
    assert model.predict(listed).logits.dtype == torch.float64


# -- randomness -----------------------------------------------------------------------------------


def test_dropout_is_a_function_of_the_draws_and_the_graphs() -> None:
    store, backbone = from_pyg(random_graphs(6)), gsat.wrap(gcn(), THREE)
    batch, other = store.batch([3, 4, 5]), store.batch([4, 3, 5])
    before = torch.get_rng_state()
    actual = backbone(batch, draws=Draws(0))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert torch.equal(backbone(batch, draws=Draws(0)), actual)
    assert not torch.equal(backbone(batch, draws=Draws(1)), actual)
    # Another step of the same epoch drops something else, even on graphs of the same size.
    moved = backbone(other, draws=Draws(0))
    assert not torch.allclose(moved[[1, 0, 2]], actual)
    twins = from_pyg([random_graphs(6)[3]] * 2)
    first, second = (backbone(twins.batch([i]), draws=Draws(0)) for i in range(2))
    assert not torch.allclose(first, second)


def test_without_draws_nothing_is_dropped() -> None:
    backbone, batch = gsat.wrap(gcn(norm="batch_norm"), THREE), from_pyg(random_graphs(7)).batch()
    before = copy.deepcopy(backbone.state_dict())
    actual = backbone.train()(batch)
    assert torch.equal(actual, backbone.eval()(batch))
    assert all(torch.equal(before[k], v) for k, v in backbone.state_dict().items())


# -- mistakes -------------------------------------------------------------------------------------


class TakesData(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(4, 8)

    def forward(self, data: Data) -> Tensor:
        return self.conv(data.x, data.edge_index)


class OneGraph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(4, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index).sum(0, keepdim=True)


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 8)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.lin(x)


class Unused(Dense):
    def __init__(self) -> None:
        super().__init__()
        self.conv = pyg.GCNConv(4, 8)


class Tuple(OneGraph):
    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        return self.conv(x, edge_index), x


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear(4, 8), "must take x and edge_index"),
        (TakesData(), r"must take x and edge_index.* it takes data"),
        (Dense(), "Dense has no message-passing layer"),
        (Unused(), "no message-passing layer of Unused was used"),
        (OneGraph(), "one row for a batch of 2 graphs"),
        (Classifier(out=2), r"logits \[2, 3\].* not \[2, 2\]"),
        (Tuple(), "not tuple"),
        (gcn(cached=True), "cached=False"),
        (pyg.GCN(-1, 16, num_layers=2), "without a shape"),
        (pyg.GINEConv(nn.Linear(4, 4), edge_dim=2), r"x .*example="),
        ("a network", "torch.nn.Module was needed, not a str"),
        (pyg.HeteroConv({("a", "b", "a"): pyg.GCNConv(4, 4)}), "nodes of several kinds"),
    ],
)
def test_invalid_networks_are_refused_in_one_line(module: Any, message: str) -> None:
    with pytest.raises(GSATError, match=message) as error:
        gsat.wrap(module, task=THREE)
    assert "\n" not in str(error.value)


def test_a_wrong_name_to_embed_with() -> None:
    with pytest.raises(GSATError, match=r"no submodule 'lats'.*first"):
        gsat.wrap(Classifier(), THREE, embed="lats")
    unused = Classifier()
    unused.spare = nn.Linear(2, 2)
    with pytest.raises(GSATError, match="embed='spare' was not used"):
        gsat.wrap(unused, THREE, embed="spare")
    with pytest.raises(GSATError, match=r"embed='out' gives \[2, 3\]"):
        gsat.wrap(Classifier(), THREE, embed="out")


def test_a_failed_trial_asks_for_an_example() -> None:
    class Squared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = pyg.GCNConv(8, 5)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv(torch.cat([x, x**2], dim=1), edge_index)

    with pytest.raises(GSATError, match=r"x \[6, 8\].*example="):
        gsat.wrap(Squared(), THREE)
    assert gsat.wrap(Squared(), THREE, example=random_graphs(0)).hidden == 5
    with pytest.raises(GSATError, match="a graph with edges"):
        gsat.wrap(Squared(), THREE, example=random_graphs(0)[1])


def test_graphs_with_other_features_are_refused() -> None:
    model = gsat.GSAT(gsat.wrap(gcn(), THREE))
    with pytest.raises(DataError, match="4 node features, these have 3"):
        model.predict(random_graphs(0, features=3))
    pooled = Classifier()
    torch.testing.assert_close(  # a graph without nodes at the end is one, with batch_size
        gsat.GSAT(gsat.wrap(pooled, THREE)).predict(random_graphs(0)[:3]).logits[2],
        pooled.out(torch.zeros(6)),
    )


class PlainGIN(nn.Module):
    """Our GIN written with PyG's layers, sharing its weights."""

    def __init__(self, gin: gsat.GIN) -> None:
        super().__init__()
        self.encoder, self.head = gin.encoder, gin.head
        self.convs = nn.ModuleList(
            pyg.GINConv(nn.Sequential(layer.inner, layer.norm, nn.ReLU(), layer.outer))
            for layer in gin.layers
        )
        self.act = nn.ReLU()

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        x = self.encoder(x)
        for conv in self.convs:
            x = self.act(conv(x, edge_index))
        return self.head(pyg.global_add_pool(x, batch, batch_size))


@pytest.mark.parametrize("on", ["edge", "node"])
def test_a_wrapped_gin_is_trained_as_our_own(on: str) -> None:
    """The same step, the same losses and slopes: all of GSAT, written twice."""
    gin = gsat.GIN(4, THREE, hidden=16, dropout=0.0, seed=1)
    plain = copy.deepcopy(gin)
    module = PlainGIN(plain)
    plain.load_state_dict(gin.state_dict())  # PyG's layers initialise what they are given
    ours = gsat.GSAT(gin, on, seed=2)
    theirs = gsat.GSAT(gsat.wrap(module, THREE, embed="act"), on, seed=2)
    batch = from_pyg(random_graphs(9)).batch()
    y = torch.arange(batch.num_graphs) % 3
    for step in range(2):
        output, same = (model(batch, Draws(step)) for model in (ours, theirs))
        for actual, expected in zip(same, output, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
        for answer in (output, same):
            (THREE.loss(answer.logits, y) + answer.attention.mean()).backward()
    for (name, one), other in zip(gin.named_parameters(), plain.parameters(), strict=True):
        if not name.endswith("inner.bias"):  # batch norm takes it away again: its slope is noise
            torch.testing.assert_close(other.grad, one.grad, rtol=1e-3, atol=1e-5, msg=name)
    for one, other in zip(gin.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5)


def test_labels_of_nodes() -> None:
    task = Task("multiclass", 3, level="node")
    backbone = gsat.wrap(pyg.GCN(4, 8, num_layers=3), task)
    assert backbone.hops == 3
    batch = from_pyg(random_graphs(5, 4)).batch()
    assert backbone(batch).shape == (batch.num_nodes, 3)
    some = replace(batch, targets=torch.tensor([2, 5]))
    torch.testing.assert_close(backbone(some), backbone(batch)[[2, 5]])
