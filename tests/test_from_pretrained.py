"""GSAT on a network that was trained elsewhere: taken over whole, or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gsat
from gsat.training.recipe import make_recipe


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


@pytest.mark.parametrize("method", ["erm", "gsat"])
@pytest.mark.parametrize("kind", [str, Path])
def test_from_a_run(method: str, kind: type, data: gsat.Dataset, tmp_path: Path) -> None:
    settings = {"graphs": 60, "epochs": 2, "hidden": 8, "layers": 1}
    run = gsat.train(make_recipe("ba2motifs", method=method, settings=settings), tmp_path / "run")
    model = gsat.GSAT.from_pretrained(kind(tmp_path / "run"))
    assert same(model.backbone, run.model.backbone)
    assert not same(model.backbone, make(data, seed=0))
    tuned = gsat.fit(model, data, epochs=2)
    assert not same(tuned.model.backbone, run.model.backbone)


@pytest.mark.parametrize("method", ["erm", "gsat", "gnnexplainer", "ib-subgraph"])
def test_from_a_trained_model(method: str) -> None:
    settings = {"graphs": 60, "epochs": 1, "hidden": 8, "layers": 1}
    trained = gsat.train(make_recipe("ba2motifs", method=method, settings=settings)).model
    model = gsat.GSAT.from_pretrained(trained)
    assert model.backbone is trained.backbone


def test_dirs_backbone_gives_no_answers_by_itself() -> None:
    settings = {"graphs": 60, "epochs": 1, "hidden": 8, "layers": 1}
    run = gsat.train(make_recipe("ba2motifs", method="dir", settings=settings))
    with pytest.raises(gsat.GSATError, match="DIR"):
        gsat.GSAT.from_pretrained(run.model)


def test_from_a_state_dict(data: gsat.Dataset) -> None:
    trained, fresh = make(data), make(data, seed=9)
    model = gsat.GSAT.from_pretrained(trained.state_dict(), backbone=fresh)
    assert model.backbone is fresh
    assert same(fresh, trained)
    with torch.no_grad():
        trained.head.weight.zero_()
    assert not same(fresh, trained)  # a copy: the other network goes its own way


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
    with pytest.MonkeyPatch.context() as patch:
        from gsat.launch.progress import Progress

        def stop(self: Progress, status: str = "") -> None:
            raise KeyboardInterrupt

        patch.setattr(Progress, "advance", stop)
        with pytest.raises(KeyboardInterrupt):
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
    ("how", "said"),
    [
        ("missing", "'encoder.weight' is missing"),
        ("unknown", "'module.encoder.weight' is unknown"),
        ("shape", "'head.weight' is [3, 8]"),
        ("several", "(and 1 more)"),
    ],
)
def test_weights_that_do_not_fit_are_named_in_one_line(
    how: str, said: str, data: gsat.Dataset
) -> None:
    target, untouched = make(data, seed=9), make(data, seed=9)
    with pytest.raises(gsat.GSATError) as caught:
        gsat.GSAT.from_pretrained(broken(make(data).state_dict(), how), backbone=target)
    assert said in str(caught.value)
    assert "GIN" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert same(target, untouched)


def test_what_can_not_be_taken_over_is_said(data: gsat.Dataset, tmp_path: Path) -> None:
    with pytest.raises(gsat.GSATError, match="give backbone="):
        gsat.GSAT.from_pretrained(make(data).state_dict())
    with pytest.raises(gsat.GSATError, match="is for state dicts"):
        gsat.GSAT.from_pretrained(make(data), backbone=make(data))
    with pytest.raises(gsat.GSATError, match="not a Linear"):
        gsat.GSAT.from_pretrained(nn.Linear(2, 2))  # type: ignore[arg-type]
    with pytest.raises(gsat.GSATError, match="is not a run"):
        gsat.GSAT.from_pretrained(tmp_path)
