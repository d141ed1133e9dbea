"""The example scripts run and print plausible numbers."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
pytestmark = pytest.mark.medium
Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a script in a temporary folder and return its output."""
    monkeypatch.chdir(tmp_path)

    def made(script: str | Path, *options: str) -> str:
        monkeypatch.setattr(sys, "argv", [str(script), *options])
        runpy.run_path(str(EXAMPLES / script), run_name="__main__")
        return capsys.readouterr().out

    return made


def number(name: str, output: str) -> float:
    match = re.search(rf"{name}:? +(-?\d+\.\d+)", output)
    assert match, output
    return float(match[1])


@pytest.mark.slow
def test_wrapping_a_gin_of_pyg_finds_the_motifs(run: Run) -> None:
    output = run("wrap_your_model.py")
    assert number("accuracy", output) > 0.9
    assert number("explanation AUC", output) >= 0.95


def test_wrapping(run: Run) -> None:
    output = run("wrap_your_model.py", "--fast")
    assert 0 <= number("accuracy", output) <= 1
    assert 0 <= number("explanation AUC", output) <= 1
    assert re.search(r"^ *\d+ – \d+ +0\.\d+$", output, re.MULTILINE), output  # ranked edges


def test_metrics_of_pyg(run: Run) -> None:
    output = run("pyg_explainer_metrics.py", "--fast")
    for name in ("GSAT", "GNNExplainer"):
        match = re.search(rf"^{name} +(.*)$", output, re.MULTILINE)
        assert match, output
        plus, minus, _, unfaithful, auroc = (float(value) for value in match[1].split())
        assert all(0 <= value <= 1 for value in (plus, minus, auroc))
        assert 0 < unfaithful <= 1  # 0 if probabilities had one column


def test_fine_tuning(run: Run) -> None:
    output = run("finetune_your_checkpoint.py", "--fast")
    numbers = re.findall(r"\b[01]\.\d{3}\b", output)
    assert len(numbers) == 3
    assert all(0 <= float(value) <= 1 for value in numbers)
    assert len(re.findall(r"\[\d+, \d+\]", output)) == 6  # edges


def test_node_labels(run: Run, tmp_path: Path) -> None:
    output = run("node_labels.py", "--fast", "--out", str(tmp_path / "node.svg"))
    assert "560/70/70 nodes" in output
    assert 0 <= number("accuracy on test nodes", output) <= 1
    classes = re.search(r"classes of its nodes: \[(.*)\]", output)
    assert classes
    assert len(classes[1].split(",")) == 34
    assert 'class="marked"' in (tmp_path / "node.svg").read_text("utf-8")


def test_regression(run: Run, tmp_path: Path) -> None:
    output = run("regression.py", "--fast", "--out", str(tmp_path / "houses.png"))
    assert "48/6/6 graphs" in output
    assert number("R²", output) <= 1
    assert number("mean absolute error", output) >= 0
    true = re.search(r"true: +\[(.*)\]", output)
    assert true
    assert {float(value) for value in true[1].split(",")} <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert (tmp_path / "houses.png").stat().st_size > 10_000


def test_molecules(run: Run, tmp_path: Path) -> None:
    output = run("molecules.py", "--fast")
    assert "128/36/36 graphs" in output
    assert re.search(r"primary aromatic amine +score \d\.\d\d +effect [+-]\d\.\d\d", output)
    folder = tmp_path / "molecules"
    assert (folder / "report.html").read_text("utf-8").count("<article") == 36
    assert (folder / "patterns.html").stat().st_size > 0
    assert "bond-0" in (folder / "molecule.svg").read_text("utf-8")


def test_the_notebook(run: Run, tmp_path: Path) -> None:
    notebook = json.loads((EXAMPLES / "molecules.ipynb").read_text("utf-8"))
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    script = tmp_path / "notebook.py"
    script.write_text("\n".join(code).replace('"epochs": 40', '"epochs": 2'))
    run(script)
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "patterns.html").is_file()
