"""Tables in every format hold the same numbers and are well-formed."""

from __future__ import annotations

import csv
import io
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markdown_it import MarkdownIt
from scipy import stats

from gsat.core.errors import GSATError
from gsat.study.records import Records
from gsat.study.render import (
    FORMATS,
    RENDERERS,
    TextCell,
    TextTable,
    render,
    render_markdown,
)
from gsat.study.study import Experiment, find_study
from html_page import Page
from study_harness import failure, line, lines, table_rows

ROOT = Path(__file__).parents[2]
TABLE1, TABLE5 = find_study("table1"), find_study("table5")
GSAT, STAR = Experiment("mutag", "gsat"), Experiment("mutag", "gsat-star")
DIR = Experiment("mutag", "dir")
TABLE = TextTable(
    "Figures of 100 % & more",
    ("", "a_b", "c<d"),
    (
        "Upper part",
        (TextCell("GIN + GSAT*"),
         TextCell("98.43", "bold", "‡", " ± 1.19° (3)", "98.74 ± 0.55", "−0.7 se"),
         TextCell("no run", "missing", published="67.35 ± 3.29")),
        "Lower part",
        (TextCell("β=0"),
         TextCell("92.00", "underline", "", " ± 0.10†", "93.00"),
         TextCell("x|y")),
    ),
    ("First note_.", "R² & ° † ‡."),
    "table0",
    "paper",
)  # fmt: skip
ROWS = [
    ["GIN + GSAT*", "98.43‡ ± 1.19° (3)paper 98.74 ± 0.55, −0.7 se", "no runpaper 67.35 ± 3.29"],
    ["β=0", "92.00 ± 0.10†paper 93.00", "x|y"],
]


def cell(records: list[dict[str, Any]], row: str = "GIN + GSAT") -> str:
    """The Mutag cell of table 1."""
    return table_rows(render([TABLE1], Records(records), "markdown"))[row][1]


def test_markdown_is_parsed_as_intended() -> None:
    text = render_markdown([TABLE])
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "<strong>98.43</strong>" in html
    assert "<ins>92.00</ins>" in html
    page = Page(html)
    assert [row for row in page.rows if "".join(row[1:])] == ROWS
    assert all(text in page.text for text in ("a_b", "c<d", "Upper part", "Lower part"))


def test_an_html_page_is_complete_and_loads_no_other_files() -> None:
    page = RENDERERS["html"]([TABLE, TABLE])
    parsed = Page(page)
    assert page.startswith("<!DOCTYPE html>")
    assert parsed.links == []
    assert not {"link", "script", "img"} & {*parsed.tags}
    assert "url(" not in page
    assert "@import" not in page
    assert [row for row in parsed.rows if row] == [row[1:] for row in ROWS] * 2
    names = ("a_b", "c<d", "Upper part", "Lower part", *(row[0] for row in ROWS))
    assert all(name in parsed.text for name in names)
    assert "<strong>98.43</strong>" in page
    assert "<u>92.00</u>" in page


def test_latex_is_balanced_and_escaped() -> None:
    tex = RENDERERS["latex"]([TABLE])
    assert tex.isascii()
    body = re.sub(r"(?m)^%.*\n", "", tex)
    environments: list[str] = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", body):
        if what == "begin":
            environments.append(name)
        else:
            assert environments.pop() == name
    assert environments == []
    bare = re.sub(r"\\[\\{}%&_#$]", "", body)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert "%" not in bare
    # Outside of formulas nothing is raised or lowered.
    assert not re.search(r"[_^]", re.sub(r"\$[^$]*\$", "", bare))
    rows = [row for row in body.splitlines() if row.endswith(r"\\") and "multicolumn" not in row]
    assert all(re.sub(r"\\&", "", row).count("&") == 2 for row in rows)
    assert len(rows) == 1 + 2 * 2
    assert r"\begin{tabular}{lrr}" in tex
    assert r"\textbf{98.43}$^{\ddagger}$ $\pm$ 1.19$^{\circ}$ (3)" in tex
    assert r"98.74 $\pm$ 0.55 ($-$0.7 se)" in tex


