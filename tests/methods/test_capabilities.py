"""Answers and rescoring under given attention, for every method and many settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn

import gsat
from gsat.audit.audit import audit_model
from gsat.audit.settings import AuditSettings
from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch
from gsat.methods import METHODS
from gsat.methods.erm import PlainModel
from gsat.methods.gmt import GMT
from gsat.methods.gmt_classifier import Reclassified
from gsat.models import Backbone, InterpretableModel
from gsat.models.ensemble import mean_logits
from gsat.training.recipe import make_recipe

Build = Callable[[gsat.Dataset], InterpretableModel]

SHORT = AuditSettings.model_validate({"graphs": 30, "shares": (), "draws": 1, "est_budget": 1})


@pytest.fixture(scope="module")
def data() -> gsat.Dataset:
    return gsat.load_dataset("ba2motifs", graphs=30)


@pytest.fixture(scope="module")
def batch(data: gsat.Dataset) -> GraphBatch:
    return data.store.batch()


def gin(data: gsat.Dataset, seed: int = 0) -> Backbone:
    return gsat.GIN.for_data(data, hidden=8, layers=2, seed=seed)


def uneven(model: InterpretableModel) -> Any:
    """Make attention vary, and give each batch norm other statistics."""
    source = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d):
                shape = module.running_mean.shape  # type: ignore[union-attr]
                module.running_mean.copy_(torch.rand(shape, generator=source) - 0.5)  # type: ignore[union-attr]
                module.running_var.copy_(torch.rand(shape, generator=source) + 0.5)  # type: ignore[union-attr]
            if isinstance(module, gsat.attention.Extractor):
                module.last.weight.mul_(20)
                module.last.bias.copy_(torch.rand(1, generator=source) - 0.5)
    return model


def of_gsat(on: str = "edge", **settings: Any) -> Build:
    return lambda data: uneven(gsat.GSAT(gin(data), on, **settings))  # type: ignore[arg-type]


def recalibrated(data: gsat.Dataset) -> InterpretableModel:
    model = uneven(gsat.GSAT(gin(data), batch_norm="recalibrated"))
    model.recalibrate([data.train.batch()])
    return model


def with_snapshots(data: gsat.Dataset) -> InterpretableModel:
    model = uneven(gsat.GSAT(gin(data), "node"))
    others = [uneven(gsat.GSAT(gin(data, seed), "node", seed=seed)) for seed in (1, 2)]
    model.take_snapshots([other.state_dict() for other in others])
    return model


def gmt(variant: str, on: str = "edge", **settings: Any) -> Build:
    return lambda data: uneven(GMT(gin(data), on, variant=variant, **settings))  # type: ignore[arg-type]


def reclassified(on: str = "edge", refine: int | None = None, **settings: Any) -> Build:
    def build(data: gsat.Dataset) -> InterpretableModel:
        explainer = gsat.GSAT(gin(data), on, refine=refine)  # type: ignore[arg-type]
        return uneven(Reclassified(gin(data, 1), explainer, **settings))

    return build


def by_method(name: str) -> Build:
    def build(data: gsat.Dataset) -> InterpretableModel:
        kind = METHODS[name]
        settings = {"gnnexplainer": {"iterations": 2}, "gmt": {"samples": 3}}.get(name, {})
        return uneven(kind.make_model(gin(data), kind.Settings.model_validate(settings), seed=0))

    return build


def wrapped(**settings: Any) -> Build:
    def build(data: gsat.Dataset) -> InterpretableModel:
        torch.manual_seed(0)
        network = pyg.GIN(data.store.batch().x.shape[1], 8, num_layers=2, norm="batch_norm")
        return uneven(gsat.GSAT(gsat.wrap(network, task=data.task), **settings))

    return build


def another(name: str, **settings: Any) -> Build:
    def build(data: gsat.Dataset) -> InterpretableModel:
        backbone = gsat.models.BACKBONES[name].for_data(data, hidden=8, layers=2)
        return uneven(gsat.GSAT(backbone, batch_norm="separate", **settings))

    return build


REGISTERED = [name for name, kind in METHODS.items() if kind.__module__.startswith("gsat.")]
MODELS: dict[str, Build] = {
    **{name: by_method(name) for name in REGISTERED},
    "gmt-classifier": reclassified(),  # its method needs a trained run
    **{
        f"{settings}, {on}": of_gsat(on, **settings)
        for on in ("edge", "node")
        for settings in (
            {"batch_norm": "separate", "readout": "attended"},
            {"samples": 3},
            {"sampling": "straight-through"},
            {"sampling": "none", "refine": 2},
            {"extractor_norm": "row"},
            {"extractor_norm": "none"},
        )
    },
    "context": of_gsat("node", context=0.5, refine=1),
    "recalibrated": recalibrated,
    "snapshots": with_snapshots,
    "gmt sam, node": gmt("sam", "node", samples=3, batch_norm="separate", refine=1),
    "gmt lin": gmt("lin", batch_norm="separate"),
    "gmt-classifier, top": reclassified(edges="top", share=0.3),
    "gmt-classifier, node": reclassified("node", refine=1),
    "wrapped": wrapped(batch_norm="separate"),
    "pna": another("pna"),
    "leconv": another("leconv"),
    "dmpnn": another("dmpnn", attention="node"),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_answer_to_its_own_attention_is_its_prediction(
    name: str, data: gsat.Dataset, batch: GraphBatch
) -> None:
    model = MODELS[name](data)
    with model.evaluating():
        output = model(batch)
        attention = output.attention
        assert torch.equal(model.predict_batch(batch), output.logits)
        if not model.answers:
            with pytest.raises(GSATError, match=type(model).__name__):
                model.answer(batch, attention)
            return
        if not model.attention_decides:  # the network predicts with unweighted messages
            attention = torch.ones_like(attention)
        answer = model.answer(batch, attention)
    torch.testing.assert_close(answer, output.logits, rtol=1e-6, atol=1e-6)
    assert output.logits.std() > 1e-4  # the graphs have different predictions


@pytest.mark.parametrize("name", [*REGISTERED, "snapshots", "pna", "gmt-classifier, top"])
def test_rescoring_is_a_refinement_pass(name: str, data: gsat.Dataset, batch: GraphBatch) -> None:
    model = MODELS[name](data)
    with model.evaluating():
        if not model.rescores:
            with pytest.raises(GSATError, match=type(model).__name__):
                model.rescore(batch, model(batch).attention)
            with pytest.raises(GSATError, match=type(model).__name__):
                model.refined(1)
            return
        if name == "snapshots":
            model.take_snapshots([])
        once = model.refined(0)(batch).probability
        again = model.rescore(batch, once)
        assert torch.equal(again, model.refined(1)(batch).probability)
    assert not torch.equal(once, again)


@pytest.mark.parametrize(
    "name", ["gsat", "gmt", "gmt-classifier, node", "ib-subgraph", "pgexplainer", "wrapped", "dir"]
)
def test_the_audit_reproduces_every_prediction(
    name: str, data: gsat.Dataset, batch: GraphBatch
) -> None:
    model = MODELS[name](data)
    if name != "dir":  # shift the logits so that half of the graphs are of either class
        head = [part for part in model.backbone.head.modules() if isinstance(part, nn.Linear)][-1]  # type: ignore[union-attr]
        with model.evaluating():
            head.bias -= model(batch).logits.median()
    audit = audit_model(model, data.store, settings=SHORT)
    if model.answers and model.attention_decides:
        assert audit.measures["chance"] < 0.7  # type: ignore[operator]
        assert audit.measures["own_agreement"] == 1.0
        assert 0 <= audit.measures["zero_agreement"] <= 1  # type: ignore[operator]
    else:
        assert "own_agreement" not in audit.measures
    assert audit.unit == (model.on if model.answers else "edge")
    assert (audit.measures.get("again_difference") is not None) == model.rescores


def test_an_ensemble_answers_by_the_mean_of_its_members(
    data: gsat.Dataset, batch: GraphBatch
) -> None:
    members = [uneven(gsat.GSAT(gin(data, seed), seed=seed)) for seed in range(3)]
    ensemble = gsat.Ensemble(members)
    attention = torch.rand(batch.num_edges, generator=torch.manual_seed(0))
    with ensemble.evaluating():
        each = [member.answer(batch, attention) for member in members]
        whole = [member(batch).logits for member in members]
        answer, part = ensemble.answer(batch, attention), ensemble.predict_batch(batch)
        again = [member.rescore(batch, attention) for member in members]
        torch.testing.assert_close(
            ensemble.rescore(batch, attention), torch.stack(again).mean(dim=0)
        )
    torch.testing.assert_close(answer, mean_logits(data.task, torch.stack(each)))
    torch.testing.assert_close(part, mean_logits(data.task, torch.stack(whole)))
    assert not gsat.Ensemble([*members, PlainModel(gin(data))]).rescores


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({}, set()),
        ({"readout": "attended"}, {"readout=attended"}),
        ({"extractor_norm": "row"}, {"extractor_norm=row"}),
    ],
)
def test_remedies_are_settings_that_are_not_used_yet(
    data: gsat.Dataset, settings: dict[str, Any], missing: set[str]
) -> None:
    every = {"readout=attended", "extractor_norm=row", "snapshots=10", "members=3"}
    model = gsat.GSAT(gin(data), **settings)
    assert set(model.remedies) == every - missing
    for remedy in model.remedies:
        key, value = remedy.split("=")
        number = int(value) if value.isdecimal() else value
        assert make_recipe("ba2motifs", settings={key: number}).tables()
    assert set(gsat.Ensemble([model]).remedies) == every - missing - {"members=3"}
    assert PlainModel(gin(data)).remedies == ()
