"""The example and the notebook about molecules run, and make the pages they promise."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=280, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.medium
def test_molecules(tmp_path: Path) -> None:
    printed = _run([sys.executable, str(EXAMPLES / "molecules.py"), "--fast"], tmp_path)
    assert "128/36/36 graphs, binary" in printed
    assert re.search(r"primary aromatic amine +score \d\.\d\d +effect [+-]\d\.\d\d", printed)
    assert (tmp_path / "molecules" / "report.html").read_text("utf-8").count("<article") == 36
    assert "How to read this" in (tmp_path / "molecules" / "patterns.html").read_text("utf-8")
    assert "bond-0" in (tmp_path / "molecules" / "molecule.svg").read_text("utf-8")


@pytest.mark.medium
def test_the_notebook(tmp_path: Path) -> None:
    notebook = json.loads((EXAMPLES / "molecules.ipynb").read_text("utf-8"))
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    text = "\n".join(code).replace('"epochs": 40', '"epochs": 2')
    (tmp_path / "notebook.py").write_text(text)
    _run([sys.executable, "notebook.py"], tmp_path)
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "patterns.html").is_file()
