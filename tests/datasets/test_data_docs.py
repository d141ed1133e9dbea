"""The script of docs/data.md that turns PGExplainer's pickle into plain arrays."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs" / "data.md"


@pytest.fixture
def convert(tmp_path: Path) -> Path:
    (script,) = (
        block
        for block in re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
        if "ArraysOnly" in block
    )
    path = tmp_path / "convert.py"
    path.write_text(script, "utf-8")
    return path


def run(convert: Path, content: object, protocol: int = 4) -> subprocess.CompletedProcess[str]:
    (convert.parent / "in.pkl").write_bytes(pickle.dumps(content, protocol))
    command = [sys.executable, convert.name, "in.pkl", "out.npz"]
    return subprocess.run(command, cwd=convert.parent, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("protocol", [0, 3])
def test_arrays_are_converted(convert: Path, protocol: int) -> None:
    adjacency, features, labels = np.eye(3)[None], np.full((1, 3, 10), 0.1), np.array([[0, 1]])
    result = run(convert, (adjacency, features, labels), protocol)
    assert result.returncode == 0, result.stderr
    with np.load(convert.parent / "out.npz", allow_pickle=False) as arrays:
        assert arrays["adj"].dtype == np.uint8
        assert (arrays["adj"] == adjacency).all()
        assert arrays["features"].dtype == np.float32
        assert arrays["labels_onehot"].tolist() == [[0, 1]]
        assert arrays["label"].tolist() == [1]


class Attack:
    """A pickle that would make a file."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("attacked",)


def test_code_is_refused(convert: Path) -> None:
    result = run(convert, (Attack(), 0, 0))
    assert result.returncode != 0
    assert "refused" in result.stderr
    assert not (convert.parent / "attacked").exists()
    assert not (convert.parent / "out.npz").exists()
