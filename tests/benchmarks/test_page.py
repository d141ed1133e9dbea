"""The page about speed is up to date."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.page import speed_page

ROOT = Path(__file__).parents[2]


def test_the_page_follows_from_the_recorded_figures() -> None:
    figures = json.loads((ROOT / "results/bench.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/speed.md").read_text(encoding="utf-8")
    assert page == speed_page(figures)
    for row in figures["floor"] + figures["pna"]:
        assert f"{row['ratio']:.2f}" in page
