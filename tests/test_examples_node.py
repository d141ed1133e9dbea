"""The examples for node labels and regression run, and say what they promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run(script: str, picture: Path) -> str:
    command = [sys.executable, str(EXAMPLES / script), "--fast", "--out", str(picture)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.medium
def test_node_labels(tmp_path: Path) -> None:
    said = run("node_labels.py", tmp_path / "node.svg")
    assert "560/70/70 nodes, multiclass" in said
    accuracy = re.search(r"accuracy on test nodes: (\d\.\d+)", said)
    assert accuracy
    assert 0 <= float(accuracy[1]) <= 1
    assert re.search(r"node 304 sees \d+ nodes", said)  # the roof of the first house
    classes = re.search(r"classes of its nodes: \[(.*)\]", said)
    assert classes
    assert len(classes[1].split(",")) == 34
    assert 'class="marked"' in (tmp_path / "node.svg").read_text("utf-8")


@pytest.mark.medium
def test_regression(tmp_path: Path) -> None:
    said = run("regression.py", tmp_path / "houses.png")
    assert "48/6/6 graphs, regression" in said
    assert re.search(r"R² -?\d+\.\d+, mean absolute error \d+\.\d+ houses", said)
    true = re.search(r"true: +\[(.*)\]", said)
    assert true
    assert {float(number) for number in true[1].split(",")} <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert (tmp_path / "houses.png").stat().st_size > 10_000
