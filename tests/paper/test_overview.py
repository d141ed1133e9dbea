"""The picture of all cells, and the page of their runs."""

from __future__ import annotations

import html
import re
from pathlib import Path

from paper.overview import overview_panels
from paper.runs_page import runs_page

from gsat.study.records import Records
from gsat.study.render import make_table
from gsat.study.study import Experiment, find_study
from gsat.study.table import measure
from study_harness import failure, lines

ROOT = Path(__file__).parents[2]
GSAT = Experiment("mutag", "gsat")  # the paper: 99.60 ± 0.51


def test_a_dot_has_our_mean_and_the_papers() -> None:
    panels = dict(overview_panels(Records(lines(GSAT, {0: 0.99, 1: 0.97}))))
    (dot,) = panels["table1, Explanation AUC"]
    assert (dot.group, dot.x, round(dot.y, 6), dot.x_error) == ("GSAT", 99.60, 98.0, 0.51)
    assert dot.y_error is not None
    assert round(dot.y_error, 6) == 1.0
    (alone,) = dict(overview_panels(Records(lines(GSAT, {0: 0.99}))))["table1, Explanation AUC"]
    assert alone.y_error is None
    assert overview_panels(Records([])) == []


def test_tables_of_later_papers_are_not_called_the_papers() -> None:
    gmt = find_study("gmt")
    records = Records(lines(gmt.experiments[0], {0: 0.9}))
    assert not any(title.startswith("gmt") for title, _ in overview_panels(records))
    assert make_table(gmt, measure(gmt, records)).published_by == "published"


def test_every_run_of_a_cell_is_listed_failed_ones_too() -> None:
    more = {"best_epoch": 57, "seconds": 60.0, "versions": {"torch-gsat": "0.1.0"}}
    done = [{**run, **more} for run in lines(GSAT, {0: 0.99, 2: 0.97})]
    page = runs_page(Records([*done, failure(GSAT, 1)]))
    assert f'<a id="{GSAT.hash}"></a>' in page
    rows = [row for row in page.splitlines() if re.match(r"\| \d", row)]
    assert [row.split(" | ")[0] for row in rows] == ["| 0", "| 1", "| 2"]
    assert "99.00" in rows[0]
    assert "failed" in rows[1]
    assert page.startswith("3 runs of 1 recipes")


def test_the_picture_shows_the_recorded_runs() -> None:
    records = Records.read(ROOT / "results" / "runs.jsonl")
    picture = (ROOT / "docs" / "images" / "overview.svg").read_text(encoding="utf-8")
    drawn = {html.unescape(name) for name in re.findall(r'id="dot ([^"]*)"', picture)}
    assert drawn == {dot.name for _, dots in overview_panels(records) for dot in dots}


def test_cells_link_to_runs_that_are_listed() -> None:
    linked = set(
        re.findall(
            r"runs\.md#(\w+)", (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
        )
    )
    listed = set(
        re.findall(r'<a id="(\w+)">', (ROOT / "docs" / "runs.md").read_text(encoding="utf-8"))
    )
    assert linked
    assert linked <= listed
