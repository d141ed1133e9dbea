"""``gsat results``: what was recorded, printed or written into a document."""

from __future__ import annotations

from pathlib import Path

from cli_harness import refuse, succeed

RECORDED = Path(__file__).parents[2] / "results" / "runs.jsonl"


def test_results_are_the_papers_tables_and_the_other_runs(tmp_path: Path) -> None:
    printed = succeed("results", RECORDED).out
    assert "### table1: Explanation AUC" in printed
    assert "### Other recorded runs" in printed
    assert "| GIN + GSAT |" in printed
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- results:begin -->\n<!-- results:end -->\nb\n", encoding="utf-8")
    assert succeed("results", RECORDED, "--write", page).out == ""
    assert page.read_text(encoding="utf-8") == (
        f"a\n<!-- results:begin -->\n\n{printed}\n<!-- results:end -->\nb\n"
    )


def test_no_recorded_runs_is_said(tmp_path: Path) -> None:
    output = refuse("results", tmp_path / "none.jsonl")
    assert "no recorded runs" in output
    assert "gsat train --record" in output
