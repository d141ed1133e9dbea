"""DIR against loops over graphs and complements (check 18 of the spec)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from planted import one_kind_comes_first, planted
from torch import Tensor
from torch.optim import Adam
from torch_geometric.data import Data
from torch_geometric.nn import LEConv, MessagePassing

import gsat
from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, from_pyg
from gsat.methods import Context, TrainingSettings
from gsat.methods.dir import DIR, DIRMethod, DIRSettings, LEConvGenerator
from gsat.models import LEConvNet
from gsat.models.leconv import LEConvLayer
from gsat.ops import Draws
from gsat.tasks import Task
from gsat.training.loop import Loop
from gsat.training.recipe import make_recipe
from reference import random_graphs

TASKS = {"multiclass": Task("multiclass", 3), "binary": Task("binary")}


def labelled(seed: int, kind: str = "multiclass", **how: Any) -> GraphBatch:
    """Graphs of every kind, awkward ones among them, with random labels."""
    graphs = random_graphs(seed, 6, **how)
    draw = torch.Generator().manual_seed(seed)
    for graph in graphs:
        if kind == "multiclass":
            graph.y = torch.randint(3, (1,), generator=draw)
        else:
            graph.y = torch.randint(2, (1, 1), generator=draw).float()
    return from_pyg(graphs).batch()


@pytest.fixture
def made() -> Callable[..., DIRMethod]:
    """``made(kind, backbone, **settings)``: a small DIR, ready to train, with dropout off."""

    def make(kind: str = "multiclass", backbone: Any = gsat.GIN, **settings: Any) -> DIRMethod:
        network = backbone(4, TASKS[kind], hidden=6, layers=2, dropout=0.0, seed=1)
        training = TrainingSettings(lr=0.01, epochs=3)
        method = DIRMethod.create(network, DIRSettings(**settings), training, seed=1)
        method.begin("train")
        return method

    return make


def at(epoch: int, step: int = 0, steps: int = 1) -> Context:
    return Context("train", epoch, Draws(3, epoch), step, steps)


# -- causal and complement -------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.01, 0.25, 0.5, 0.99])
def test_causal_edges_of_each_graph(ratio: float) -> None:
    batch = labelled(1)
    model = DIR(gsat.GIN(4, TASKS["multiclass"], hidden=6), ratio=ratio)
    scores = torch.randn(batch.num_edges, generator=torch.Generator().manual_seed(1))
    causal = model.causal_edges(scores, batch)
    for graph in range(batch.num_graphs):
        own = batch.edge_graph == graph
        edges = int(own.sum())
        k = min(max(int(ratio * edges), 1), edges - 1) if edges > 1 else edges
        assert int(causal[own].sum()) == k
        if 0 < k < edges:
            assert scores[own & causal].min() >= scores[own & ~causal].max()


@pytest.mark.parametrize("backbone", [gsat.GIN, gsat.PNA, LEConvNet])
@pytest.mark.parametrize("features", ["embeddings", "raw"])
def test_a_part_is_embedded_like_a_separate_graph(backbone: Any, features: str) -> None:
    """Graph by graph, with edges outside of the part and untouched nodes left out by hand."""
    batch = labelled(2)
    model = DIR(backbone(4, TASKS["multiclass"], hidden=6), features=features).eval()  # type: ignore[arg-type]
    draw = torch.Generator().manual_seed(5)
    keep = torch.rand(batch.num_edges, generator=draw) < 0.4
    weight = torch.rand(batch.num_edges, generator=draw)
    z, _ = model.score(batch)
    read = model.represent(batch, z, keep, weight)
    assert read.shape == (batch.num_graphs, 6)
    empty = 0
    for graph in range(batch.num_graphs):
        edges = (keep & (batch.edge_graph == graph)).nonzero()[:, 0]
        if not len(edges):
            assert not read[graph].any()
            empty += 1
            continue
        nodes, index = batch.edge_index[:, edges].unique(return_inverse=True)
        x = (z if features == "embeddings" else batch.x)[nodes].detach()
        alone = from_pyg([Data(x=x, edge_index=index)])
        one = alone.batch()
        order = torch.from_numpy(alone.arrays["order"])
        expected = model.backbone(one, weight[edges][order])
        torch.testing.assert_close(read[graph], expected[0], rtol=1e-4, atol=1e-5)
    assert empty


def test_the_generator_of_the_published_network() -> None:
    batch = labelled(3)
    model = DIR(LEConvNet(4, TASKS["multiclass"], hidden=32), predictor_hidden=64)
    assert isinstance(model.generator, LEConvGenerator)
    assert isinstance(model.backbone, LEConvNet)
    assert model.backbone.encoder.in_features == 32
    assert model.backbone.hidden == 64
    shapes = [tuple(layer.own.weight.shape) for layer in model.generator.layers]
    assert shapes == [(32, 4), (32, 32)]
    assert [tuple(w.shape) for w in model.scorer.parameters()][::2] == [(128, 64), (1, 128)]
    assert [tuple(w.shape) for w in model.causal.parameters()][::2] == [(128, 64), (3, 128)]
    x = batch.x
    for number, layer in enumerate(model.generator.layers):
        theirs = LEConv(layer.own.in_features, 32)
        theirs.lin1, theirs.lin2, theirs.lin3 = layer.source, layer.centre, layer.own
        x = theirs(x, batch.edge_index)
        x = x if number else x.relu()
    z, s = model.score(batch)
    torch.testing.assert_close(z, x)
    ends = torch.cat([z[batch.src], z[batch.dst]], dim=1)
    torch.testing.assert_close(s, model.scorer(ends)[:, 0])


# -- the losses ------------------------------------------------------------------------------------


def naive(
    method: DIRMethod, batch: GraphBatch, epoch: int, kind: str, each_graph: bool
) -> dict[str, Tensor]:
    """The losses by loops over pairs of a graph and a complement."""
    model, settings = method.model, method.settings
    z, s = model.score(batch)
    causal = model.causal_edges(s, batch)
    answers = model.causal(model.represent(batch, z, causal, torch.sigmoid(s)))
    beside = model.represent(batch, z, ~causal, torch.sigmoid(-s)).detach()
    gates = method.complement(beside)
    assert batch.y is not None

    def loss(logits: Tensor, graph: int) -> Tensor:
        if kind == "multiclass":
            return -torch.log_softmax(logits, 0)[batch.y[graph]]  # type: ignore[index]
        return F.softplus(logits[0] * (1 - 2 * batch.y[graph, 0]))  # type: ignore[index]

    graphs = range(batch.num_graphs)
    table = [[loss(answers[i] * gates[j].detach().sigmoid(), i) for i in graphs] for j in graphs]
    risks = torch.stack([torch.stack(row) for row in table])
    mean = risks.mean(dim=1)
    variance = ((len(graphs) * mean - len(graphs) * mean.mean()) ** 2).sum() / (len(graphs) - 1)
    if each_graph:
        variance = torch.stack([column.var() for column in risks.T]).mean()
    alpha = settings.alpha * epoch**1.6
    parts = {
        "loss": torch.stack([loss(answers[i], i) for i in graphs]).mean(),
        "risk": mean.mean(),
        "variance": variance,
        "complement": torch.stack([loss(method.extra(gates[i]), i) for i in graphs]).mean(),
    }
    total = parts["loss"] + alpha * (parts["risk"] + variance) + parts["complement"]
    return {**parts, "total": total}


@pytest.mark.parametrize("kind", list(TASKS))
@pytest.mark.parametrize(
    "settings", [{}, {"variance": "graph", "features": "raw"}, {"extra_linear": True}]
)
def test_losses_and_gradients_equal_a_loop_over_complements(
    kind: str, settings: dict[str, Any], made: Callable[..., DIRMethod]
) -> None:
    batch, method = labelled(4, kind), made(kind, alpha=0.1, **settings)
    twin = copy.deepcopy(method)
    actual = method.losses(batch, at(4))
    expected = naive(twin, batch, 4, kind, settings.get("variance") == "graph")
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=1e-4, atol=1e-5)
    actual["total"].backward()
    expected["total"].backward()
    for name, network in method.networks().items():
        theirs = dict(twin.networks()[name].named_parameters())
        for at_, weights in network.named_parameters():
            torch.testing.assert_close(
                weights.grad, theirs[at_].grad, rtol=1e-3, atol=1e-4, msg=f"{name} {at_}"
            )


@pytest.mark.parametrize("backbone", [gsat.GIN, gsat.PNA])
@pytest.mark.parametrize("statistics", ["causal", "both"])
def test_evaluation_uses_statistics_of_causal_parts(
    backbone: Any, statistics: str, made: Callable[..., DIRMethod]
) -> None:
    """One pass over the causal parts, or one over each of the two, by hand."""
    batch, method = labelled(4), made(backbone=backbone, statistics=statistics)
    twin = copy.deepcopy(method.model)
    method.losses(batch, at(3))
    z, s = twin.score(batch)
    causal = twin.causal_edges(s, batch)
    twin.represent(batch, z, causal, torch.sigmoid(s))
    if statistics == "both":
        twin.represent(batch, z, ~causal, torch.sigmoid(-s))
    expected = dict(twin.backbone.named_buffers())
    assert expected
    for name, actual in method.model.backbone.named_buffers():
        torch.testing.assert_close(actual, expected[name], msg=name)


def test_a_step_per_epoch_is_a_step_on_the_mean_of_the_batches(
    made: Callable[..., DIRMethod],
) -> None:
    batches = [labelled(seed) for seed in (1, 2, 3)]
    method = made(step="epoch", alpha=0.01)
    twin = copy.deepcopy(method)
    twin.begin("train")
    for epoch in range(2):
        before = copy.deepcopy(method.model.causal.state_dict())
        for number, batch in enumerate(batches):
            unchanged = method.model.causal.state_dict()
            assert all(torch.equal(before[name], w) for name, w in unchanged.items())
            method.step(batch, at(epoch, number, 3))
        total = torch.stack([twin.losses(batch, at(epoch))["total"] for batch in batches]).mean()
        twin.optimiser.zero_grad()
        total.backward()
        twin.optimiser.step()
    for ours, theirs in zip(method.model.parameters(), twin.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("graphs", [1, 2])
def test_batches_without_complements(graphs: int, made: Callable[..., DIRMethod]) -> None:
    """One graph, and graphs without edges: still numbers, still a step."""
    bare = [random_graphs(seed, 1)[-1] for seed in range(graphs)]
    assert not any(graph.num_edges for graph in bare)
    whole = random_graphs(1, graphs, awkward=False)
    method = made()
    for some in (bare, whole):
        for graph in some:
            graph.y = torch.tensor([1])
        parts = method.step(from_pyg(some).batch(), at(2))
        assert all(torch.isfinite(value) for value in parts.values())
        assert graphs > 1 or not parts["variance"].any()


def test_labels_of_nodes_are_refused() -> None:
    with pytest.raises(GSATError, match="labels of graphs"):
        DIR(gsat.GIN(4, Task("multiclass", 3, level="node")))


# -- the authors' definition -----------------------------------------------------------------------


class WeightedLEConv(MessagePassing):
    """LEConv with its messages multiplied by a mask, on the weights of one of ours."""

    def __init__(self, layer: LEConvLayer) -> None:
        super().__init__(aggr="add")
        self.layer = layer

    def forward(self, x: Tensor, edge_index: Tensor, attr: Tensor, mask: Tensor) -> Tensor:
        a, b = self.layer.source(x), self.layer.centre(x)
        out = self.propagate(edge_index, a=a, b=b, attr=attr, mask=mask)
        return out + self.layer.own(x)

    def message(self, a_j: Tensor, b_i: Tensor, attr: Tensor, mask: Tensor) -> Tensor:
        return mask[:, None] * attr[:, None] * (a_j - b_i)


class Authors:
    """DIR on Spurious-Motif from its definition, graph by graph and complement by complement."""

    def __init__(self, method: DIRMethod) -> None:
        twin = copy.deepcopy(method)
        self.model, self.complement, self.extra = twin.model, twin.complement, twin.extra
        self.settings, head = twin.settings, [*twin.complement.parameters()]
        head += self.extra.parameters()
        self.main = Adam(self.model.parameters(), 0.01)
        self.other = Adam(head, 0.01)

    def embed(self, x: Tensor, index: Tensor, attr: Tensor, mask: Tensor) -> Tensor:
        """The mean over the nodes of one part."""
        x = self.model.backbone.encoder(x)
        for layer in self.model.backbone.layers:
            x = WeightedLEConv(layer)(x, index, attr, mask).relu()
        return x.mean(dim=0)

    def batch(self, graphs: list[Data], epoch: int) -> tuple[Tensor, Tensor]:
        causal, rest = [], []
        for graph in graphs:
            x, (src, dst) = graph.x, graph.edge_index
            ones = torch.ones(graph.num_edges).double()
            layers = list(self.model.generator.layers)
            for number, layer in enumerate(layers):
                x = WeightedLEConv(layer)(x, graph.edge_index, graph.edge_attr[:, 0], ones)
                x = x if number == len(layers) - 1 else x.relu()
            score = self.model.scorer(torch.cat([x[src], x[dst]], dim=1))[:, 0]
            count = int(self.settings.ratio * graph.num_edges)
            order = np.argpartition(-score.detach().numpy(), count)
            for chosen, sign, parts in ((order[:count], 1, causal), (order[count:], -1, rest)):
                nodes, index = graph.edge_index[:, chosen].unique(return_inverse=True)
                mask = (sign * score[chosen]).sigmoid()
                parts.append(self.embed(x[nodes], index, graph.edge_attr[chosen, 0], mask))
        y = torch.cat([graph.y for graph in graphs])
        answers = self.model.causal(torch.stack(causal))
        beside = torch.stack(rest).detach()
        risks = []
        for one in beside:
            gate = self.complement(one).detach().sigmoid()
            risks.append(F.cross_entropy(gate * answers, y))
        weight = self.settings.alpha * epoch**1.6
        loss = F.cross_entropy(answers, y) + weight * torch.stack(risks).mean()
        loss = loss + weight * torch.var(torch.stack(risks) * len(beside))
        return loss, F.cross_entropy(self.extra(self.complement(beside)), y)

    def epoch(self, batches: list[list[Data]], epoch: int) -> tuple[Tensor, Tensor]:
        """One step of two Adams on the losses of all batches."""
        losses = [self.batch(graphs, epoch) for graphs in batches]
        loss, beside = (torch.stack(one).mean() for one in zip(*losses, strict=True))
        self.other.zero_grad()
        beside.backward()
        self.other.step()
        self.main.zero_grad()
        loss.backward()
        self.main.step()
        return loss.detach(), beside.detach()


def test_epochs_are_those_of_the_authors_definition() -> None:
    """Losses, gradients and weights in double precision, with the settings of the recipe."""
    settings = make_recipe("spmotif-0.5", backbone="leconv", method="dir").settings
    network = LEConvNet(4, TASKS["multiclass"], edge_features=1, hidden=6, seed=1)
    method = DIRMethod.create(network, settings, TrainingSettings(lr=0.01, epochs=9), seed=1)
    for one in method.networks().values():
        one.double()
    method.begin("train")
    authors = Authors(method)
    batches = []
    for seed in (1, 2):
        graphs = random_graphs(seed, 5, awkward=False, edge_features=1)
        for number, graph in enumerate(graphs):
            graph.y = torch.tensor([number % 3])
            graph.x, graph.edge_attr = graph.x.double(), graph.edge_attr.double()
        batches.append(graphs)
    for epoch in (0, 7, 20):
        loss, beside = authors.epoch(batches, epoch)
        parts = []
        for number, graphs in enumerate(batches):
            batch = from_pyg(graphs).batch()
            exact = replace(batch, x=batch.x.double(), edge_attr=batch.edge_attr.double())
            parts.append(method.step(exact, at(epoch, number, 2)))
        total = sum(part["total"].detach() for part in parts) / 2
        torch.testing.assert_close(total, loss + beside, rtol=1e-11, atol=1e-12)
        for ours, theirs in (
            (method.model, authors.model),
            (method.complement, authors.complement),
            (method.extra, authors.extra),
        ):
            expected = dict(theirs.named_parameters())
            for name, weights in ours.named_parameters():
                torch.testing.assert_close(
                    weights.grad, expected[name].grad, rtol=1e-8, atol=1e-11, msg=name
                )
                torch.testing.assert_close(weights, expected[name], rtol=1e-8, atol=1e-9, msg=name)


# -- runs ------------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_planted_edge_comes_first() -> None:
    data = planted()
    backbone = gsat.GIN.for_data(data, hidden=16, layers=1, dropout=0.0, seed=1)
    training = TrainingSettings(epochs=15, batch_size=40, lr=0.01)
    settings = DIRSettings(ratio=0.1, features="raw")
    method = DIRMethod.create(backbone, settings, training, seed=1)
    result = Loop(method, data, batch_size=40, seed=1).train()
    assert result["test"]["accuracy"] == 1
    assert one_kind_comes_first(method.model, data)


@pytest.mark.parametrize("backbone", [gsat.GIN, gsat.PNA, LEConvNet])
def test_a_saved_model_explains_graphs_with_the_features_of_the_data(
    backbone: Any, tmp_path: Path
) -> None:
    data = gsat.load_dataset("ba2motifs", graphs=20)
    made = DIR(backbone.for_data(data, hidden=8)).eval()
    made.save(tmp_path)
    model, batch = gsat.load(tmp_path), data.test.batch()
    assert torch.equal(model.predict(data.test).logits, made.predict(data.test).logits)
    assert model.network["in_features"] == batch.x.shape[1]
    assert model.embed(batch).shape == (batch.num_nodes, 8)
    # Both directions of an undirected edge say the same.
    dense = torch.zeros(25, 25)
    dense[tuple(data.test[0].edge_index)] = model.explain(data.test[0]).edge_mask
    torch.testing.assert_close(dense, dense.T)
    with pytest.raises(GSATError, match="node features"):
        model.predict(random_graphs(1, features=3))


def test_training_may_end_early_as_in_the_authors_code(made: Callable[..., DIRMethod]) -> None:
    recipe = make_recipe("spmotif-0.5", backbone="leconv", method="dir")
    network = LEConvNet(4, TASKS["multiclass"], hidden=6)
    method = DIRMethod.create(network, recipe.settings, recipe.training, seed=0)
    (phase,) = method.phases()
    assert (phase.epochs, phase.selectable_from, phase.patience) == (400, 10, 5)
    (phase,) = made(selectable_from=10).phases()  # of 3 epochs, the last one is selectable
    assert (phase.selectable_from, phase.patience) == (2, None)


@pytest.mark.parametrize(("step", "taken"), [("epoch", 2), ("batch", 6)])
def test_the_loop_numbers_the_steps_of_an_epoch(step: str, taken: int) -> None:
    data = gsat.load_dataset("ba2motifs", graphs=60)  # 48 to train on
    training = TrainingSettings(epochs=2, batch_size=16)
    backbone = gsat.GIN.for_data(data, hidden=8, layers=1)
    method = DIRMethod.create(backbone, DIRSettings(step=step), training, seed=0)  # type: ignore[arg-type]
    Loop(method, data, batch_size=16, seed=0).train()
    assert int(method.optimiser.state[method.model.causal[0].weight]["step"]) == taken


def test_the_predictor_has_the_generators_mean_degree() -> None:
    scaled = {"scalers": ["identity", "amplification"], "mean_log_degree": 1.75}
    model = DIR(gsat.PNA(4, TASKS["binary"], hidden=8, layers=1, **scaled))
    assert float(model.backbone.mean_log_degree) == 1.75
