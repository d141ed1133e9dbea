"""The examples about wrapped networks and PyG's explainers run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(name: str, *options: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


def measured(name: str, said: str) -> float:
    found = re.search(rf"^{name} (\d\.\d+)$", said, re.MULTILINE)
    assert found, said
    return float(found[1])


@pytest.mark.slow
def test_a_gin_of_pyg_finds_the_motifs() -> None:
    said = run("wrap_your_model.py")
    assert measured("accuracy", said) > 0.9
    assert measured("explanation AUC", said) >= 0.95


@pytest.mark.medium
def test_wrap_your_model() -> None:
    said = run("wrap_your_model.py", "--fast")
    assert all(0 <= measured(name, said) <= 1 for name in ("accuracy", "explanation AUC"))
    assert "explanation" in said or "edges ranked" in said
    assert re.search(r"^ *\d+ – \d+ +0\.\d+$", said, re.MULTILINE), said


@pytest.mark.medium
def test_pyg_explainer_metrics() -> None:
    said = run("pyg_explainer_metrics.py", "--fast")
    for name in ("GSAT", "GNNExplainer"):
        found = re.search(rf"^{name} +(.*)$", said, re.MULTILINE)
        assert found, said
        plus, minus, _, unfaithful, auroc = (float(value) for value in found[1].split())
        assert 0 <= plus <= 1
        assert 0 <= minus <= 1
        assert 0 < unfaithful <= 1  # of one column it would be 0
        assert 0 <= auroc <= 1
