"""The examples about wrapped networks and PyG's explainers run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

pytestmark = pytest.mark.medium


def run(name: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--fast"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wrap_your_model() -> None:
    said = run("wrap_your_model.py")
    for name in ("accuracy", "explanation AUC"):
        found = re.search(rf"^{name} (\d\.\d+)$", said, re.MULTILINE)
        assert found, said
        assert 0 <= float(found[1]) <= 1
    assert "explanation" in said or "edges ranked" in said
    assert re.search(r"^ *\d+ → \d+ +0\.\d+$", said, re.MULTILINE), said


def test_pyg_explainer_metrics() -> None:
    said = run("pyg_explainer_metrics.py")
    for name in ("GSAT", "GNNExplainer"):
        found = re.search(rf"^{name} +(.*)$", said, re.MULTILINE)
        assert found, said
        plus, minus, _, unfaithful, auroc = (float(value) for value in found[1].split())
        assert 0 <= plus <= 1
        assert 0 <= minus <= 1
        assert 0 < unfaithful <= 1  # of one column it would be 0
        assert 0 <= auroc <= 1
