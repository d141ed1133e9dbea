"""GSAT*: the epoch that fine-tuning starts from, and what is reported of pre-training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gsat
from gsat.methods import METHODS, Context
from gsat.methods.erm import ERMMethod, ERMSettings, PlainModel
from gsat.methods.gsat import GSATMethod
from gsat.methods.gsat_star import GSATStarMethod
from gsat.ops import Draws
from gsat.tasks import Task
from gsat.training.checkpoint import Tensors
from gsat.training.evaluation import evaluate
from gsat.training.recipe import Recipe, load_data, make_recipe

PRETRAIN, EPOCHS = 5, 13


def recipe(ckpt: str = "last", **settings: Any) -> Recipe:
    chosen = {
        "graphs": 60, "epochs": EPOCHS, "batch_size": 32, "hidden": 8, "layers": 1,
        "r_interval": 1, "pretrain_epochs": PRETRAIN, "pretrain_ckpt": ckpt, "lr": 0.02,
    }  # fmt: skip
    return make_recipe("ba2motifs", method="gsat-star", settings={**chosen, **settings})


@pytest.mark.parametrize("ckpt", ["last", "best"])
def test_fine_tuning_starts_from_the_chosen_epoch(
    ckpt: str, run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[dict[str, Any], Tensors]] = []
    started: list[Tensors] = []
    finish, step = GSATStarMethod.finish_epoch, GSATMethod.step

    def note(self: GSATStarMethod, context: Context, valid: dict[str, Any]) -> None:
        if context.phase == "pretrain":
            valid["accuracy"] = 1.0 if len(seen) == 1 else 0.5  # the last epoch is not the best
            state = self.model.backbone.state_dict()
            seen.append((valid, {name: tensor.clone() for name, tensor in state.items()}))
        finish(self, context, valid)

    def first(self: GSATMethod, batch: Any, context: Context) -> Any:
        if not started:
            state = self.model.backbone.state_dict()
            started.append({name: tensor.clone() for name, tensor in state.items()})
        return step(self, batch, context)

    monkeypatch.setattr(GSATStarMethod, "finish_epoch", note)
    monkeypatch.setattr(GSATMethod, "step", first)
    run = gsat.train(recipe(ckpt), run_path)
    chosen = 1 if ckpt == "best" else PRETRAIN - 1
    valid, weights = seen[chosen]
    for name, tensor in started[0].items():
        assert torch.equal(tensor, weights[name]), name
    pretrained = run.result["pretrained"]
    assert (pretrained["checkpoint"], pretrained["epoch"], pretrained["valid"]) == (
        ckpt,
        chosen,
        valid,
    )
    # The test metrics once more, from the weights themselves.
    data = load_data(run.recipe)
    backbone = gsat.GIN.for_data(data, hidden=8, layers=1)
    backbone.load_state_dict(weights)
    again = evaluate(PlainModel(backbone), data.test, batch_size=32)
    assert pretrained["test"]["accuracy"] == again["accuracy"]
    assert pretrained["test"]["loss"] == pytest.approx(again["loss"], rel=1e-5)
    assert pretrained["test"]["explanation_auc"] is None
    assert run.test["explanation_auc"] is not None


def test_the_first_phase_is_erm_and_leaves_the_extractor_alone() -> None:
    made = recipe()
    data = load_data(made)
    batch, at = data.train.batch(), Context("pretrain", 0, Draws(3))

    def backbone() -> gsat.GIN:
        return gsat.GIN.for_data(data, hidden=8, layers=1)

    star = GSATStarMethod.create(backbone(), made.settings, made.training, seed=0)
    erm = ERMMethod.create(backbone(), ERMSettings(), made.training, seed=0)
    extractor = {k: v.clone() for k, v in star.model.extractor.state_dict().items()}
    for method in (star, erm):
        method.begin(method.phases()[0].name)
        method.step(batch, at)
    ours, theirs = star.model.backbone.state_dict(), erm.model.backbone.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    after = star.model.extractor.state_dict()
    assert all(torch.equal(after[name], extractor[name]) for name in extractor)
    assert [phase.epochs for phase in star.phases()] == [PRETRAIN, EPOCHS]
    assert METHODS["gsat-star"] is GSATStarMethod


def test_the_first_phase_may_have_its_own_rate_or_share_the_others() -> None:
    for settings, epochs, lr in (
        ({"pretrain_lr": 0.5}, PRETRAIN, 0.5),
        ({"method.gsat-star.pretrain_epochs": 2}, 2, 0.02),
    ):
        made = recipe(**settings)
        data = load_data(made)
        backbone = gsat.GIN.for_data(data, hidden=8)
        star = GSATStarMethod.create(backbone, made.settings, made.training, seed=0)
        rates = []
        for phase in star.phases():
            star.begin(phase.name)
            rates.append(star.optimisers()["adam"].param_groups[0]["lr"])
        assert (star.phases()[0].epochs, rates) == (epochs, [lr, 0.02])
    shared = make_recipe("ba2motifs", method="gsat-star", settings={"graphs": 20, "epochs": 7})
    backbone = gsat.GIN.for_data(load_data(shared), hidden=8)
    star = GSATStarMethod.create(backbone, shared.settings, shared.training, seed=0)
    assert [phase.epochs for phase in star.phases()] == [7, 7]


def test_the_best_pretrained_epoch_of_an_error_is_the_lowest() -> None:
    """MAE: less is better."""
    model = gsat.GSAT(gsat.GIN(1, Task("regression", 1, "mae"), hidden=4))
    settings = GSATStarMethod.Settings(pretrain_ckpt="best")
    method = GSATStarMethod(model, settings, recipe().training)
    method.begin("pretrain")
    for epoch, mae in enumerate([0.5, 0.2, 0.9]):
        context = Context("pretrain", epoch, Draws(0))
        method.finish_epoch(context, {"mae": mae, "r2": 0.0, "loss": 1.0})
    assert method.report()["pretrained"]["epoch"] == 1
