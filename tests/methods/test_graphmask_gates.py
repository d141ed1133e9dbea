"""GraphMask's gates on the messages of GIN, PNA and LEConv, and its Lagrangian."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from post_hoc_planted import planted_gin, planted_graphs
from torch import Tensor

import gsat
from gsat.graphs import GraphBatch, from_pyg
from gsat.methods import Context
from gsat.methods.base import TrainingSettings
from gsat.methods.graphmask import GraphMask, GraphMaskMethod, GraphMaskSettings
from gsat.methods.post_hoc import EXPLAIN
from gsat.models.backbone import GatedBackbone
from gsat.ops import Draws
from gsat.tasks import Task
from reference import lived_in, random_graphs

THREE = Task("multiclass", 3)
CASES = [
    ("gin", 0), ("gin", 1), ("gin", 3), ("pna", 0), ("pna", 1), ("pna", 3), ("leconv", 0),
    ("leconv", 1),
]  # fmt: skip


def make(name: str, edge_features: int, **settings: Any) -> GatedBackbone:
    kind = {"gin": gsat.GIN, "pna": gsat.PNA, "leconv": gsat.LEConvNet}[name]
    return lived_in(kind(4, THREE, edge_features=edge_features, hidden=8, layers=2, **settings))


def batch_of(edge_features: int = 0) -> GraphBatch:
    graphs = random_graphs(1, edge_features=edge_features)
    rng = torch.Generator().manual_seed(4)
    for graph in graphs:  # the data's own weights count, too
        graph.edge_weight = torch.rand(graph.num_edges, generator=rng)
    return from_pyg(graphs).batch()


def method(allowance: float = 0.03, **settings: Any) -> GraphMaskMethod:
    chosen = GraphMaskSettings(allowance=allowance, **settings)
    training = TrainingSettings.model_validate({})
    made = GraphMaskMethod.create(planted_gin(), chosen, training, seed=0)
    made.begin(EXPLAIN)
    return made


@pytest.mark.parametrize(("name", "edge_features"), CASES)
def test_open_gates_change_nothing(name: str, edge_features: int) -> None:
    model = GraphMask(make(name, edge_features))
    batch = batch_of(edge_features)
    actual = model.gated(batch, torch.ones(2, batch.num_edges))
    if name == "pna":  # its gated form makes the messages, its own does not
        torch.testing.assert_close(actual, model.backbone(batch), rtol=1e-4, atol=1e-5)
    else:
        assert torch.equal(actual, model.backbone(batch))
    torch.testing.assert_close(actual, model(batch).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "edge_features"), CASES)
def test_gated_layers_have_the_networks_dropout(name: str, edge_features: int) -> None:
    model, draws = GraphMask(make(name, edge_features, dropout=0.4)), Draws(3)
    batch = batch_of(edge_features)
    actual = model.gated(batch, torch.ones(2, batch.num_edges), draws=draws)
    torch.testing.assert_close(actual, model.backbone(batch, draws=draws), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(actual, model.backbone(batch), atol=1e-3)


@pytest.mark.parametrize(("name", "edge_features"), CASES)
def test_with_a_baseline_of_zero_a_gate_is_attention(name: str, edge_features: int) -> None:
    model = GraphMask(make(name, edge_features))
    batch = batch_of(edge_features)
    keep = torch.rand(batch.num_edges, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        for gate in model.gates:
            gate.baseline.zero_()
    wanted = model.backbone(batch, attention=keep)
    actual = model.gated(batch, keep.expand(2, -1))
    torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-5)


def closed(backbone: GatedBackbone, x: Tensor, b: Tensor, batch: GraphBatch) -> Tensor:
    """The last layer, where a constant stands for every message, node by node."""
    layer, rows = backbone.layers[-1], []
    weight = batch.edge_weight
    for v in range(batch.num_nodes):
        arriving = weight[batch.dst == v]
        total = arriving.sum()
        if backbone.name == "gin":
            rows.append(layer.inner(x[v] + total * b))
            continue
        if backbone.name == "leconv":
            if backbone.config["edge_features"]:
                arriving = arriving * batch.edge_attr[batch.dst == v][:, 0]
            rows.append(layer.own(x[v]) + arriving.sum() * b)
            continue
        seen = arriving[:, None] * b if len(arriving) else torch.zeros(1, len(b))
        spread = (seen.square().mean(0) - seen.mean(0).square()).relu().add(1e-5).sqrt()
        stacked = torch.stack(
            [seen.mean(0), seen.amin(0), seen.amax(0), spread, seen.sum(0)]
        )  # [A, parts · h]; the columns of `linear` go by part, aggregator, channel
        parts = stacked.unflatten(1, (-1, backbone.hidden)).transpose(0, 1)
        rows.append(layer.linear(parts.flatten()))
    z = torch.stack(rows)
    if backbone.name == "gin":
        return layer.outer(layer.norm(z).relu()).relu()
    return z.relu() if backbone.name == "leconv" else x + layer.norm(z).relu()


@pytest.mark.parametrize(("name", "edge_features"), CASES)
def test_a_closed_gate_puts_the_baseline_in_the_messages_place(
    name: str, edge_features: int
) -> None:
    model = GraphMask(make(name, edge_features))
    batch = batch_of(edge_features)
    inputs: list[Tensor] = []

    def look(layer: int, x: Tensor, messages: Tensor) -> None:
        assert messages.shape == (batch.num_edges, model.backbone.message_size)
        inputs.append(x)

    model.backbone.embed(batch, gate=look)
    embeddings = closed(model.backbone, inputs[-1], model.gates[-1].baseline, batch)
    wanted = model.backbone.read_out(embeddings, batch)
    actual = model.gated(batch, torch.zeros(1, batch.num_edges), first=1)
    torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scalers", [(), ("identity", "attenuation")])
def test_pna_with_scalers_and_few_aggregators(scalers: tuple[str, ...]) -> None:
    model = GraphMask(make("pna", 3, aggregators=["std", "max"], scalers=scalers))
    batch = batch_of(3)
    actual = model.gated(batch, torch.ones(2, batch.num_edges))
    torch.testing.assert_close(actual, model.backbone(batch), rtol=1e-4, atol=1e-5)


def test_the_multiplier_follows_the_gap() -> None:
    batch = from_pyg(planted_graphs(32)).batch()
    for allowance, sign in ((0.0, 1), (10.0, -1)):
        made = method(allowance)
        seen = [float(made.multiplier["lambda"].detach())]
        for step in range(5):
            made.explain_step(batch, Context(EXPLAIN, 0, Draws(step)))
            seen.append(float(made.multiplier["lambda"].detach()))
        assert all(sign * (b - a) > 0 for a, b in pairwise(seen))


def test_samples_are_hard_and_have_the_gradient_of_the_soft_gate() -> None:
    made = method(gamma=-0.2, zeta=1.2, temperature=0.5)
    batch = from_pyg(planted_graphs(64)).batch()
    omega = torch.linspace(-3, 3, batch.num_edges).requires_grad_()
    draws = Draws(1)
    keep = made.sample(omega[None], batch, draws)
    assert set(keep.unique().tolist()) == {0.0, 1.0}
    keep.sum().backward()
    u = draws.child(0).uniform(batch.edge_id).double()
    again = omega.detach().double().requires_grad_()
    soft = torch.sigmoid((torch.logit(u) + again) / 0.5) * 1.4 - 0.2
    torch.testing.assert_close((soft > 0.5).float(), keep[0].detach())
    soft.clamp(0, 1).sum().backward()
    torch.testing.assert_close(omega.grad, again.grad.float(), rtol=1e-3, atol=1e-5)


def test_the_penalty_is_the_chance_that_a_gate_is_not_closed() -> None:
    """By counting: the share of stretched samples above 0."""
    made = method(gamma=-0.2, zeta=1.0)
    batch = from_pyg(planted_graphs(10)).batch()
    own = made.model.backbone(batch)
    for omega in (-1.0, 0.5, 2.0):
        logits = torch.full((1, batch.num_edges), omega)
        parts = made._losses(batch, own, logits, torch.ones_like(logits), own)
        u = torch.rand(200_000, generator=torch.Generator().manual_seed(0))
        soft = torch.sigmoid((torch.logit(u) + omega) / (1 / 3)) * 1.2 - 0.2
        assert float(parts["penalty"]) == pytest.approx(float((soft > 0).float().mean()), abs=5e-3)


def test_layers_are_gated_from_the_last_to_the_first() -> None:
    backbone = make("gin", 0)
    settings = GraphMaskSettings(epochs_per_layer=3)
    made = GraphMaskMethod.create(backbone, settings, TrainingSettings.model_validate({}), 0)
    assert [made.first_layer(epoch) for epoch in range(made.explain_epochs)] == [1] * 3 + [0] * 3
    made.begin(EXPLAIN)
    batch = batch_of()
    start = [gate.last.bias.detach().clone() for gate in made.model.gates]
    made.explain_step(batch, Context(EXPLAIN, 0, Draws(0)))
    moved = [
        not torch.equal(gate.last.bias, before)
        for gate, before in zip(made.model.gates, start, strict=True)
    ]
    assert moved == [False, True]
    made.explain_step(batch, Context(EXPLAIN, 3, Draws(0)))
    assert not torch.equal(made.model.gates[0].last.bias, start[0])


def test_scores_rank_and_layers_are_averaged_or_the_highest_counts() -> None:
    batch = batch_of()
    mean, most = (GraphMask(make("gin", 0), across=how) for how in ("mean", "max"))
    with torch.no_grad():
        for model in (mean, most):
            model.gates[0].last.weight.mul_(20)
    _, omega = mean.gate_logits(batch)
    layers = omega.sigmoid()
    assert len(mean(batch).edge_weight.unique()) > 3
    torch.testing.assert_close(mean(batch).attention, layers.mean(0))
    torch.testing.assert_close(most(batch).attention, layers.max(0).values)


def test_open_gates_have_no_loss() -> None:
    backbone, batch = make("gin", 0), batch_of()
    settings = GraphMaskSettings()
    made = GraphMaskMethod.create(backbone, settings, TrainingSettings.model_validate({}), 0)
    logits, omega = made.model.gate_logits(batch)
    task = backbone.task
    assert task.loss(logits, logits.argmax(1)) > 2 * settings.allowance
    for keep, lost in ((torch.ones_like(omega), 0.0), (torch.zeros_like(omega), None)):
        output = made.model.gated(batch, keep)
        gap = task.loss(output, logits.argmax(1)) - task.loss(logits, logits.argmax(1))
        actual = made._losses(batch, logits, omega, keep, output)["answer"]
        torch.testing.assert_close(actual, gap, rtol=1e-4, atol=1e-5)
        if lost is not None:
            assert float(actual.detach()) == pytest.approx(lost, abs=1e-5)


def test_gates_on_equal_features_need_the_final_embeddings() -> None:
    batch = batch_of()
    batch = replace(batch, x=torch.ones_like(batch.x))
    for sees, different in (("layer", False), ("network", True)):
        _, omega = GraphMask(make("gin", 0), sees=sees).gate_logits(batch)
        assert bool(omega[0].detach().std() > 1e-3) == different
        assert omega[1].detach().std() > 1e-3


def test_samples_belong_to_their_layer() -> None:
    batch = batch_of()
    open_, closed = torch.full((batch.num_edges,), 30.0), torch.full((batch.num_edges,), -30.0)
    for first, second in ((open_, closed), (closed, open_)):
        keep = method().sample(torch.stack([first, second]), batch, Draws(0))
        assert torch.equal(keep[0], (first > 0).float())
        assert torch.equal(keep[1], (second > 0).float())
