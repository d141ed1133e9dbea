"""The paper's tables with recorded runs beside the paper's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gsat.core.errors import GSATError
from gsat.study.records import Records
from gsat.study.renderers import RENDERERS
from gsat.study.report import render
from gsat.study.study import Experiment
from gsat.study.tables import STUDIES
from gsat.training.results import read_runs
from study_harness import failure, line, lines, table_rows

ROOT = Path(__file__).parents[2]
TABLE1 = STUDIES["table1"]
GSAT, STAR = Experiment("mutag", "gsat"), Experiment("mutag", "gsat-star")
DIR = Experiment("mutag", "dir")


def cell(records: list[dict[str, Any]], row: str = "GIN + GSAT") -> str:
    """The Mutag cell of table 1."""
    return table_rows(render([TABLE1], Records(records), "markdown"))[row][1]


def test_a_cell_shows_ours_and_the_papers() -> None:
    shown = cell(lines(GSAT, {0: 0.97, 1: 0.99, 2: 0.995}))
    mean, std = np.mean([97, 99, 99.5]), np.std([97, 99, 99.5])
    assert shown.startswith(f"{mean:.2f} ± {std:.2f}<br><sub>paper 99.60 ± 0.51, −1.4 se")
    assert cell([]) == "no run<br><sub>paper 99.60 ± 0.51</sub>"


def test_nothing_that_went_wrong_is_hidden() -> None:
    good = lines(GSAT, {0: 0.9, 1: 0.9})
    assert cell([*good, failure(GSAT, 2)]).startswith("90.00 ± 0.00 (2, 1 failed)<br>")
    assert cell([*good, *lines(GSAT, {4: 0.9})]).startswith("90.00 ± 0.00 (only seeds 0, 1, 4)<br>")
    assert cell([failure(GSAT, 0), failure(GSAT, 1)]).startswith("2 failed<br>")
    assert cell(lines(GSAT, {0: 0.9, 1: None})).startswith("undefined")


def test_seeds_are_given_where_they_are_not_the_common_number() -> None:
    records = [
        *lines(GSAT, {0: 0.9, 1: 0.8}),
        *lines(DIR, {0: 0.9, 1: 0.8}),
        *lines(STAR, {0: 0.9}),
    ]
    assert cell(records).startswith("85.00 ± 5.00<br>")
    assert cell(records, "GIN + GSAT*").startswith("90.00 (1)<br>")
    assert "Seeds 0 to 1, unless" in render([TABLE1], Records(records), "markdown")


def test_other_data_is_marked_and_the_marks_are_explained() -> None:
    records = [line(GSAT, 0, matches_paper="rebuilt"), line(DIR, 0, matches_paper="different")]
    text = render([TABLE1], Records(records), "markdown")
    assert cell(records).startswith("70.00°<br>")
    assert cell(records, "GIN + DIR").startswith("70.00†<br>")
    assert "° graphs generated again" in text
    assert "† other data, or another split" in text
    plain = render([TABLE1], Records([line(GSAT, 0)]), "markdown")
    assert "°" not in plain
    assert "†" not in plain


def test_numbers_are_emphasised_by_the_rule_of_the_table() -> None:
    baselines = [
        record
        for row in TABLE1.parts[0].rows[:5]
        for record in lines(row.experiment("mutag"), {0: 0.5, 1: 0.6})
    ]
    best = lines(DIR, {0: 0.7, 1: 0.8})
    records = [*baselines, *best, *lines(GSAT, {0: 0.9, 1: 0.91}), *lines(STAR, {0: 0.7, 1: 0.9})]
    assert cell(records, "GIN + DIR").startswith("<ins>75.00</ins> ± 5.00")
    assert cell(records).startswith("**90.50**‡ ± 0.50")
    assert cell(records, "GIN + GSAT*").startswith("**80.00** ± 10.00")


def test_parts_have_headings_and_metrics_of_their_own() -> None:
    motif = Experiment("spmotif-0.5", "gsat")
    text = render([STUDIES["table5"]], Records(lines(motif, {0: 0.8})), "markdown")
    assert "| *Explanation AUC* |  |  |  |" in text
    above, below = text.split("| *Prediction* |")
    assert table_rows(above)["GIN + GSAT"][0].startswith("80.00")
    assert table_rows(below)["GIN + GSAT"][0].startswith("40.00")


@pytest.mark.parametrize("format_name", RENDERERS)
def test_every_table_is_rendered_in_every_format(format_name: str) -> None:
    recorded = read_runs(ROOT / "results" / "runs.jsonl")
    records = Records(line for line in recorded if line["dataset"] != "spmotif-0.9")
    for name in ("table1", "table5"):
        text = render([STUDIES[name]], records, format_name, statistics=True)
        title = STUDIES[name].title
        assert title in text
        assert "no run" in text
    with pytest.raises(GSATError, match="no format 'pdf': available: text, markdown, html, latex"):
        render([TABLE1], records, "pdf")


def test_paired_comparisons_follow_if_requested() -> None:
    ours, star = [0.9, 0.95, 0.85, 0.97, 0.9, 0.94], [0.8, 0.96, 0.8, 0.97, 0.7, 0.9]
    theirs = [0.7, 0.9, 0.86, 0.5, 0.6, 0.55]
    records = [*lines(GSAT, dict(enumerate(ours))), *lines(STAR, dict(enumerate(star))),
               *lines(DIR, dict(enumerate(theirs)))]  # fmt: skip
    assert "paired" not in render([TABLE1], Records(records), "markdown")
    text = render([TABLE1], Records(records), "markdown", statistics=True)
    below = table_rows(text.split("### ")[2])
    assert set(below) >= {
        "*mutag*",
        "GIN + GSAT against GIN + DIR",
        "GIN + GSAT* against GIN + GSAT",
    }
    assert "GIN + GSAT* against GIN + DIR" not in below
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


def test_seeds_on_other_graphs_are_no_pairs() -> None:
    others = [record | {"data_hash": "other"} for record in lines(DIR, {0: 0.5, 1: 0.6})]
    records = Records([*lines(GSAT, {0: 0.9, 1: 0.8}), *others])
    assert "against" not in render([TABLE1], records, "markdown", statistics=True)


def test_ablations_are_compared_with_gsat() -> None:
    rows = STUDIES["table5"].parts[0].rows
    records = [record for row in rows[:2]
               for record in lines(row.experiment("spmotif-0.5"), {0: 0.8, 1: 0.7})]  # fmt: skip
    text = render([STUDIES["table5"]], Records(records), "markdown", statistics=True)
    assert "| *spmotif-0.5, Explanation AUC* |" in text
    assert "| *spmotif-0.5, Prediction* |" in text
    assert "GIN + GSAT against GIN + GSAT-β=0" in text
    assert "against GIN + GSAT-NoStoch" not in text
