"""ERM: training of the backbone alone, without edge scores."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import Adam

import gsat
from gsat.graphs import GraphBatch
from gsat.methods import Context, TrainingSettings
from gsat.methods.erm import ERMMethod, ERMSettings, PlainModel
from gsat.ops import Draws


@pytest.fixture(scope="module")
def data() -> gsat.Dataset:
    return gsat.load_dataset("ba2motifs", graphs=60)


def test_a_step_is_adam_on_the_prediction_loss(data: gsat.Dataset) -> None:
    batch: GraphBatch = data.train.batch()
    backbone = gsat.GIN.for_data(data, hidden=8)
    plain = copy.deepcopy(backbone)
    training = TrainingSettings(lr=0.02, weight_decay=0.1)
    method = ERMMethod.create(backbone, ERMSettings(), training, seed=0)
    method.begin("train")
    optimiser = Adam(plain.parameters(), 0.02, weight_decay=0.1)
    for number in range(3):
        draws = Draws(number)
        parts = method.step(batch, Context("train", number, draws))
        assert batch.y is not None
        loss = binary_cross_entropy_with_logits(plain(batch, draws=draws), batch.y)
        assert parts.keys() == {"loss"}
        torch.testing.assert_close(parts["loss"], loss)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for ours, theirs in zip(backbone.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_the_model_is_the_backbone_and_scores_all_edges_alike(data: gsat.Dataset) -> None:
    backbone = gsat.GIN.for_data(data, hidden=8).eval()
    model = PlainModel(backbone)
    torch.testing.assert_close(model.predict(data.test).logits, backbone(data.test.batch()))
    assert torch.equal(model.explain(data.test[0]).edge_mask, torch.ones(data.test[0].num_edges))


def test_the_learning_rate_is_halved_on_a_plateau(data: gsat.Dataset) -> None:
    """Against torch's own schedule, also when the method is made again half-way."""
    training = TrainingSettings(lr=0.1)

    def make() -> ERMMethod:
        backbone = gsat.GIN.for_data(data, hidden=4, layers=1)
        method = ERMMethod.create(backbone, ERMSettings(plateau=2), training, seed=0)
        method.begin("train")
        return method

    other = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(other, "max", factor=0.5, patience=2)
    method = make()
    rates = []
    scores = [0.5, 0.6, 0.6, 0.59, 0.6, 0.7, 0.7, 0.7, 0.7, 0.1, 0.1, 0.1]
    for epoch, accuracy in enumerate(scores):
        method.finish_epoch(Context("train", epoch, Draws(0)), {"accuracy": accuracy})
        schedule.step(accuracy)
        rates.append(method.optimiser.param_groups[0]["lr"])
        assert rates[-1] == other.param_groups[0]["lr"]
        if epoch == 3:
            state, groups = method.extra_state(), method.optimiser.state_dict()
            method = make()
            method.optimiser.load_state_dict(groups)
            method.load_extra_state(json.loads(json.dumps(state)))
    assert sorted(set(rates)) == [0.0125, 0.025, 0.05, 0.1]
