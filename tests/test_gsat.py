"""GSAT: two passes of one backbone, equal to the published algorithm written with PyG's layers."""

from __future__ import annotations

import copy
import inspect
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import gsat
from gsat.bottleneck import information
from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, GraphStore, from_pyg
from gsat.gsat import GSAT
from gsat.models import GIN
from gsat.ops import Draws
from gsat.tasks import Task
from reference import ReferenceGSAT, random_graphs

TASK = Task("multiclass", 3)
DRAWS = Draws(7, "test")
CASES = [("edge", 0), ("edge", 1), ("edge", 3), ("node", 0), ("node", 1)]


def store_of(edge_features: int = 0, seed: int = 1, **kind: bool) -> GraphStore:
    graphs = random_graphs(seed, edge_features=edge_features, **kind)
    for number, graph in enumerate(graphs):
        graph.y = torch.tensor([number % 3])
    return from_pyg(graphs)


def make(on: str = "edge", edge_features: int = 0, **settings: object) -> GSAT:
    backbone = GIN(4, TASK, edge_features=edge_features, hidden=16, seed=2)
    model = GSAT(backbone, on, seed=3, **settings)
    model.train()
    with torch.no_grad():  # BatchNorm sees something
        for _ in range(5):
            model(store_of(edge_features).batch(), DRAWS)
    return model


def in_float64(batch: GraphBatch) -> GraphBatch:
    attr = None if batch.edge_attr is None else batch.edge_attr.double()
    return replace(batch, x=batch.x.double(), edge_attr=attr)


def cost(logits: Tensor, weight: Tensor, p: Tensor, batch: GraphBatch) -> Tensor:
    assert batch.y is not None
    return TASK.loss(logits, batch.y) + information(p, 0.7) + weight.square().mean()


def gradients(model: nn.Module) -> Tensor:
    """Gradients of all parameters as one vector; 0 for a parameter that is not used."""
    actual = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return torch.cat([grad.flatten() for grad in actual])


# -- against the reference ---------------------------------------------------------------------


