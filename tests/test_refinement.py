"""Refinement passes, separate batch norm, several samples and snapshots of a GSAT model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import gsat
from gsat.attention import edge_weights
from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, GraphStore, from_pyg
from gsat.gsat import GSAT
from gsat.methods.erm import PlainModel
from gsat.models import GIN
from gsat.ops import Draws
from gsat.tasks import Task
from reference import random_graphs

TASK = Task("multiclass", 3)


def graphs() -> GraphStore:
    actual = random_graphs(1)
    for number, graph in enumerate(actual):
        graph.y = torch.tensor([number % 3])
    return from_pyg(actual)


def make(on: str = "edge", **settings: object) -> GSAT:
    """A model whose batch norm has seen something."""
    model = GSAT(GIN(4, TASK, hidden=16, seed=2), on, seed=3, **settings).train()
    with torch.no_grad():
        for number in range(5):
            model(graphs().batch(), Draws(7, "test", number))
    return model.eval()


def refined_scores(model: GSAT, batch: GraphBatch, passes: int) -> Tensor:
    """The scores after refinement passes, written out by the parts of the model."""
    weight = model.edge_weights(model.backbone.embed(batch), batch)
    for _ in range(passes):
        weight = model.edge_weights(model.backbone.embed(batch, attention=weight), batch)
    return weight


# -- refinement --------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["edge", "node"])
@pytest.mark.parametrize("passes", [0, 1, 2])
def test_a_refinement_pass_embeds_the_graph_with_its_own_weights(on: str, passes: int) -> None:
    model, batch = make(on), graphs().batch()
    with torch.no_grad():
        plain, refined = model(batch), model.refined(passes)(batch)
        expected = refined_scores(model, batch, passes)
    torch.testing.assert_close(refined.edge_weight, expected)
    assert torch.equal(refined.logits, plain.logits)  # predictions stay
    assert (passes == 0) == torch.equal(refined.edge_weight, plain.edge_weight)
    if on == "node":
        torch.testing.assert_close(
            edge_weights(refined.probability, batch, "node"), refined.edge_weight
        )


def test_a_refined_model_is_a_view() -> None:
    model = make()
    view = model.refined(1)
    assert model.options.refine is None
    assert view.backbone is model.backbone
    with pytest.raises(GSATError, match="refine"):
        model.refined(-1)


def test_explain_takes_the_number_of_refinement_passes() -> None:
    model, store = make(), graphs()
    explained = model.explain(store, refine=1)
    with torch.no_grad():
        expected = store.caller_order(refined_scores(model, store.batch(), 1).numpy())
    actual = torch.cat([explanation.edge_mask for explanation in explained])
    torch.testing.assert_close(actual, torch.from_numpy(expected))


def test_a_model_without_extractor_can_not_refine() -> None:
    with pytest.raises(GSATError, match="PlainModel"):
        PlainModel(GIN(4, TASK)).explain(graphs(), refine=1)


def test_the_setting_is_kept_in_the_saved_model(tmp_path: Path) -> None:
    model = make(refine=1)
    model.save(tmp_path)
    loaded = gsat.load(tmp_path)
    with torch.no_grad():
        batch = graphs().batch()
        assert torch.equal(loaded(batch).edge_weight, model(batch).edge_weight)
        torch.testing.assert_close(model(batch).edge_weight, refined_scores(model, batch, 1))


# -- batch norm --------------------------------------------------------------------------------


def test_separate_statistics_are_those_of_each_run() -> None:
    model = GSAT(GIN(4, TASK, hidden=16, seed=2), seed=3, batch_norm="separate")
    shared = GSAT(GIN(4, TASK, hidden=16, seed=2), seed=3)
    batch, draws = graphs().batch(), Draws(1, "test")
    first, second = model.train()(batch, draws), shared.train()(batch, draws)
    assert torch.equal(first.logits, second.logits)  # in training, batches have their own
    norm, twin = model.backbone.layers[0].norm, model.predictor.layers[0].norm
    assert norm.weight is twin.weight
    assert not torch.equal(norm.running_mean, twin.running_mean)
    both = shared.backbone.layers[0].norm.running_mean
    # Each has seen one batch at momentum 0.1; shared ones have seen both.
    torch.testing.assert_close(0.9 * norm.running_mean + twin.running_mean, both)


def before_norm(network: GIN, batch: GraphBatch, weight: Tensor | None = None) -> Tensor:
    """What the first layer's batch norm gets, averaged over nodes."""
    x = network.encode(batch)
    message = x[batch.src] if weight is None else weight[:, None] * x[batch.src]
    received = torch.zeros_like(x).index_add(0, batch.dst, message)
    return network.layers[0].inner(received + x).mean(dim=0)


