"""Other backbones and methods: a run of each can be trained, evaluated, explained and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from cli_harness import TINY, Outcome, Trained, refuse, succeed

import gsat

POST_HOC = {
    "gnnexplainer": "iterations=2",
    "pgexplainer": "explain_epochs=2",
    "graphmask": "epochs_per_layer=1",
}


def train(run: Path, *options: object) -> tuple[dict[str, object], Outcome]:
    """Train for one epoch: the result, which evaluation must repeat, and the output."""
    output = succeed("train", *TINY, *options, "--out", run)
    result = json.loads((run / "result.json").read_text())
    measured = json.loads(succeed("evaluate", run, "--json").out)
    for name in ("accuracy", "explanation_auc", "precision_at_5"):
        assert measured[name] == pytest.approx(result["test"][name], abs=1e-6)
    return result, output


@pytest.mark.medium
def test_a_backbone_with_its_own_settings(tmp_path: Path) -> None:
    chosen = ("--set", 'scalers=["identity", "amplification"]', "--set", 'aggregators=["mean"]')
    result, _ = train(tmp_path / "run", "--backbone", "pna", *chosen)
    assert result["backbone"] == "pna"
    config = gsat.load(tmp_path / "run").backbone.config
    assert config["scalers"] == ["identity", "amplification"]
    assert config["aggregators"] == ["mean"]


@pytest.mark.medium
def test_gsat_star_shows_the_metrics_before_fine_tuning(tmp_path: Path) -> None:
    result, output = train(tmp_path / "run", "--method", "gsat-star")
    accuracy = result["pretrained"]["test"]["accuracy"]  # type: ignore[index]
    assert output.lines[0].split()[-2:] == ["accuracy", f"{accuracy:.4f}"]
    assert output.lines[1].split()[:2] == ["test", "accuracy"]


def test_a_method_without_explanations(tmp_path: Path) -> None:
    result, output = train(tmp_path / "run", "--method", "erm")
    assert result["test"]["explanation_auc"] is None  # type: ignore[index]
    assert "undefined" in next(line for line in output.lines if "explanation" in line)
    refuse("evaluate", tmp_path / "run", "--refine", 1)
    assert "'erm'" in refuse("audit", tmp_path / "run", "--quiet")


@pytest.mark.parametrize("method", POST_HOC)
def test_a_post_hoc_explainer(method: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result, output = train(run, "--method", method, "--set", POST_HOC[method])
    assert (result["method"], result["selected"]) == (method, "last")
    assert output.lines[0].startswith("explained model: accuracy")
    succeed("explain", run, "--graph", 1, "--top", 6, "--out", tmp_path / "g.svg")
    assert ElementTree.parse(tmp_path / "g.svg").getroot().tag.endswith("svg")
    succeed("explain", run, "--split", "test", "--out", tmp_path / "scores.npz")
    with np.load(tmp_path / "scores.npz") as arrays:
        assert any(array.dtype.kind == "f" and len(array) > 50 for array in arrays.values())
    succeed("resume", run)
    refuse("train", "tree-cycles", "--method", method, "--out", tmp_path / "nodes")


def test_refinement_passes(trained: Trained) -> None:
    run = gsat.open_run(trained.path)
    measured = json.loads(succeed("evaluate", trained.path, "--refine", 1, "--json").out)
    assert measured == run.evaluate(refine=1) != run.evaluate()
    shown = json.loads(succeed("explain", trained.path, "--graph", 2, "--refine", 1, "--json").out)
    expected = run.explain(graph=2, refine=1).edge_mask.tolist()
    assert [edge["score"] for edge in shown["edges"]] == pytest.approx(expected)