@pytest.mark.parametrize(("on", "edge_features"), CASES)
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("how", ["evaluation", "training", "dropout and samples"])
def test_values_equal_the_reference(on: str, edge_features: int, directed: bool, how: str) -> None:
    batch = store_of(edge_features, awkward=False, directed=directed).batch()
    model = make(on, edge_features).train(how != "evaluation")
    draws = DRAWS.child("forward") if how == "dropout and samples" else None
    reference = ReferenceGSAT(copy.deepcopy(model).double())
    logits, weight, p = reference(in_float64(batch), draws)
    output = model(batch, draws)
    assert output.logits.dtype == torch.float32
    torch.testing.assert_close(output.logits, logits.float(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.edge_weight, weight.float(), rtol=0, atol=1e-5)
    torch.testing.assert_close(output.probability, p.float(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("on", "edge_features"), CASES)
@pytest.mark.parametrize("how", ["evaluation", "training", "dropout and samples"])
def test_gradients_equal_the_reference(on: str, edge_features: int, how: str) -> None:
    batch = store_of(edge_features).batch()
    model = make(on, edge_features).train(how != "evaluation")
    draws = DRAWS.child("backward") if how == "dropout and samples" else None
    exact = copy.deepcopy(model).double()
    reference = ReferenceGSAT(copy.deepcopy(exact))
    cost(*reference(in_float64(batch), draws), batch).backward()
    expected = gradients(reference.gin), gradients(reference.g)
    for ours, given, tolerance in ((exact, in_float64(batch), 1e-9), (model, batch, 2e-4)):
        output = ours(given, draws)
        cost(output.logits, output.edge_weight, output.probability, batch).backward()
        for actual, truth in zip(
            (gradients(ours.backbone), gradients(ours.extractor)), expected, strict=True
        ):
            assert truth.norm() > 1e-3
            assert (actual - truth).norm() < tolerance * truth.norm()


# -- the two passes ----------------------------------------------------------------------------


def test_batch_norm_sees_both_forward_passes() -> None:
    batch = store_of().batch()
    model = make()
    once, twice = copy.deepcopy(model.backbone), copy.deepcopy(model.backbone)
    before = [bn.num_batches_tracked.item() for bn in norms(model)]
    weight = model(batch).edge_weight.detach()
    once(batch)
    twice(batch)
    twice(batch, weight)
    for count, ours, plain, expected in zip(
        before, norms(model), norms(once), norms(twice), strict=True
    ):
        assert ours.num_batches_tracked.item() == count + 2
        assert not torch.allclose(ours.running_mean, plain.running_mean, rtol=1e-3)
        torch.testing.assert_close(ours.running_mean, expected.running_mean)
        torch.testing.assert_close(ours.running_var, expected.running_var)


def norms(module: nn.Module) -> list[nn.BatchNorm1d]:
    return [m for m in module.modules() if isinstance(m, nn.BatchNorm1d)]


def test_evaluation_is_deterministic_and_does_not_depend_on_the_batch() -> None:
    for on, edge_features in CASES:
        store = store_of(edge_features)
        model = make(on, edge_features).eval()
        whole = store.batch()
        output, again = model(whole), model(whole)
        assert torch.equal(output.logits, again.logits)
        assert torch.equal(output.edge_weight, again.edge_weight)
        for number in range(len(store)):
            alone = model(store.batch([number]))
            mine = whole.edge_graph == number
            torch.testing.assert_close(alone.logits[0], output.logits[number], rtol=0, atol=1e-5)
            actual = output.edge_weight[mine]
            torch.testing.assert_close(alone.edge_weight, actual, rtol=0, atol=1e-5)


# -- randomness --------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["edge", "node"])
def test_outputs_are_a_function_of_the_draws(on: str) -> None:
    model, batch = make(on), store_of().batch()
    first, again, other = (model(batch, d) for d in (DRAWS, Draws(7, "test"), DRAWS.child(1)))
    for name in ("logits", "attention", "edge_weight", "probability"):
        assert torch.equal(getattr(first, name), getattr(again, name))
        assert not torch.equal(getattr(first, name), getattr(other, name))


@pytest.mark.parametrize("on", ["edge", "node"])
def test_a_graphs_draws_do_not_depend_on_the_batch(on: str) -> None:
    store, model = store_of(awkward=False), make(on).eval()
    actual = []
    for chosen in ([2], [5, 2, 0], [1, 2, 3, 4]):
        batch = store.batch(chosen)
        output = model(batch, DRAWS)
        mine = (batch.edge_graph if on == "edge" else batch.node_graph) == chosen.index(2)
        actual.append((output.logits[chosen.index(2)], output.attention[mine]))
    for logits, attention in actual[1:]:
        torch.testing.assert_close(logits, actual[0][0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(attention, actual[0][1], rtol=0, atol=1e-5)


@pytest.mark.parametrize("on", ["edge", "node"])
def test_without_sampling_and_dropout_draws_change_nothing(on: str) -> None:
    batch = store_of().batch()
    backbone = GIN(4, TASK, hidden=16, dropout=0.0)
    model = GSAT(backbone, on, extractor_dropout=0.0, sampling="none").eval()
    plain, sampled = model(batch), model(batch, DRAWS)
    for ours, theirs in zip(plain, sampled, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    for settings in ({"sampling": "concrete"}, {"extractor_dropout": 0.5}):
        model = GSAT(backbone, on, **{"extractor_dropout": 0.0, "sampling": "none", **settings})
        assert not torch.allclose(model.eval()(batch, DRAWS).attention, plain.attention, atol=1e-3)


def test_hard_samples_and_temperature_reach_the_sampler() -> None:
    batch = store_of().batch()
    hard = make(sampling="straight-through")(batch, DRAWS)
    assert set(hard.attention.tolist()) == {0.0, 1.0}
    cold, warm = (make(temperature=t)(batch, DRAWS).attention for t in (0.01, 5.0))
    assert ((cold - 0.5).abs() > 0.49).double().mean() > 0.9
    assert ((warm - 0.5).abs() < 0.4).double().mean() > 0.9


@pytest.mark.parametrize("on", ["edge", "node"])
def test_an_attended_readout_sees_nothing_without_attention(on: str) -> None:
    ring = torch.arange(5)
    index = torch.stack([ring, ring.roll(1)])
    index = torch.cat([index, index.flip(0)], dim=1)
    one, other = (
        from_pyg([Data(x=torch.full((5, 4), value), edge_index=index)]).batch()
        for value in (0.1, 2.0)
    )
    model = make(on, readout="attended").eval()
    plain = copy.copy(model)
    plain.set_options(readout=None)
    everything = torch.ones(one.num_edges if on == "edge" else one.num_nodes)
    torch.testing.assert_close(model.answer(one, everything), plain.answer(one, everything))
    nothing = torch.zeros_like(everything)
    assert torch.equal(model.answer(one, nothing), model.answer(other, nothing))
    assert not torch.equal(plain.answer(one, nothing), plain.answer(other, nothing))


# -- construction ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention": "edges"}, "'edge' or 'node', not 'edges'"),
        ({"sampling": "gumbel"}, "not 'gumbel'"),
        ({"temperature": 0.0}, "greater than 0, not 0.0"),
    ],
)
def test_wrong_settings(settings: dict, message: str) -> None:
    with pytest.raises(GSATError, match=message):
        GSAT(GIN(4, TASK), **settings)
    with pytest.raises(GSATError, match="Linear"):
        GSAT(nn.Linear(4, 3))


def test_a_subclass_shows_its_own_arguments_and_the_settings() -> None:
    class Halved(GSAT):
        def __init__(self, backbone: GIN, factor: float = 0.5, **settings: object) -> None:
            super().__init__(backbone, **settings)

    shown = inspect.signature(Halved).parameters
    assert shown["factor"].default == 0.5
    assert shown["temperature"].default == 1.0


def test_seeds_decide_the_extractor_and_nothing_else() -> None:
    backbone = GIN(4, TASK, hidden=8)
    before = copy.deepcopy(backbone.state_dict())
    state = torch.get_rng_state()
    first, again, other = (GSAT(backbone, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.extractor.first.weight, again.extractor.first.weight)
    assert not torch.equal(first.extractor.first.weight, other.extractor.first.weight)
    assert first.backbone is backbone
    assert all(torch.equal(before[name], t) for name, t in backbone.state_dict().items())


@pytest.mark.parametrize("on", ["edge", "node"])
def test_config_round_trip(on: str) -> None:
    settings = {"extractor_dropout": 0.2, "temperature": 0.5, "sampling": "straight-through"}
    model = make(on, 1, **settings)
    model.r = 0.6
    again = GSAT.from_config(copy.deepcopy(model.config))
    assert again.config == model.config
    assert again.config.items() >= {"attention": on, "r": 0.6, **settings}.items()
    assert (again.task, again.on, again.r) == (TASK, on, 0.6)
    again.load_state_dict(model.state_dict())
    batch = store_of(1).batch()
    for draws in (None, DRAWS):
        assert torch.equal(again.eval()(batch, draws).logits, model.eval()(batch, draws).logits)


# -- it learns ---------------------------------------------------------------------------------


def test_it_can_overfit_a_tiny_set() -> None:
    data = gsat.load_dataset("ba2motifs", graphs=40)
    model = GSAT(GIN.for_data(data, hidden=32))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    batch, losses = data.train.batch(), []
    assert batch.y is not None
    for step in range(60):
        output = model(batch, Draws(0, "overfit", step))
        loss = data.task.loss(output.logits, batch.y)
        optimiser.zero_grad()
        (loss + information(output.attention, 0.7)).backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-10:]) / 10 < math.log(2) / 2  # half of what a guess costs
    score = data.task.score(model.eval()(batch).logits, batch.y)
    assert score is not None
    assert score > 0.9