def test_text_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = RENDERERS["text"]([TABLE])
    rows = [[part.strip() for part in line.split("│")[1:-1]] for line in text.splitlines()]
    assert ["GIN + GSAT*", "*98.43*‡ ± 1.19° (3)", "no run"] in rows
    assert ["paper", "98.74 ± 0.55", "67.35 ± 3.29"] in rows
    assert ["difference", "−0.7 se", ""] in rows
    assert ["β=0", "_92.00_ ± 0.10†", "x|y"] in rows


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_wide_table_is_cut_between_columns(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that is cut, or lines that drift apart, would be read wrongly."""
    monkeypatch.setenv("COLUMNS", str(width))
    runs = [
        record
        for column in TABLE1.datasets
        for record in lines(Experiment(column, "gsat"), {0: 0.987})
    ]
    text = render([TABLE1], Records(runs), "text")
    assert "…" not in text
    shown = [row for row in text.splitlines() if row[:1] in "┃│├"]
    if width >= 80:
        assert max(map(len, shown)) <= width
    cells = [[part.strip() for part in re.split("[┃│]", row)[1:-1]] for row in shown]
    assert [name for row in cells if row and not row[0] for name in row[1:]] == TABLE1.datasets
    papers = [
        value
        for above, row in itertools.pairwise(cells)
        if above and above[0] == "GIN + GSAT" and row[0] == "paper"
        for value in row[1:]
    ]
    assert papers[:2] == ["98.74 ± 0.55", "99.60 ± 0.51"]
    assert len(papers) == 6


def test_a_plain_table_has_one_line_per_row() -> None:
    rows = ((TextCell("a"), TextCell("1")), (TextCell("b"), TextCell("2")))
    plain = TextTable("T", ("", "p"), rows)
    assert render_markdown([plain]) == "### T\n\n|  | p |\n| --- | --- |\n| a | 1 |\n| b | 2 |\n"
    for style in ("html", "latex", "text"):
        assert "published" not in RENDERERS[style]([plain])


def test_csv_has_a_line_per_cell() -> None:
    records = Records(lines(GSAT, {0: 0.97, 1: 0.99}))
    rows = list(csv.DictReader(io.StringIO(render([TABLE1, TABLE5], records, "csv"))))
    assert len(rows) == 66 + 27
    assert sum(row["published_mean"] != "" for row in rows) == 54 + 27
    (gsat,) = [row for row in rows if row["mean"]]
    assert (gsat["study"], gsat["metric"], gsat["dataset"], gsat["seeds"]) == (
        "table1", "explanation_auc", "mutag", "2"
    )  # fmt: skip
    assert float(gsat["mean"]) == pytest.approx(98.0)
    assert float(gsat["std"]) == pytest.approx(1.0)
    assert (gsat["published_mean"], gsat["published_std"]) == ("99.6", "0.51")


def test_a_cell_shows_ours_and_the_papers() -> None:
    shown = cell(lines(GSAT, {0: 0.97, 1: 0.99, 2: 0.995}))
    mean, std = np.mean([97, 99, 99.5]), np.std([97, 99, 99.5])
    assert shown.startswith(f"{mean:.2f} ± {std:.2f}<br><sub>paper 99.60 ± 0.51, −1.4 se")
    assert cell([]) == "no run<br><sub>paper 99.60 ± 0.51</sub>"
    random = Experiment("mutag", "random", settings=(("epochs", 1),))
    assert cell(lines(random, {0: 0.5}), "Random (trivial)") == "50.00 (1)"


GOOD = lines(GSAT, {0: 0.9, 1: 0.9})


@pytest.mark.parametrize(
    ("records", "begin"),
    [
        ([*GOOD, failure(GSAT, 2)], "90.00 ± 0.00 (2, 1 failed)<br>"),
        ([*GOOD, *lines(GSAT, {4: 0.9})], "90.00 ± 0.00 (only seeds 0, 1, 4)<br>"),
        ([failure(GSAT, 0), failure(GSAT, 1)], "2 failed<br>"),
        (lines(GSAT, {0: 0.9, 1: None}), "undefined"),
        # The number of seeds is given where it is not that of most cells.
        ([*GOOD, *lines(DIR, {0: 0.9, 1: 0.8}), *lines(STAR, {0: 0.9})], "90.00 ± 0.00<br>"),
        ([*GOOD[:1], *lines(DIR, {0: 0.9, 1: 0.8}), *lines(STAR, {0: 1, 1: 1})], "90.00 (1)<br>"),
    ],
)
def test_failed_and_missing_seeds_are_shown(records: list[dict[str, Any]], begin: str) -> None:
    assert cell(records).startswith(begin)


def test_other_data_is_marked_and_the_marks_are_explained() -> None:
    records = [line(GSAT, 0, matches_paper="rebuilt"), line(DIR, 0, matches_paper="different")]
    notes = render([TABLE1], Records(records), "markdown").rsplit("\n\n", 1)[1]
    for mark, row in (("°", "GIN + GSAT"), ("†", "GIN + DIR")):
        assert cell(records, row).startswith(f"70.00{mark}<br>")
        assert mark in notes
        assert mark not in render([TABLE1], Records([line(GSAT, 0)]), "markdown")


def test_tables_of_a_study_have_headings_and_metrics_of_their_own() -> None:
    motif = Experiment("spmotif-0.5", "gsat")
    text = render([TABLE5], Records(lines(motif, {0: 0.8})), "markdown")
    above, below = text.split("| *Prediction* |")
    assert table_rows(above)["GIN + GSAT"][0].startswith("80.00")
    assert table_rows(below)["GIN + GSAT"][0].startswith("40.00")


@pytest.mark.parametrize("style", FORMATS)
def test_every_format_has_the_recorded_and_the_published_numbers(style: str) -> None:
    records = Records.read(ROOT / "results" / "runs.jsonl")
    text = render([TABLE1, TABLE5], records, style)
    expected = cell_mean(records)
    assert (f"{expected:.2f}" if style != "csv" else str(expected)) in text
    assert "98.74" in text
    with pytest.raises(GSATError, match="pdf"):
        render([TABLE1], records, "pdf")


def cell_mean(records: Records) -> float:
    """The mean explanation AUC of GSAT on Mutag, in per cent."""
    aucs = [100 * v for v in records.of(GSAT).values("explanation_auc").values() if v is not None]
    return float(sum(aucs) / len(aucs))


def test_only_the_cells_of_some_recipes_are_shown() -> None:
    text = render([TABLE1, TABLE5], Records([]), "markdown", hashes={GSAT.hash})
    assert table_rows(text)[""] == ["mutag"]
    assert [name for name in table_rows(text) if "GIN" in name] == ["GIN + GSAT"]
    assert "table5" not in text


def test_paired_comparisons_follow_if_requested() -> None:
    ours, star = [0.9, 0.95, 0.85, 0.97, 0.9, 0.94], [0.8, 0.96, 0.8, 0.97, 0.7, 0.9]
    theirs = [0.7, 0.9, 0.86, 0.5, 0.6, 0.55]
    records = [*lines(GSAT, dict(enumerate(ours))), *lines(STAR, dict(enumerate(star))),
               *lines(DIR, dict(enumerate(theirs)))]  # fmt: skip
    text = render([TABLE1], Records(records), "markdown", statistics=True)
    below = table_rows(text.split("### ")[2])
    n, difference, p, corrected, signed, ratio = below["GIN + GSAT against GIN + DIR"]
    gaps = 100 * (np.array(ours) - np.array(theirs))
    assert n == "6"
    assert difference == f"+{gaps.mean():.2f} ± {stats.sem(gaps):.2f}"
    expected = stats.ttest_1samp(gaps, 0).pvalue
    assert p == f"{expected:.3f}"
    # Two comparisons in the column, this the smaller p.
    assert corrected == f"{2 * expected:.3f}"
    assert signed == f"{stats.wilcoxon(ours, theirs).pvalue:.3f}"
    assert ratio == f"{np.std(ours) / np.std(theirs):.2f}"
    comparisons = render([TABLE1], Records(records), "csv", statistics=True)
    (row, _) = csv.DictReader(io.StringIO(comparisons))
    assert float(row["p"]) == pytest.approx(expected)
    assert float(row["p_holm"]) == pytest.approx(2 * expected)
