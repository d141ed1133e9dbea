"""The reproduction page: verdicts and reasons for each cell."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paper.reproduction import (
    REASONS,
    VERDICTS,
    compare_with_paper,
    find_reason,
    reproduction_page,
    verdict,
)
from scipy import stats

from gsat.methods import METHODS
from gsat.models import GIN
from gsat.study.records import Records
from gsat.study.study import Experiment, Row, find_study, shipped_studies
from gsat.study.table import BACKBONE_TITLES, Cell, measure
from study_harness import failure, line, lines

ROOT = Path(__file__).parents[2]
GSAT = Experiment("mutag", "gsat")  # the paper: 99.60 ± 0.51


def cell_of(aucs: dict[int, float], experiment: Experiment = GSAT, table: str = "table1") -> Cell:
    (section, *_) = measure(find_study(table), Records(lines(experiment, aucs)))
    (cell,) = [cell for cell in section.cells.values() if cell.values]
    return cell


def test_cells_with_three_seeds_are_judged_by_both_tests() -> None:
    def verdicts(*aucs: float) -> str:
        return verdict(cell_of(dict(enumerate(aucs))))

    assert verdicts(0.994, 0.998, 0.996) == "agrees"
    assert verdicts(0.90, 0.91, 0.92) == "lower"
    assert verdicts(0.90, 0.96, 0.99) == "open"  # seeds far apart decide nothing
    assert verdicts(0.994, 0.998) == "few seeds"
    motifs = find_study("table1").experiment("ba2motifs", "gnnexplainer")  # the paper: 67.35 ± 3.29
    assert verdict(cell_of({seed: 0.8 + seed / 1000 for seed in range(5)}, motifs)) == "higher"


def test_both_tests_are_those_of_scipy() -> None:
    cell = cell_of({0: 0.994, 1: 0.979, 2: 0.998, 3: 0.983})
    theirs = np.random.RandomState(0).randn(10)
    theirs = 99.60 + 0.51 * (theirs - theirs.mean()) / theirs.std()  # deviation of a population
    found, ours = compare_with_paper(cell), np.array(list(cell.values.values()))
    assert found is not None
    tested = partial(stats.ttest_ind, equal_var=False)
    one_sided = (
        tested(ours + 2.0, theirs, alternative="greater").pvalue,
        tested(ours - 2.0, theirs, alternative="less").pvalue,
    )
    assert found.welch == pytest.approx(tested(ours, theirs).pvalue, rel=1e-9)
    assert found.equivalence == pytest.approx(max(one_sided), rel=1e-9)


def test_a_quoted_mean_counts_as_exact() -> None:
    erm = find_study("table4").experiment(
        "spmotif-0.5", "erm", "leconv"
    )  # quoted by the paper: 39.69 ± 1.73
    cell = cell_of({0: 0.80, 1: 0.81, 2: 0.83}, erm, "table4")  # accuracies are half as high
    assert cell.published is not None
    assert cell.published_seeds is None
    found = compare_with_paper(cell)
    assert found is not None
    exact = stats.ttest_1samp(list(cell.values.values()), cell.published[0]).pvalue
    assert found.welch == pytest.approx(exact, rel=1e-9)


def test_the_comparison_with_the_most_seeds_is_shown() -> None:
    def compared(seeds: int, mean: float | None, **other: Any) -> dict[str, Any]:
        return {
            "dataset": "mutag", "backbone": "gin", "method": "gsat", "recipe_hash": GSAT.hash,
            "data_hash": "graphs",
            "results_version": GIN.results_version, "seeds": list(range(seeds)), "graphs": 23,
            "explained": "graphs in no training set", "mean": mean, "std": None, **other,
        }  # fmt: skip

    stale = compared(9, 0.1, results_version=0), compared(8, 0.1, data_hash="old graphs")
    page = reproduction_page(
        Records(lines(GSAT, {0: 0.9})), [compared(3, 0.8), compared(2, 0.5), *stale]
    )
    assert "| mutag | GIN + GSAT | 0.80 | – | 3 | 23 graphs in no training set |" in page
    assert page.count("graphs in no training set |") == 1


def test_a_reason_is_given_for_the_metric_that_it_explains() -> None:
    page = reproduction_page(Records(lines(Experiment("spmotif-0.9", "gsat"), {0: 0.1, 1: 0.11})))
    rows = [row for row in page.splitlines() if row.startswith("| spmotif-0.9 | GIN + GSAT |")]
    reasons = {row.split(" | ")[2]: row.split(" | ")[-1] for row in rows}
    assert "drawn once" in reasons["prediction"]
    assert "drawn" not in reasons["explanation auc"]


def test_a_reason_is_not_given_for_an_ablation_or_where_nothing_is_compared() -> None:
    plain, ablation = Row(method="gsat"), Row(method="gsat", variant="beta0")
    assert find_reason(plain, "spmotif-0.9", "prediction")
    assert not find_reason(ablation, "spmotif-0.9", "prediction")
    seeds = {0: 0.9, 1: 0.91, 2: 0.92}
    page = reproduction_page(Records(lines(Experiment("mutag", "pgexplainer"), seeds)))
    table1, table6 = (row for row in page.splitlines() if row.startswith("| mutag | GIN + PGE"))
    assert f"| higher | {REASONS['pgexplainer', 'mutag']} |" in table1
    assert table6.endswith("| not compared |  |")


def test_failures_and_gaps_are_shown() -> None:
    page = reproduction_page(Records([line(GSAT, 0), line(GSAT, 2), failure(GSAT, 3)]))
    assert "| [70.0 (only seeds 0, 2, 1 failed)](runs.md#" in page


def test_verdicts_are_counted_by_table() -> None:
    motifs = find_study("table1").experiment("ba2motifs", "gsat")
    found = [*lines(GSAT, {0: 0.90}), *lines(motifs, {0: 0.987, 1: 0.988, 2: 0.989})]
    said, _, head, _, *rows = reproduction_page(Records(found)).splitlines()
    assert [int(n) for n in re.findall(r"\b\d+\b", said)] == [2, 209, 3, 2, 0, 0, 0, 2, 205]
    names = [name.strip() for name in head.split("|")[2:-1]]
    counts = {
        row.split("|")[1].strip(): {
            name: int(count)
            for name, count in zip(names, row.split("|")[2:-1], strict=True)
            if count.strip()
        }
        for row in rows[:9]
    }
    # Both cells are in tables 1 and 6.
    assert counts["table1"] == {"cells": 54, "agrees": 1, "few seeds": 1, "no run yet": 52}
    assert counts["table6"] == {"cells": 8, "agrees": 1, "few seeds": 1, "no run yet": 6}
    assert counts["all"] == {"cells": 209, "agrees": 2, "few seeds": 2, "no run yet": 205}
    assert sum(found["cells"] for name, found in counts.items() if name != "all") == 209
    assert set(VERDICTS) == set(names) - {"cells"}


def test_cells_without_runs_are_named() -> None:
    page = reproduction_page(Records([line(GSAT, 0)]))
    table1 = page[page.index("### table1") : page.index("### table2")]
    (told,) = (row for row in table1.splitlines() if row.startswith("No run yet: ba2motifs ("))
    assert "; mutag (GIN + GNNExplainer, GIN + PGExplainer, GIN + GraphMask, " in told
    assert "GIN + DIR, GIN + GSAT*, PNA + GSAT, PNA + GSAT*); " in told  # all but the one that ran
    assert table1.count("\n| ") == 3  # a head, a rule and the cell


def test_reasons_name_existing_methods_data_sets_and_metrics() -> None:
    cells = [cell for study in shipped_studies() for cell in study.cells]
    known = {
        *METHODS,
        *BACKBONE_TITLES,
        *(cell.dataset for cell in cells),
        *(cell.table.metric for cell in cells),
    }
    assert {name for key in REASONS for name in key} <= known
