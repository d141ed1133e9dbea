"""GSATMethod: the losses and gradients of a step under each option, written out."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import Adam

import gsat
from gsat.graphs import GraphBatch
from gsat.methods import METHODS, Context, Method, TrainingSettings
from gsat.methods.gsat import GSATMethod, GSATSettings
from gsat.models import ModelOutput
from gsat.ops import Draws

OPTIONS: dict[str, dict[str, Any]] = {
    "as published": {},
    "node attention": {"attention": "node"},
    "on p": {"info_on": "p"},
    "no samples": {"sampling": "none"},
    "hard samples": {"sampling": "straight-through"},
    "hard samples, on p": {"sampling": "straight-through", "info_on": "p"},
    "l1": {"regulariser": "l1"},
    "l1 on p, weighted": {"regulariser": "l1", "info_on": "p", "info_coef": 0.01},
    "no regulariser": {"regulariser": "none"},
    "beta = 0": {"info_coef": 0.0},
    "weighted": {"info_coef": 0.1},
    "warmer samples": {"temperature": 2.5},
    "other r": {"r_start": 0.8, "r_final": 0.2, "r_step": 0.3, "r_interval": 2},
}


@pytest.fixture(scope="module")
def data() -> gsat.Dataset:
    return gsat.load_dataset("ba2motifs", graphs=20)


@pytest.fixture
def batch(data: gsat.Dataset) -> GraphBatch:
    return data.train.batch()


def make(data: gsat.Dataset, training: dict[str, Any] | None = None, **options: Any) -> GSATMethod:
    backbone = gsat.GIN.for_data(data, hidden=8, seed=1)
    settings = GSATSettings(**options)
    method = GSATMethod.create(backbone, settings, TrainingSettings(**(training or {})), seed=1)
    # Make the probabilities differ: those of a fresh extractor are all about one half.
    with torch.no_grad():
        method.model.extractor.last.weight.mul_(8)
    method.begin("train")
    return method


def context(epoch: int = 7) -> Context:
    return Context("train", epoch, Draws(3, "step"))


def by_hand(
    options: dict[str, Any], output: ModelOutput, batch: GraphBatch, epoch: int
) -> dict[str, Tensor]:
    """Sections 1.5 and 1.6 of the specification, written out."""
    assert batch.y is not None
    loss = torch.nn.functional.binary_cross_entropy_with_logits(output.logits, batch.y)
    alpha = output.probability if options.get("info_on") == "p" else output.attention
    start, final = options.get("r_start", 0.9), options.get("r_final", 0.7)
    decrease = math.floor(epoch / options.get("r_interval", 10)) * options.get("r_step", 0.1)
    r = max(start - decrease, final)
    info = {
        "none": torch.zeros(()),
        "l1": alpha.mean(),
        "information": (
            alpha * torch.log(alpha / r + 1e-6)
            + (1 - alpha) * torch.log((1 - alpha) / (1 - r + 1e-6) + 1e-6)
        ).mean(),
    }[options.get("regulariser", "information")]
    return {"loss": loss, "info": info, "total": loss + options.get("info_coef", 1.0) * info}


def numbers(parts: dict[str, Tensor]) -> dict[str, float]:
    return {key: float(value.detach()) for key, value in parts.items()}


@pytest.mark.parametrize("epoch", [0, 3, 25])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_step_minimises_the_total_of_the_options(
    name: str, epoch: int, data: gsat.Dataset, batch: GraphBatch
) -> None:
    """Both networks learn from both forward passes."""
    options, at = OPTIONS[name], context(epoch)
    method = make(data, **options)
    model = copy.deepcopy(method.model)
    output = model(batch, at.draws)
    parts = by_hand(options, output, batch, epoch)
    assert numbers(method.step(batch, at)) == pytest.approx(numbers(parts), rel=1e-5, abs=1e-6)
    parts["total"].backward()
    gradients = {n: p.grad for n, p in method.model.named_parameters() if p.grad is not None}
    expected = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    assert gradients.keys() == expected.keys()
    # Before a norm some gradients are 0 but for rounding, so all share one scale.
    scale = max(float(grad.abs().max()) for grad in expected.values())
    for key, grad in gradients.items():
        assert (grad - expected[key]).abs().max() < 1e-5 * scale, key
    for part in ("backbone.encoder.weight", "extractor.first.weight", "extractor.last.weight"):
        assert gradients[part].abs().max() > 0, part

    on_nodes = options.get("attention") == "node"
    assert len(output.attention) == (batch.num_nodes if on_nodes else batch.num_edges)
    noise = (output.attention - output.probability).abs()
    assert noise.max() == 0 if options.get("sampling") == "none" else noise.median() > 0.01
    hard = bool(((output.attention == 0) | (output.attention == 1)).all())
    assert hard == (options.get("sampling") == "straight-through")


# -- evaluation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["as published", "hard samples", "node attention", "l1"])
def test_evaluation_is_on_p_with_the_r_of_the_epoch(
    name: str, data: gsat.Dataset, batch: GraphBatch
) -> None:
    method = make(data, **OPTIONS[name])
    method.model.eval()
    before = {k: v.clone() for k, v in method.model.state_dict().items()}
    for epoch in (0, 12, 30):
        with torch.no_grad():
            output, parts = method.evaluate(batch, context(epoch))
            again, _ = method.evaluate(batch, Context("train", epoch, Draws(99)))
        assert torch.equal(output.attention, output.probability)
        assert torch.equal(output.logits, again.logits)
        expected = numbers(by_hand(OPTIONS[name], output, batch, epoch))
        assert numbers(parts) == pytest.approx(expected, rel=1e-5)
    for key, value in method.model.state_dict().items():
        assert torch.equal(value, before[key]), key


# -- the update -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weight_decay", [0.0, 3e-6, 0.1])
def test_the_update_is_adam_with_the_recipes_numbers(
    weight_decay: float, data: gsat.Dataset, batch: GraphBatch
) -> None:
    training = {"lr": 0.02, "weight_decay": weight_decay}
    method = make(data, training)
    # A plain Adam, fed the same gradients.
    model = copy.deepcopy(method.model)
    plain = Adam(model.parameters(), 0.02, weight_decay=weight_decay, foreach=False, fused=False)
    for epoch in range(3):
        method.step(batch, context(epoch))
        for ours, theirs in zip(model.parameters(), method.model.parameters(), strict=True):
            ours.grad = theirs.grad
        plain.step()
    for (key, ours), theirs in zip(
        model.named_parameters(), method.model.parameters(), strict=True
    ):
        torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-7, msg=key)
    (group,) = method.optimisers()["adam"].param_groups
    assert (group["lr"], group["weight_decay"]) == (0.02, weight_decay)
    assert (group["betas"], group["eps"]) == ((0.9, 0.999), 1e-8)
    assert not group["amsgrad"]
    assert len(group["params"]) == len(list(method.model.parameters()))


# -- the interface --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"r_final": 0.5}, 40),
        ({"r_final": 0.7}, 20),
        ({"r_final": 0.7, "r_interval": 30}, 60),
        ({"r_final": 0.7, "r_interval": 60}, 120),
        ({"r_final": 0.5, "r_interval": 5}, 20),
        ({"r_final": 0.7, "r_interval": 1}, 11),
        ({"r_final": 0.9}, 11),
    ],
)
def test_the_first_selectable_epoch(
    options: dict[str, Any], first: int, data: gsat.Dataset
) -> None:
    """The last column of the spec's table 1.7: max(11, when r settles)."""
    (phase,) = make(data, {"epochs": 17}, **options).phases()
    assert (phase.name, phase.epochs, phase.selectable_from) == ("train", 17, first)


