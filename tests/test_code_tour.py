"""The files that docs/code-tour.md names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_code_tour_names_existing_files() -> None:
    text = (ROOT / "docs" / "code-tour.md").read_text("utf-8")
    files = re.findall(r"`([a-z_/]+\.py)`", text)
    missing = [file for file in files if not (ROOT / "src" / "gsat" / file).is_file()]
    assert files
    assert not missing
    for section in text.split("\n## ")[1:]:
        assert 1 <= len(re.findall(r"^\| `", section, re.M)) <= 7
