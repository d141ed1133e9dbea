"""The study of the audit: its models, statistics and records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from paper.audit_models import SETTINGS, AuditedModel, Planted, audited_models
from paper.audit_page import audit_study_page
from paper.audit_study import (
    audit_one,
    correlation,
    correlation_within,
    outcome,
    rates,
    read_audits,
    separation,
)
from scipy import stats

from gsat.audit.verdict import OUTCOMES
from gsat.core.errors import GSATError
from gsat.methods.base import Context
from gsat.ops import Draws
from gsat.training.loop import make_method
from gsat.training.recipe import load_data
from paper import audit_models

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "results" / "audit.jsonl"


def fake(
    auc: float, gap: float, degenerate: str = "", data: str = "a", **more: Any
) -> dict[str, Any]:
    measures = {"metric": 0.9, "skill": 0.8, "rest_redrawn": 0.9, "redrawn_gap": gap}
    return {
        "data": data, "setting": "GSAT", "backbone": "gin", "seed": 0, "degenerate": degenerate,
        "explanation_auc": auc, "metric": "accuracy", "graphs": 10, "measures": measures,
        "believe": gap > 0.2, "verdict": "", "evaluations": 50.0, **more,
    }  # fmt: skip


# -- the models ------------------------------------------------------------------------------------


def test_models_have_different_names() -> None:
    names = [model.name for model in audited_models()]
    assert len(set(names)) == len(names) > 0


SMALL = {"graphs": 40, "epochs": 2, "hidden": 16, "layers": 2}


def test_planted_models_are_taught_to_highlight_green_or_violet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit_models, "DATA", {"rbgv": SMALL})
    recipe = AuditedModel("rbgv", "planted", "gin", 0).recipe
    data = load_data(recipe)
    method = make_method(recipe, data, Planted)
    batch = data.store.select(range(6)).batch()
    context = Context("train", 0, Draws(0))
    with torch.no_grad():
        output, losses = method.evaluate(batch, context)
    colour, wanted = batch.x.argmax(dim=1), []
    for source, target in batch.edge_index.T.tolist():
        violet = batch.y[batch.node_graph[source], 0] > 0  # type: ignore[index]
        mark = 3 if violet else 2
        wanted.append(float(mark in (colour[source], colour[target])))
    taught = F.binary_cross_entropy(output.probability, torch.tensor(wanted))
    assert float(losses["total"] - losses["loss"]) == pytest.approx(float(taught), rel=1e-4)


def test_a_model_is_trained_audited_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_models, "DATA", {"ba2motifs": SMALL, "rbgv": SMALL})
    for model in (
        AuditedModel("ba2motifs", "shuffled labels", "gin", 0),
        AuditedModel("ba2motifs", "untrained", "gin", 1),
        AuditedModel("rbgv", "planted", "gin", 0),
    ):
        line = audit_one(model, tmp_path)
        assert (tmp_path / model.name).is_dir() is SETTINGS[model.setting].epochs
        assert (line["data"], line["setting"], line["seed"]) == (
            model.data, model.setting, model.seed,
        )  # fmt: skip
        assert line["degenerate"]
        assert line["evaluations"] > 1
        assert (line["measures"]["steady"] is None) is (model.setting == "untrained")


# -- the statistics --------------------------------------------------------------------------------


def test_correlations_and_separation() -> None:
    rng = np.random.default_rng(0)
    records = [
        fake(auc, gap, data=data)
        for data in "ab"
        for auc, gap in zip(rng.random(8), rng.random(8), strict=True)
    ]
    aucs, gaps = (
        [r["explanation_auc"] for r in records],
        [r["measures"]["redrawn_gap"] for r in records],
    )
    assert correlation(records, "redrawn_gap") == pytest.approx(
        stats.spearmanr(aucs, gaps).statistic
    )
    halves = [stats.spearmanr(aucs[i : i + 8], gaps[i : i + 8]).statistic for i in (0, 8)]
    assert correlation_within(records, "redrawn_gap") == pytest.approx(np.mean(halves))
    assert correlation(records[:3], "redrawn_gap") is None
    assert correlation(records, "stable_correlation") is None
    two = [fake(0.99, 0.5), fake(0.96, 0.1), fake(0.4, 0.3, "random"), fake(0.9, 0.9)]
    # Of the two good ones, one has a wider gap than the degenerate model.
    assert separation(two, "redrawn_gap") == 0.5
    assert rates(two) == {"rejected": (0, 1), "accepted": (1, 2)}


def test_records_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    assert read_audits(path) == []
    path.write_text('{"data": 1}\n', "utf-8")
    with pytest.raises(GSATError, match="line 1"):
        read_audits(path)


# -- what is recorded ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded() -> list[dict[str, Any]]:
    return read_audits(RECORDED)


def test_the_verdict_separates_good_explanations_from_bad_ones(
    recorded: list[dict[str, Any]],
) -> None:
    assert len(recorded) >= 60
    for some in (recorded, [r for r in recorded if r["seed"] >= audit_models.CHECKED_FROM]):
        found = rates(some)
        rejected, bad = found["rejected"]
        accepted, good = found["accepted"]
        assert rejected >= 0.9 * bad > 0
        assert accepted >= 0.9 * good > 0


def test_an_audit_costs_less_than_a_hundred_evaluations(recorded: list[dict[str, Any]]) -> None:
    assert max(record["evaluations"] for record in recorded) <= 100


def test_the_page_counts_outcomes(recorded: list[dict[str, Any]]) -> None:
    page = audit_study_page(recorded)
    rows = [line for line in page.splitlines() if line.startswith("| ba2motifs | GSAT |")]
    cells = [cell.strip() for cell in rows[0].strip("|").split("|")]
    counts = [int(number) for number in cells[-1].split(",")]
    assert sum(counts) == int(cells[2])
    own = [r for r in recorded if (r["data"], r["setting"]) == ("ba2motifs", "GSAT")]
    assert counts == [sum(outcome(r) == name for r in own) for name in OUTCOMES]