@torch.no_grad()
def test_recalibrated_statistics_are_means_over_batches() -> None:
    model = make(batch_norm="recalibrated")
    batches = list(graphs().batches(4))
    model.recalibrate(batches)
    assert not model.training
    actual = [part.layers[0].norm.running_mean.clone() for part in (model.backbone, model.attended)]
    momenta = {part.momentum for part in model.modules() if isinstance(part, nn.BatchNorm1d)}
    assert momenta == {0.1}
    model.train()  # as while it was recalibrated: batches are normalised by their own statistics
    weights = [model.edge_weights(model.backbone.embed(batch), batch) for batch in batches]
    for mean, given in zip(actual, ([None] * len(batches), weights), strict=True):
        pairs = zip(batches, given, strict=True)
        expected = [before_norm(model.backbone, batch, weight) for batch, weight in pairs]
        torch.testing.assert_close(mean, torch.stack(expected).mean(dim=0))


def test_twins_are_saved_and_share_their_weights_again(tmp_path: Path) -> None:
    model = make(batch_norm="separate")
    model.save(tmp_path)
    loaded = gsat.load(tmp_path)
    assert loaded.attended.head.weight is loaded.backbone.head.weight
    assert len(list(loaded.parameters())) == len(list(make().parameters()))
    with torch.no_grad():
        batch = graphs().batch()
        assert torch.equal(loaded(batch).logits, model(batch).logits)


# -- samples -----------------------------------------------------------------------------------


def test_logits_are_the_mean_over_samples() -> None:
    model, batch, draws = make(samples=3, sampling="straight-through"), graphs().batch(), Draws(2)
    output = model(batch, draws)
    assert set(output.attention.unique().tolist()) <= {0.0, 1.0}
    alphas = output.attention.reshape(3, -1)
    assert not torch.equal(alphas[0], alphas[1])
    each = [
        model.backbone(
            batch,
            edge_weights(alpha, batch, "edge"),
            draws.child("sample", number).child("second run"),
        )
        for number, alpha in enumerate(alphas)
    ]
    torch.testing.assert_close(output.logits, torch.stack(each).mean(dim=0))
    output.logits.sum().backward()
    assert model.extractor.last.weight.grad is not None
    assert float(model.extractor.last.weight.grad.abs().sum()) > 0


# -- snapshots ---------------------------------------------------------------------------------


def perturbed(model: nn.Module, by: float) -> dict[str, Tensor]:
    state = {name: value.clone() for name, value in model.state_dict().items()}
    state["extractor.last.weight"] = state["extractor.last.weight"] * by
    return state


def test_snapshots_explain_by_their_mean_and_the_model_predicts(tmp_path: Path) -> None:
    model, batch = make(), graphs().batch()
    states = [perturbed(model, by) for by in (0.2, 3.0)]
    each = []
    for state in states:
        other = make()
        other.load_state_dict(state)
        with torch.no_grad():
            each.append(other(batch).edge_weight)
    with torch.no_grad():
        before = model(batch)
        model.take_snapshots(states)
        after = model(batch)
    torch.testing.assert_close(after.edge_weight, (each[0] + each[1]) / 2)
    assert torch.equal(after.logits, before.logits)
    model.save(tmp_path)
    loaded = gsat.load(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded(batch).edge_weight, after.edge_weight)
        assert torch.equal(loaded.refined(1)(batch).logits, before.logits)
        model.take_snapshots([])
        assert torch.equal(model(batch).edge_weight, before.edge_weight)


def test_a_description_with_absurd_snapshots_is_refused() -> None:
    config = {**make().config, "snapshots": 10**9}
    with pytest.raises(GSATError, match="0 to 1000 snapshots"):
        GSAT.from_config(config)
