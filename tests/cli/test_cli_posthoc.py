"""`gsat train --method gnnexplainer` and the others, and what can be done with such a run."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from cli_harness import TINY, refuse, succeed

SHORT = {
    "gnnexplainer": "iterations=2",
    "pgexplainer": "explain_epochs=2",
    "graphmask": "epochs_per_layer=1",
}


@pytest.mark.parametrize("method", SHORT)
def test_train_evaluate_and_explain(method: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    output = succeed("train", *TINY, "--method", method, "--set", SHORT[method], "--out", run)
    assert output.lines[0].startswith("explained model: accuracy")
    assert "too few epochs" not in output.out
    reported = json.loads((run / "result.json").read_text())
    assert (reported["method"], reported["selected"]) == (method, "last")
    measured = json.loads(succeed("evaluate", run, "--json").out)
    for name in ("accuracy", "explanation_auc", "precision_at_5"):
        assert measured[name] == pytest.approx(reported["test"][name], abs=1e-6)
    succeed("explain", run, "--graph", 1, "--top", 6, "--out", tmp_path / "g.svg")
    assert ElementTree.parse(tmp_path / "g.svg").getroot().tag.endswith("svg")
    succeed("explain", run, "--split", "test", "--out", tmp_path / "scores.npz")
    with np.load(tmp_path / "scores.npz") as arrays:
        assert any(array.dtype.kind == "f" and len(array) > 50 for array in arrays.values())
    assert succeed("resume", run).code == 0


@pytest.mark.parametrize("method", SHORT)
def test_answers_about_nodes_are_refused(method: str, tmp_path: Path) -> None:
    output = refuse("train", "tree-cycles", "--method", method, "--out", tmp_path / "run")
    assert "predictions of graphs" in output