def test_the_model_is_made_as_the_settings_say(data: gsat.Dataset) -> None:
    options = {
        "attention": "node",
        "extractor_dropout": 0.2,
        "sampling": "none",
        "temperature": 3.0,
    }
    model = make(data, **options, r_final=0.6).model
    assert (model.on, model.options.sampling, model.options.temperature) == ("node", "none", 3.0)
    assert model.extractor.dropout == 0.2
    assert model.r == 0.6
    assert make(data, regulariser="l1").model.r is None
    one, other = (make(data).model.state_dict() for _ in range(2))
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_keeps_the_interface(
    name: str, data: gsat.Dataset, batch: GraphBatch, tmp_path: Path
) -> None:
    kind = METHODS[name]
    assert issubclass(kind, Method)
    assert kind.name == name
    assert kind.title
    for text in (kind.summary, kind.paper):
        assert text.strip()
        assert "\n" not in text
    assert kind.reports in ("best", "last")
    backbone = gsat.GIN.for_data(data, hidden=8)
    training = TrainingSettings(epochs=3)
    gsat.GSAT(gsat.GIN.for_data(data, hidden=8)).save(tmp_path)  # some methods start from it
    runs = {key: str(tmp_path) for key in ("start", "teacher") if key in kind.Settings.model_fields}
    method = kind.create(backbone, kind.Settings(**runs), training, seed=0).to_device("cpu")
    method.prepare(data)
    phases = method.phases()
    assert len({phase.name for phase in phases}) == len(phases)
    assert all(phase.epochs > 0 for phase in phases)
    for phase in phases:
        method.begin(phase.name)
        at = Context(phase.name, 0, Draws(0, phase.name))
        for network in method.networks().values():
            network.train()
        if phase.steps:
            parts = method.step(batch, at)
            assert "loss" in parts
            assert all(value.ndim == 0 and value.isfinite() for value in parts.values())
            assert method.optimisers()
        for network in method.networks().values():
            network.eval()
        with torch.no_grad():
            output, parts = method.evaluate(batch, at)
        assert "loss" in parts
        assert output.logits.shape == (batch.num_graphs, method.model.task.num_logits)
        assert output.edge_weight.shape == (batch.num_edges,)
        method.finish_epoch(at, {"loss": 1.0, data.task.metric: 0.5})
    method.load_extra_state(method.extra_state())
