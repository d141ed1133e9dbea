"""Generated documents contain exactly the recorded results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from paper.pages import (
    HEADLINES,
    headline_numbers,
    results_page,
    write_between_marks,
)

from gsat.core.errors import GSATError
from gsat.study.records import Records
from gsat.study.study import Experiment
from study_harness import failure, line, lines, table_rows

ROOT = Path(__file__).parents[2]
GSAT = Experiment("mutag", "gsat")


def test_the_results_have_every_table_with_a_run_then_the_other_runs() -> None:
    short = Experiment("mutag", "gsat", settings=(("epochs", 5),))
    page = results_page(Records([*lines(GSAT, {0: 0.9}), *lines(short, {0: 0.8})]))
    headings = [row for row in page.splitlines() if row.startswith("### ")]
    assert [heading.split(":")[0] for heading in headings] == [
        "### table1", "### table6", "### claims", "### Other recorded runs"
    ]  # fmt: skip
    # What has no run at all is named, not shown.
    assert table_rows(page)[""] == ["mutag"]
    assert "GIN + DIR" not in table_rows(page)
    assert "No run yet: ba2motifs, mnist75sp, " in page
    assert "GIN + DIR, " in page
    assert page.count("° graphs generated again") == 1
    assert results_page(Records([])) == "Nothing has been recorded yet.\n"


def test_a_table_with_failures_only_is_in_the_results() -> None:
    page = results_page(Records([failure(GSAT, 0)]))
    assert table_rows(page)["GIN + GSAT"] == ["1 failed<br><sub>paper 99.60 ± 0.51</sub>"]


def test_a_generated_text_is_written_between_the_marks(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("a\n<!-- results:begin -->\nold\n<!-- results:end -->\nb\n", encoding="utf-8")
    write_between_marks(file, "new\n")
    write_between_marks(file, "new\n")
    assert file.read_text(encoding="utf-8") == (
        "a\n<!-- results:begin -->\n\nnew\n\n<!-- results:end -->\nb\n"
    )
    (tmp_path / "bare.md").write_text("nothing", encoding="utf-8")
    with pytest.raises(GSATError, match="needs the lines <!-- results:begin -->"):
        write_between_marks(tmp_path / "bare.md", "new\n")


def test_headlines_are_eight_numbers_beside_the_papers() -> None:
    assert len(HEADLINES) == len(set(HEADLINES)) == 8
    molecules = Experiment("ogbg-molbace", "gsat", "pna")
    records = [
        *lines(GSAT, {0: 0.98, 1: 1.0}),
        line(molecules, 0, test={"roc_auc": 0.75}, matches_paper="rebuilt"),
    ]
    shown = headline_numbers(Records(records))
    rows = [row for row in shown.splitlines() if row.startswith("| ")][2:]
    assert len(rows) == 8
    assert "| mutag | GIN + GSAT | Explanation AUC | 99.00 ± 1.00 (2) | 99.60 ± 0.51 |" in rows
    assert "| ogbg-molbace | PNA + GSAT | ROC AUC | 75.00° (1) | 77.41 ± 2.42 |" in rows
    assert sum("| no run |" in row for row in rows) == 6
    assert "(docs/results.md)" in shown
    assert "° graphs generated again" in shown
    assert "°" not in headline_numbers(Records(lines(GSAT, {0: 0.9})))


def test_headlines_are_numbers_of_the_tables() -> None:
    records = Records.read(ROOT / "results" / "runs.jsonl")
    page = results_page(records)
    rows = [row for row in headline_numbers(records).splitlines() if row.startswith("| ")][2:]
    for row in rows:
        mean = row.split(" | ")[3].split(" ")[0].rstrip("°†")
        assert re.search(rf"\b{mean}\b", page)
