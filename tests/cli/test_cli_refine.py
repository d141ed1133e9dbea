"""`--refine`: refinement passes, on the command line and of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from cli_harness import Trained, refuse, succeed

import gsat


def test_evaluate_and_explain_refine(trained: Trained) -> None:
    run = gsat.open_run(trained.path)
    measured = json.loads(succeed("evaluate", trained.path, "--refine", 1, "--json").out)
    assert measured == run.evaluate(refine=1)
    assert measured != run.evaluate()
    said = json.loads(succeed("explain", trained.path, "--graph", 2, "--refine", 1, "--json").out)
    again = run.explain(graph=2, refine=1)
    assert [edge["score"] for edge in said["edges"]] == pytest.approx(again.edge_mask.tolist())
    assert not torch.equal(again.edge_mask, run.explain(graph=2).edge_mask)
    assert torch.equal(run.refined(1).explain(graph=2).edge_mask, again.edge_mask)


def test_a_run_that_can_not_refine_says_so(tmp_path: Path) -> None:
    run = tmp_path / "erm"
    small = ("--set", "graphs=20", "--epochs", 1, "--quiet")
    succeed("train", "ba2motifs", "--method", "erm", *small, "--out", run)
    assert "PlainModel" in refuse("evaluate", run, "--refine", 1)
