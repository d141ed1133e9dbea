"""Comparison of a document in the repository with its generator."""

from __future__ import annotations

from pathlib import Path

from paper.pages import write_between_marks


def assert_page(page: Path, generated: str, scratch: Path) -> None:
    """A page has between its marks what is generated from the recorded runs."""
    shown, copy = page.read_text(encoding="utf-8"), scratch / "copy.md"
    copy.write_text(shown, encoding="utf-8")
    write_between_marks(copy, generated)
    assert copy.read_text(encoding="utf-8") == shown, "run: make results"
