"""The page ``docs/speed.md``, made from the figures that ``python -m benchmarks --json`` keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

TITLES = {
    "ba2motifs": "BA-2Motifs",
    "mutag": "Mutag",
    "spmotif-0.5": "Spurious-Motif",
    "mnist75sp": "MNIST-75sp",
}
TEMPLATE = Path(__file__).with_name("speed.md.j2")


def speed_page(figures: dict[str, Any]) -> str:
    """Write the page."""
    # Markdown, not HTML; the figures are our own.
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(**figures, titles=TITLES)
