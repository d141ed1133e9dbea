"""GSAT on a pretrained network: all weights are taken over, or a one-line error is raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gsat
from gsat.methods import METHODS
from gsat.training.recipe import make_recipe
from training_harness import stopping


@pytest.fixture(scope="module")
def data() -> gsat.Dataset:
    return gsat.load_dataset("ba2motifs", graphs=60)


def make(data: gsat.Dataset, seed: int = 3, **settings: Any) -> gsat.GIN:
    return gsat.GIN.for_data(data, hidden=8, layers=1, seed=seed, **settings)


def same(one: nn.Module, other: nn.Module) -> bool:
    ours, theirs = one.state_dict(), other.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def test_from_a_backbone(data: gsat.Dataset) -> None:
    backbone = make(data)
    model = gsat.GSAT.from_pretrained(backbone, "node", sampling="none", seed=5)
    assert model.backbone is backbone
    assert (model.on, model.options.sampling) == ("node", "none")
    assert same(model.extractor, gsat.GSAT(make(data), "node", seed=5).extractor)


@pytest.mark.parametrize(("method", "kind"), [("erm", str), ("gsat", Path)])
def test_from_a_run(method: str, kind: type, data: gsat.Dataset, tmp_path: Path) -> None:
    settings = {"graphs": 60, "epochs": 2, "hidden": 8, "layers": 1}
    run = gsat.train(make_recipe("ba2motifs", method=method, settings=settings), tmp_path / "run")
    model = gsat.GSAT.from_pretrained(kind(tmp_path / "run"))
    assert same(model.backbone, run.model.backbone)
    assert not same(model.backbone, make(data, seed=0))
    tuned = gsat.fit(model, data, epochs=2)
    assert not same(tuned.model.backbone, run.model.backbone)


@pytest.mark.parametrize("method", ["erm", "gsat", "gnnexplainer", "ib-subgraph", "dir"])
def test_from_a_model(method: str, data: gsat.Dataset) -> None:
    kind = METHODS[method]
    trained = kind.make_model(make(data), kind.Settings.model_validate({}), seed=0)
    if method == "dir":  # whose backbone only embeds parts of graphs
        with pytest.raises(gsat.GSATError, match="DIR"):
            gsat.GSAT.from_pretrained(trained)
    else:
        assert gsat.GSAT.from_pretrained(trained).backbone is trained.backbone


def test_from_a_state_dict(data: gsat.Dataset) -> None:
    trained, fresh = make(data), make(data, seed=9)
    model = gsat.GSAT.from_pretrained(trained.state_dict(), backbone=fresh)
    assert model.backbone is fresh
    assert same(fresh, trained)
    with torch.no_grad():
        trained.head.weight.zero_()
    assert not same(fresh, trained)  # the weights are copied


def test_fine_tuning_starts_from_the_given_weights_and_survives_a_kill(
    data: gsat.Dataset, tmp_path: Path
) -> None:
    """The recipe can't make these weights again, so the run keeps them."""
    settings: dict[str, Any] = {"epochs": 13, "r_interval": 1, "batch_size": 32}

    def fresh() -> gsat.GSAT:
        backbone = make(data, seed=9)
        return gsat.GSAT.from_pretrained(make(data).state_dict(), backbone=backbone)

    whole = gsat.fit(fresh(), data, out=tmp_path / "whole", **settings)
    other = gsat.fit(gsat.GSAT(make(data, seed=9)), data, **settings)
    assert not same(whole.model, other.model)

    killed = tmp_path / "killed"
    with stopping(1), pytest.raises(KeyboardInterrupt):
        gsat.fit(fresh(), data, out=killed, **settings)
    assert same(gsat.resume(killed).model, whole.model)


def broken(state: dict[str, Tensor], how: str) -> dict[str, Any]:
    state = dict(state)
    if how in ("missing", "several"):
        del state["encoder.weight"]
    if how in ("unknown", "several"):
        state["module.encoder.weight"] = torch.zeros(3)
    if how in ("shape", "several"):
        state["head.weight"] = torch.zeros(3, 8)
    if how == "several":
        del state["head.bias"]
    return state


@pytest.mark.parametrize(
    ("how", "parts"),
    [
        ("missing", ["'encoder.weight'"]),
        ("unknown", ["'module.encoder.weight'"]),
        ("shape", ["'head.weight'", "[3, 8]", "[1, 8]"]),
        ("several", ["1 more"]),
    ],
)
def test_weights_that_do_not_fit_are_named_in_one_line(
    how: str, parts: list[str], data: gsat.Dataset
) -> None:
    target, untouched = make(data, seed=9), make(data, seed=9)
    with pytest.raises(gsat.GSATError) as caught:
        gsat.GSAT.from_pretrained(broken(make(data).state_dict(), how), backbone=target)
    assert all(part in str(caught.value) for part in parts)
    assert "GIN" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert same(target, untouched)


def test_unsupported_sources_are_errors(data: gsat.Dataset, tmp_path: Path) -> None:
    with pytest.raises(gsat.GSATError, match="backbone="):
        gsat.GSAT.from_pretrained(make(data).state_dict())
    with pytest.raises(gsat.GSATError):
        gsat.GSAT.from_pretrained(make(data), backbone=make(data))
    with pytest.raises(gsat.GSATError, match="Linear"):
        gsat.GSAT.from_pretrained(nn.Linear(2, 2))  # type: ignore[arg-type]
    with pytest.raises(gsat.GSATError, match=str(tmp_path)):
        gsat.GSAT.from_pretrained(tmp_path)
