"""The tables of later papers: runnable, with members of ensembles that are single runs."""

from __future__ import annotations

from typing import Any

import pytest

from gsat.study.study import Experiment, TableStudy
from gsat.study.tables import STUDIES, find_paper_number, find_study
from gsat.training.members import member_recipes


def test_gmt_is_run_as_its_authors_did() -> None:
    table = find_study("gmt")
    assert isinstance(table, TableStudy)
    recipes = {str(e): e.recipe(0).settings for e in table.experiments}
    assert {settings.variant for settings in recipes.values()} == {"sam", "lin"}
    slow = Experiment("spmotif-0.7", "gmt", "gin", (("variant", "sam"),)).recipe(0).settings
    assert (slow.samples, slow.info_coef, slow.r_interval) == (200, 0.1, 20)
    half = Experiment("spmotif-0.5", "gmt", "gin", (("variant", "sam"),)).recipe(0).settings
    assert (half.samples, half.info_coef, half.r_interval) == (80, 0.5, 10)


@pytest.mark.parametrize(
    ("one", "many", "data"),
    [("snapshots", "ensemble", "mutag"), ("both-ways", "both-ways-ensemble", "spmotif-0.5")],
)
def test_single_runs_are_the_members_of_two_ensembles(one: str, many: str, data: str) -> None:
    table = find_study("beyond")
    assert isinstance(table, TableStudy)
    rows = {r.variant: r for r in table.parts[0].rows if r.method == "gsat"}
    ensemble = rows[many].experiment(data)
    members = [m for seed in (0, 1) for m in member_recipes(ensemble.recipe(seed)).values()]
    assert members == [rows[one].experiment(data).recipe(seed) for seed in range(10)]


def test_numbers_of_later_papers_are_not_the_papers() -> None:
    later = [s.name for s in STUDIES.values() if isinstance(s, TableStudy) and s.later]
    assert later == ["readings", "gmt", "beyond"]
    assert find_paper_number("gmt", "gin", "mutag", "explanation_auc") is None
    assert find_paper_number("gsat", "gin", "ba2motifs", "explanation_auc") == (98.74, 0.55)


def test_each_reading_changes_one_thing() -> None:
    table = find_study("readings")
    assert isinstance(table, TableStudy)
    rows = {(r.method, r.backbone, r.variant): r for part in table.parts for r in part.rows}
    models = {("gsat", "leconv"), ("gsat", "gin"), ("gsat-star", "gin"), ("erm", "gin")}
    assert {(method, backbone) for method, backbone, _ in rows} == models | {("gsat", "pna")}
    for (method, backbone, reading), row in rows.items():
        data = "spmotif-0.5" if backbone == "leconv" else "spmotif-0.9"
        default = _flat(rows[method, backbone, ""].experiment(data).recipe(0).tables())
        settings = _flat(row.experiment(data).recipe(0).tables())
        changed = {
            name for name in settings.keys() | default if settings.get(name) != default.get(name)
        }
        assert len(changed) == (1 if reading else 0), (method, backbone, reading, changed)


def test_readings_stand_beside_the_papers_own_numbers() -> None:
    table = find_study("readings")
    assert isinstance(table, TableStudy)
    cells = [
        (part.metric, row.method, row.backbone, data, number)
        for part in table.parts
        for row in part.rows
        for data, number in row.paper.items()
    ]
    assert {metric for metric, *_ in cells} == {"explanation_auc", "precision_at_5", "prediction"}
    for metric, method, backbone, data, number in cells:
        assert find_paper_number(method, backbone, data, metric) == number


def _flat(tables: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings of a recipe by their full names."""
    found: dict[str, Any] = {}
    for name, value in tables.items():
        inner = _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else None
        found |= {f"{prefix}{name}": value} if inner is None else inner
    return found
