"""Every model predicts under given attention as it predicts with its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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
from gsat.training.train_method import make_method

Build = Callable[[gsat.Dataset, Path], InterpretableModel]

SHORT = AuditSettings.model_validate({"graphs": 30, "shares": (), "draws": 1, "est_budget": 1})


@pytest.fixture(scope="module")
def data() -> gsat.Dataset:
    return gsat.load_dataset("ba2motifs", graphs=30)


def gin(data: gsat.Dataset, seed: int = 0) -> Backbone:
    return gsat.GIN.for_data(data, hidden=8, layers=2, seed=seed)


def uneven(model: InterpretableModel) -> Any:
    """Make attention vary, and give each batch norm statistics of its own."""
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
    return lambda data, _: uneven(gsat.GSAT(gin(data), on, **settings))


def recalibrated(data: gsat.Dataset, _: Path) -> InterpretableModel:
    model = uneven(gsat.GSAT(gin(data), batch_norm="recalibrated"))
    model.recalibrate([data.train.batch()])
    return model


def with_snapshots(on: str) -> Build:
    def build(data: gsat.Dataset, _: Path) -> InterpretableModel:
        model = uneven(gsat.GSAT(gin(data), on))
        others = [uneven(gsat.GSAT(gin(data, seed), on, seed=seed)) for seed in (1, 2)]
        model.take_snapshots([other.state_dict() for other in others])
        return model

    return build


def gmt(variant: str, on: str = "edge", **settings: Any) -> Build:
    return lambda data, _: uneven(GMT(gin(data), on, variant=variant, **settings))  # type: ignore[arg-type]


def self_consistent(data: gsat.Dataset, folder: Path) -> InterpretableModel:
    small = {"graphs": 30, "hidden": 8, "layers": 2}
    first = make_method(make_recipe("ba2motifs", settings=small), data).model
    uneven(first).save(folder / "start")
    settings = {**small, "start": str(folder / "start")}
    return make_method(make_recipe("ba2motifs", method="gsat-sc", settings=settings), data).model


def reclassified(on: str = "edge", refine: int | None = None, **settings: Any) -> Build:
    def build(data: gsat.Dataset, _: Path) -> InterpretableModel:
        explainer = gsat.GSAT(gin(data), on, refine=refine)  # type: ignore[arg-type]
        return uneven(Reclassified(gin(data, 1), explainer, **settings))

    return build


def by_method(name: str, **settings: Any) -> Build:
    def build(data: gsat.Dataset, _: Path) -> InterpretableModel:
        kind = METHODS[name]
        return uneven(kind.make_model(gin(data), kind.Settings.model_validate(settings), seed=0))

    return build


def wrapped(on: str, **settings: Any) -> Build:
    def build(data: gsat.Dataset, _: Path) -> InterpretableModel:
        torch.manual_seed(0)
        network = pyg.GIN(data.store.batch().x.shape[1], 8, num_layers=2, norm="batch_norm")
        return uneven(gsat.GSAT(gsat.wrap(network, task=data.task), on, **settings))  # type: ignore[arg-type]

    return build


def another(name: str, **settings: Any) -> Build:
    def build(data: gsat.Dataset, _: Path) -> InterpretableModel:
        backbone = gsat.models.BACKBONES[name].for_data(data, hidden=8, layers=2)
        return uneven(gsat.GSAT(backbone, **settings))

    return build


MODELS: dict[str, Build] = {
    **{
        f"{name}, {on}": of_gsat(on, **settings)
        for on in ("edge", "node")
        for name, settings in {
            "gsat": {},
            "separate batch norm": {"batch_norm": "separate"},
            "attended read-out": {"readout": "attended"},
            "both": {"batch_norm": "separate", "readout": "attended"},
            "samples": {"samples": 3},
            "straight-through": {"sampling": "straight-through"},
            "no sampling": {"sampling": "none"},
            "refine": {"refine": 2},
            "norm by graph": {"extractor_norm": "graph"},
            "norm by row": {"extractor_norm": "row"},
            "no norm": {"extractor_norm": "none"},
        }.items()
    },
    "context, node": of_gsat("node", context=0.5, refine=1),
    "recalibrated": recalibrated,
    "snapshots, edge": with_snapshots("edge"),
    "snapshots, node": with_snapshots("node"),
    "gmt sam": gmt("sam", samples=3),
    "gmt sam, node": gmt("sam", "node", samples=3, batch_norm="separate"),
    "gmt sam, refine": gmt("sam", samples=3, refine=1),
    "gmt lin": gmt("lin"),
    "gmt lin, separate batch norm": gmt("lin", batch_norm="separate"),
    "gsat-sc": self_consistent,
    "distilled": by_method("distilled"),
    "gmt-classifier": reclassified(),
    "gmt-classifier, half": reclassified(edges="half"),
    "gmt-classifier, node": reclassified("node"),
    "gmt-classifier, refine": reclassified("node", refine=1),
    "ib-subgraph": by_method("ib-subgraph"),
    "gnnexplainer": by_method("gnnexplainer", iterations=2),
    "pgexplainer": by_method("pgexplainer"),
    "graphmask": by_method("graphmask"),
    "random": by_method("random"),
    "erm": lambda data, _: uneven(PlainModel(gin(data))),
    "wrapped, edge": wrapped("edge"),
    "wrapped, node": wrapped("node"),
    "wrapped, separate batch norm": wrapped("edge", batch_norm="separate"),
    "pna": another("pna", batch_norm="separate"),
    "leconv": another("leconv", batch_norm="separate"),
    "dmpnn": another("dmpnn", attention="node", batch_norm="separate"),
}


def undecided(model: InterpretableModel, batch: GraphBatch) -> InterpretableModel:
    """Shift the logits so that half of the graphs are of either class."""
    head = model.backbone.head
    assert isinstance(head, nn.Module)
    last = [part for part in head.modules() if isinstance(part, nn.Linear)][-1]
    with model.evaluating():
        last.bias -= model(batch).logits.median()
    return model


def own_answer(model: InterpretableModel, batch: GraphBatch) -> tuple[Any, Any]:
    """The answer under the model's own attention, and its own prediction."""
    with model.evaluating():
        output = model(batch)
        attention = output.attention
        if not model.attention_decides:  # the network predicts with whole messages
            attention = torch.ones_like(attention)
        return model.answer(batch, attention), output.logits


