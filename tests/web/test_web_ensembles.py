"""Pages of an ensemble: its members, their mean and their disagreement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from web_harness import make_client

import gsat
from gsat.training.recipe import make_recipe
from gsat.web.charts import mean_curves
from gsat.web.pictures import unit_spreads

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> gsat.Run:
    """Two members, trained for two epochs."""
    path = tmp_path_factory.mktemp("ensemble") / "both"
    settings = {"graphs": 60, "hidden": 8, "epochs": 2, "members": 2}
    gsat.train(make_recipe("ba2motifs", seed=1, settings=settings), path)
    return gsat.open_run(path)


@pytest.fixture(scope="module")
def page(ensemble: gsat.Run) -> Iterator[TestClient]:
    """A client of the pages of the ensemble."""
    assert ensemble.path is not None
    with make_client(ensemble.path) as made:
        yield made


def test_the_overview_has_members_their_scores_and_the_mean_of_their_curves(
    page: TestClient, ensemble: gsat.Run
) -> None:
    assert page.get("/api/runs/both").json()["test"] == ensemble.test
    text = " ".join(page.get("/runs/both").text.split())
    assert "<dt>members</dt><dd>2, with seeds 2 to 3</dd>" in text
    assert "<dt>seed</dt>" not in text
    settings = "the recipe for ba2motifs, with hidden=8, epochs=2"
    assert f"<dt>settings</dt><dd>{settings}</dd>" in text
    each = [one["test"]["explanation_auc"] for one in ensemble.result["members"]]
    assert f"{np.mean(each):.4f} ± {np.std(each):.4f}" in text
    assert "explanation AUC over 2 epochs" in text


def test_curves_are_averaged_over_the_members_that_reached_an_epoch(ensemble: gsat.Run) -> None:
    assert ensemble.path is not None
    folders = sorted((ensemble.path / "members").iterdir())
    logs = [gsat.open_run(folder).log for folder in folders]
    first, second = (mean_curves([log]) for log in logs)
    mean = mean_curves([logs[0], logs[1][:1]])
    for title in first:
        a, b = first[title]["valid"], second[title]["valid"]
        assert mean[title]["valid"] == [pytest.approx((a[0] + b[0]) / 2), a[1]]


def test_edges_are_listed_with_their_spread_and_dashes_are_explained(
    page: TestClient, ensemble: gsat.Run
) -> None:
    explanation = ensemble.explain(graph=0, split="test")
    text = page.get("/runs/both/graphs/test/0").text
    best = explanation.ranked_edges()[0]
    spread = unit_spreads(explanation)
    assert spread is not None
    rows = re.findall(r'<td class="n">([\d.]+) <span class="soft">± ([\d.]+)</span>', text)
    assert len(rows) == explanation.num_units
    assert rows[0] == (f"{best.score:.3f}", f"{spread[best.unit]:.2f}")
    unit = explanation.units()[0]
    own = explanation.edge_spread[unit == best.unit]
    assert spread[best.unit] == pytest.approx(float(own.max()))
    assert "members differ by 0.1 or more" in text
    assert explanation.stability is not None
    assert explanation.reliability in text


def test_a_single_model_has_no_spread(ensemble: gsat.Run) -> None:
    assert ensemble.path is not None
    member = gsat.open_run(sorted((ensemble.path / "members").iterdir())[0])
    assert unit_spreads(member.explain(graph=0, split="test")) is None
    with make_client(member.path) as one:
        name = Path(member.path or "").name
        text = one.get(f"/runs/{name}/graphs/test/0").text
        assert "±" not in text
        assert "members" not in text
        assert "<dt>seed</dt><dd>2</dd>" in one.get(f"/runs/{name}").text
