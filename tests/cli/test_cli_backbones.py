"""Other backbones and methods from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_harness import TINY, succeed

import gsat


@pytest.mark.medium
@pytest.mark.parametrize("backbone", ["pna", "leconv"])
def test_backbones(backbone: str, tmp_path: Path) -> None:
    succeed("train", *TINY, "--backbone", backbone, "--out", tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["backbone"] == backbone
    assert 0 <= result["test"]["explanation_auc"] <= 1
    model = gsat.load(tmp_path / "run")
    assert model.backbone.name == backbone
    output = succeed("evaluate", tmp_path / "run", "--json").out
    assert json.loads(output)["accuracy"] == result["test"]["accuracy"]


@pytest.mark.medium
def test_pna_with_scalers_and_fewer_aggregators(tmp_path: Path) -> None:
    chosen = ("--set", 'scalers=["identity", "amplification"]', "--set", 'aggregators=["mean"]')
    succeed("train", *TINY, "--backbone", "pna", *chosen, "--out", tmp_path / "run")
    model = gsat.load(tmp_path / "run")
    assert isinstance(model.backbone, gsat.PNA)
    assert model.backbone.config["scalers"] == ["identity", "amplification"]
    assert model.backbone.config["aggregators"] == ["mean"]
    assert 0.5 < float(model.backbone.mean_log_degree) < 2


@pytest.mark.medium
def test_gsat_star_says_what_was_before(tmp_path: Path) -> None:
    output = succeed("train", *TINY, "--method", "gsat-star", "--out", tmp_path / "run")
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert output.lines[0].split() == [
        "before", "fine-tuning:", "accuracy", f"{result['pretrained']['test']['accuracy']:.4f}"
    ]  # fmt: skip
    assert output.lines[1].split()[:2] == ["test", "accuracy"]
    assert isinstance(gsat.load(tmp_path / "run"), gsat.GSAT)


@pytest.mark.medium
def test_erm_has_no_explanation_to_measure(tmp_path: Path) -> None:
    output = succeed("train", *TINY, "--method", "erm", "--out", tmp_path / "run")
    assert "undefined" in next(line for line in output.lines if "explanation" in line)
    evaluated = json.loads(succeed("evaluate", tmp_path / "run", "--json").out)
    assert evaluated["explanation_auc"] is None