@pytest.mark.parametrize("name", MODELS)
def test_the_answer_to_its_own_attention_is_its_prediction(
    name: str, data: gsat.Dataset, tmp_path: Path
) -> None:
    model = MODELS[name](data, tmp_path)
    assert model.answers
    answer, logits = own_answer(model, data.store.batch())
    torch.testing.assert_close(answer, logits, rtol=1e-6, atol=1e-6)
    with model.evaluating():
        assert torch.equal(model.predict_batch(data.store.batch()), logits)
    assert logits.std() > 1e-4  # the graphs have different predictions


@pytest.mark.parametrize("name", [n for n in MODELS if n not in ("erm",)])
def test_the_audit_reproduces_every_prediction(
    name: str, data: gsat.Dataset, tmp_path: Path
) -> None:
    model = undecided(MODELS[name](data, tmp_path), data.store.batch())
    audit = audit_model(model, data.store, settings=SHORT)
    assert audit.unit == model.on
    assert audit.measures["chance"] < 0.7  # type: ignore[operator]
    if model.attention_decides:
        assert audit.measures["own_agreement"] == 1.0
        assert 0 <= audit.measures["zero_agreement"] <= 1  # type: ignore[operator]
    else:
        assert "own_agreement" not in audit.measures
    assert (audit.measures.get("again_difference") is not None) == model.rescores


def test_the_predictions_of_an_ensemble_are_those_of_its_members(
    data: gsat.Dataset, tmp_path: Path
) -> None:
    members = [uneven(gsat.GSAT(gin(data, seed), seed=seed)) for seed in range(3)]
    ensemble, batch = gsat.Ensemble(members), data.store.batch()
    attention = torch.rand(batch.num_edges, generator=torch.manual_seed(0))
    with ensemble.evaluating():
        each = [member.answer(batch, attention) for member in members]
        whole = [member(batch).logits for member in members]
        answer, part = ensemble.answer(batch, attention), ensemble.predict_batch(batch)
    torch.testing.assert_close(answer, mean_logits(data.task, torch.stack(each)))
    torch.testing.assert_close(part, mean_logits(data.task, torch.stack(whole)))
    assert audit_model(ensemble, data.store, settings=SHORT).measures["zero_agreement"] is not None


def test_a_model_without_answers_says_so(data: gsat.Dataset, tmp_path: Path) -> None:
    model = by_method("dir")(data, tmp_path)
    batch = data.store.batch()
    assert not model.answers
    with pytest.raises(GSATError, match="DIR"):
        model.answer(batch, torch.ones(batch.num_edges))
    audit = audit_model(model, data.store, settings=SHORT)
    assert audit.unit == "edge"
    assert "bypass" not in audit.measures


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
