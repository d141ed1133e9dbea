"""What is said of a cell beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paper.reproduction import REASONS, VERDICTS, find_reason, reproduction_page, verdict

from gsat.methods import METHODS
from gsat.models import GIN
from gsat.study.records import Records
from gsat.study.study import Experiment, Row, find_study, shipped_studies
from gsat.study.table import BACKBONE_TITLES, measure
from study_harness import failure, line, lines

ROOT = Path(__file__).parents[2]
GSAT = Experiment("mutag", "gsat")  # the paper: 99.60 ± 0.51


def test_a_cell_is_judged_by_welchs_test() -> None:
    def verdicts(aucs: dict[int, float]) -> str:
        (part,) = measure(find_study("table1"), Records(lines(GSAT, aucs)))
        (cell,) = [c for c in part.cells.values() if c.values]
        return verdict(cell)

    assert verdicts({0: 0.994, 1: 0.998}) == "reproduced"
    assert verdicts({0: 0.90, 1: 0.91, 2: 0.92}) == "worse"
    assert verdicts({0: 0.90, 1: 0.96}) == "unclear"  # two seeds far apart say little
    assert verdicts({0: 1.0, 1: 0.9999}) == "better"
    assert verdicts({0: 0.99}) == "in range"
    assert verdicts({0: 0.90}) == "below"
    page = reproduction_page(Records(lines(GSAT, {0: 0.90})))
    assert f"| explanation auc | [90.0 (1)](runs.md#{GSAT.hash}) | 99.6 | -9.6 | below |" in page


def test_of_several_comparisons_of_seeds_the_largest_is_shown() -> None:
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
    verdicts = {row.split(" | ")[2]: row.split(" | ")[-1] for row in rows if "| worse |" in row}
    assert "drawn once" in verdicts["prediction"]
    assert "drawn" not in verdicts["explanation auc"]


def test_a_reason_is_not_given_for_an_ablation_or_where_nothing_is_compared() -> None:
    plain, ablation = Row(method="gsat"), Row(method="gsat", variant="beta0")
    assert find_reason(plain, "spmotif-0.9", "prediction")
    assert not find_reason(ablation, "spmotif-0.9", "prediction")
    page = reproduction_page(Records(lines(Experiment("mutag", "pgexplainer"), {0: 0.9, 1: 0.91})))
    table1, table6 = (row for row in page.splitlines() if row.startswith("| mutag | GIN + PGE"))
    assert "| better | 100 epochs" in table1
    assert table6.endswith("| not compared |  |")


def test_failures_and_gaps_are_shown() -> None:
    page = reproduction_page(Records([line(GSAT, 0), line(GSAT, 2), failure(GSAT, 3)]))
    assert "| [70.0 (only seeds 0, 2, 1 failed)](runs.md#" in page


def test_verdicts_are_counted_by_table() -> None:
    motifs = find_study("table1").experiment("ba2motifs", "gsat")
    found = [*lines(GSAT, {0: 0.90}), *lines(motifs, {0: 0.98, 1: 0.99})]
    said, _, head, _, *rows = reproduction_page(Records(found)).splitlines()
    assert said == "4 of 209 cells have runs; 2 of them are reproduced or in range."
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
    assert counts["table1"] == {"cells": 54, "reproduced": 1, "below": 1, "no run yet": 52}
    assert counts["table6"] == {"cells": 8, "reproduced": 1, "below": 1, "no run yet": 6}
    assert counts["all"] == {"cells": 209, "reproduced": 2, "below": 2, "no run yet": 205}
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
