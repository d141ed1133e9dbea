"""Every render_one says the same, and says it well-formed."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from gsat.study.printed import PrintedCell, PrintedTable
from gsat.study.records import Records
from gsat.study.renderers import RENDERERS
from gsat.study.report import render
from gsat.study.study import Experiment, TableStudy
from gsat.study.tables import STUDIES
from study_harness import lines

TABLE = PrintedTable(
    "Figures of 100 % & more",
    ("", "a_b", "c<d"),
    (
        "Upper part",
        (PrintedCell("GIN + GSAT*"),
         PrintedCell("98.43", "bold", "‡", " ± 1.19° (3)", "98.74 ± 0.55", "−0.7 se"),
         PrintedCell("no run", "missing", paper="67.35 ± 3.29")),
        "Lower part",
        (PrintedCell("β=0"),
         PrintedCell("92.00", "underline", "", " ± 0.10†", "93.00"),
         PrintedCell("x|y")),
    ),
    ("First note_.", "R² & ° † ‡."),
    "table0",
)  # fmt: skip


class Cells(HTMLParser):
    """The text of every cell, and whether all that was opened was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data


def parse(page: str) -> Cells:
    cells = Cells()
    cells.feed(page)
    cells.close()
    assert cells.open == []
    return cells


def test_markdown_is_parsed_as_intended() -> None:
    text = RENDERERS["markdown"]([TABLE])
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert "<h3>table0: Figures of 100 % &amp; more</h3>" in html
    assert "<strong>98.43</strong>‡ ± 1.19° (3)" in html
    assert "<ins>92.00</ins> ± 0.10†" in html
    assert parse(html).rows == [
        ["", "a_b", "c<d"],
        ["Upper part", "", ""],
        [
            "GIN + GSAT*",
            "98.43‡ ± 1.19° (3)paper 98.74 ± 0.55, −0.7 se",
            "no runpaper 67.35 ± 3.29",
        ],
        ["Lower part", "", ""],
        ["β=0", "92.00 ± 0.10†paper 93.00", "x|y"],
    ]
    assert text.endswith("First note_. R² & ° † ‡.\n")


def test_an_html_page_is_complete_and_loads_no_other_files() -> None:
    page = RENDERERS["html"]([TABLE, TABLE])
    cells = parse(page)
    assert page.startswith("<!DOCTYPE html>")
    assert cells.links == []
    assert not cells.tags & {"link", "script", "img"}
    assert "url(" not in page
    assert "@import" not in page
    assert cells.rows[:5] == [
        ["", "a_b", "c<d"],
        ["Upper part"],
        [
            "GIN + GSAT*",
            "98.43‡ ± 1.19° (3)paper 98.74 ± 0.55, −0.7 se",
            "no runpaper 67.35 ± 3.29",
        ],
        ["Lower part"],
        ["β=0", "92.00 ± 0.10†paper 93.00", "x|y"],
    ]
    assert len(cells.rows) == 10
    assert "<strong>98.43</strong>" in page
    assert "<u>92.00</u>" in page
    assert "<p>R² &amp; ° † ‡.</p>" in page


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
    assert r"\underline{92.00} $\pm$ 0.10$^{\dagger}$" in tex
    assert r"98.74 $\pm$ 0.55 ($-$0.7 se)" in tex
    assert r"\caption{Figures of 100 \% \& more}" in tex
    assert r"\label{tab:table0}" in tex


def test_text_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    text = RENDERERS["text"]([TABLE])
    lines = [[part.strip() for part in line.split("│")[1:-1]] for line in text.splitlines()]
    assert ["GIN + GSAT*", "*98.43*‡ ± 1.19° (3)", "no run"] in lines
    assert ["paper", "98.74 ± 0.55", "67.35 ± 3.29"] in lines
    assert ["difference", "−0.7 se", ""] in lines
    assert ["β=0", "_92.00_ ± 0.10†", "x|y"] in lines
    assert "Bold is written *so*" in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_wide_table_is_cut_between_columns(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column that is cut, or lines that drift apart, would be read wrongly."""
    monkeypatch.setenv("COLUMNS", str(width))
    table = STUDIES["table1"]
    assert isinstance(table, TableStudy)
    runs = [
        line for column in table.columns for line in lines(Experiment(column, "gsat"), {0: 0.987})
    ]
    text = render([table], Records(runs), "text")
    assert "…" not in text
    shown = [line for line in text.splitlines() if line[:1] in "┃│├"]
    if width >= 80:
        assert max(map(len, shown)) <= width
    cells = [[part.strip() for part in re.split("[┃│]", line)[1:-1]] for line in shown]
    heads = [name for row in cells if row and not row[0] for name in row[1:]]
    assert heads == list(table.columns)
    papers = [
        value
        for above, row in itertools.pairwise(cells)
        if above and above[0] == "GIN + GSAT" and row[0] == "paper"
        for value in row[1:]
    ]
    (gsat,) = [row for row in table.parts[0].rows if (row.method, row.backbone) == ("gsat", "gin")]
    assert papers == [f"{mean:.2f} ± {spread:.2f}" for mean, spread in gsat.paper.values()]


def test_a_plain_table_has_no_second_lines() -> None:
    plain = PrintedTable(
        "T", ("", "p"), ((PrintedCell("a"), PrintedCell("1")), (PrintedCell("b"), PrintedCell("2")))
    )
    assert "paper" not in "".join(render_one([plain]) for render_one in RENDERERS.values())
    assert (
        RENDERERS["markdown"]([plain]) == "### T\n\n|  | p |\n| --- | --- |\n| a | 1 |\n| b | 2 |\n"
    )
    assert "Bold" not in RENDERERS["text"]([plain])
