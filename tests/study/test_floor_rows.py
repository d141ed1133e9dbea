"""Trivial methods stand below the explanation tables, apart from the paper's rows."""

from __future__ import annotations

from typing import Any

import pytest
from paper.claims import claims_page
from paper.pages import results_page
from paper.reproduction import reproduction_page

from gsat.methods import METHODS
from gsat.methods.gsat import GSATMethod
from gsat.study.cells import Emphasis, common_seeds, measure
from gsat.study.records import Records
from gsat.study.renderers import RENDERERS
from gsat.study.report import render
from gsat.study.study import Experiment, TableStudy
from gsat.study.tables import FLOORS, STUDIES
from study_harness import lines

TABLES = [study for study in STUDIES.values() if isinstance(study, TableStudy) and not study.later]
TABLE1 = STUDIES["table1"]
assert isinstance(TABLE1, TableStudy)


@pytest.fixture
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The floors are methods, if need be by a stand-in for each."""
    for name in FLOORS:
        if name not in METHODS:
            stand_in = type("StandIn", (GSATMethod,), {"name": name, "title": name.capitalize()})
            monkeypatch.setitem(METHODS, name, stand_in)  # type: ignore[arg-type]


@pytest.fixture
def _unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    from gsat.study.study import TableRow

    monkeypatch.setattr(TableRow, "is_registered", property(lambda row: row.method not in FLOORS))


def experiment(dataset: str, method: str) -> Experiment:
    """An experiment of table 1; floors need no training."""
    return Experiment(dataset, method, settings=(("epochs", 1),) if method in FLOORS else ())


def run(dataset: str, method: str, value: float) -> list[dict[str, Any]]:
    """Two seeds around an explanation AUC."""
    return lines(experiment(dataset, method), {0: value - 0.1, 1: value + 0.1})


def test_explanation_tables_have_floors() -> None:
    floors = {t.name: [row.method for part in t.parts for row in part.floors] for t in TABLES}
    assert [name for name, found in floors.items() if found] == ["table1", "table6", "table7"]
    assert {tuple(found) for found in floors.values() if found} == {("random", "degree")}
    assert {row.backbone for row in STUDIES["table7"].parts[0].floors} == {"leconv"}


@pytest.mark.usefixtures("_registered")
def test_floors_are_run_with_their_table_but_are_no_cells_of_the_paper() -> None:
    methods = [experiment.method for experiment in TABLE1.experiments]
    assert methods.count("random") == methods.count("degree") == len(TABLE1.columns)
    assert len(methods) == 9 * 6 + 2 * 6
    assert sum(1 for table in TABLES for _ in table.cells()) == 209
    assert reproduction_page(Records([])).startswith("0 of 209 cells have runs;")


@pytest.mark.usefixtures("_unregistered")
def test_without_the_methods_their_rows_have_no_runs_and_nothing_else_breaks() -> None:
    assert len(TABLE1.experiments) == 9 * 6
    for format_name in RENDERERS:
        text = render([TABLE1], Records([]), format_name)
        assert "Random (floor)" in text
        assert "Degree (floor)" in text
    chosen = {Experiment("mutag", "gsat").hash}
    assert [part.floors for part in TABLE1.restricted(chosen).parts] == [()]


@pytest.mark.usefixtures("_registered")
def test_a_floor_is_shown_without_a_number_of_the_paper() -> None:
    page = results_page(Records(run("mutag", "gsat", 0.8)))
    rows = {row.split(" | ")[0].strip("| "): row for row in page.splitlines() if "floor" in row}
    random = next(row for name, row in rows.items() if name.startswith("Random"))
    assert random.endswith("| no run<br><sub>paper –</sub> |")
    page = results_page(Records(run("mutag", "random", 0.5)))
    assert "50.00 ± 10.00 (2)<br><sub>paper –</sub>" in page
    assert "Floors are trivial scores" in page


@pytest.mark.usefixtures("_registered")
def test_floors_are_no_baselines() -> None:
    (part,) = TABLE1.parts
    baselines = [row for row in part.rows if row.method not in ("gsat", "gsat-star")]
    runs = [line for row in baselines for line in run("mutag", row.method, 0.5)]
    runs += run("mutag", "gsat", 0.6)
    (without,) = measure(TABLE1, Records(runs))
    (with_floor,) = measure(TABLE1, Records([*runs, *run("mutag", "degree", 0.9)]))
    assert with_floor.emphasis == without.emphasis
    assert with_floor.emphasis[5, "mutag"] == Emphasis("bold")
    assert with_floor.cells.keys() == without.cells.keys()
    assert common_seeds([with_floor]) == 2
    records = [Records(runs), Records([*runs, *run("mutag", "degree", 0.9)])]
    assert claims_page(records[0], []) == claims_page(records[1], [])
    assert reproduction_page(records[0]) == reproduction_page(records[1])


@pytest.mark.usefixtures("_registered")
def test_a_restricted_table_keeps_the_floors_that_were_chosen() -> None:
    chosen = {experiment("mutag", "random").hash}
    table = TABLE1.restricted(chosen)
    assert table.columns == ("mutag",)
    assert [(part.rows, [row.method for row in part.floors]) for part in table.parts] == [
        ((), ["random"])
    ]
    assert [e.method for e in table.experiments] == ["random"]
    text = render([table], Records([]), "markdown")
    assert "| no run<br><sub>paper –</sub> |" in text
