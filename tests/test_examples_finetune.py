"""The example of fine-tuning runs, and says what was promised."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "examples" / "finetune_your_checkpoint.py"


@pytest.mark.medium
def test_it_runs() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--fast"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    numbers = re.findall(r"\b[01]\.\d{3}\b", done.stdout)
    assert len(numbers) == 3
    assert all(0 <= float(number) <= 1 for number in numbers)
    assert len(re.findall(r"\[\d+, \d+\]", done.stdout)) == 6
