"""The studies as data: whole, runnable, and the paper's numbers in their places."""

from __future__ import annotations

import pytest

from gsat.core.errors import GSATError
from gsat.datasets.registry import find_source
from gsat.study.study import PREDICTION, Experiment, TableStudy, parse_rows
from gsat.study.tables import L1_SWEEP, R_SWEEP, STUDIES, find_paper_number, find_study


def test_the_papers_tables_are_complete() -> None:
    """Rows times columns, counted by hand in the paper; table 5's top repeats its bottom's runs."""
    cells = {
        s.name: sum(1 for _ in s.cells())
        for s in STUDIES.values()
        if isinstance(s, TableStudy) and not s.later
    }
    assert cells == {
        "table1": 9 * 6, "table2": 8 * 6, "table3": 3 * 5, "table4": 6 * 3, "table5": 9 * 3,
        "table6": 4 * 2, "table7": 4 * 3, "table8": 9 * 3,
    }  # fmt: skip
    assert len(STUDIES["table5"].experiments) == 5 * 3


def test_every_experiment_has_a_recipe_of_its_own() -> None:
    experiments = {e for study in STUDIES.values() for e in study.experiments}
    for experiment in experiments:
        find_source(experiment.dataset)
        recipe = experiment.recipe(3)
        assert (recipe.seed, recipe.method) == (3, experiment.method)
        assert recipe.backbone.name == experiment.backbone
        for key, value in experiment.settings:
            tables = recipe.tables()
            holder = tables["method"][recipe.method] | tables["backbone"] | tables["data"]
            holder |= tables["training"] | {"members": tables.get("members")}
            assert holder[key.removeprefix("data.")] == (
                list(value) if isinstance(value, tuple) else value
            )
    by_hash: dict[str, set[Experiment]] = {}
    for experiment in experiments:
        by_hash.setdefault(experiment.hash, set()).add(experiment)
    # r = 0.7 is the recipe itself, at each of the three biases; no other recipe has two names.
    twice = [names for names in by_hash.values() if len(names) > 1]
    assert len(twice) == 3
    assert all(any(e.settings == (("r_final", 0.7),) for e in names) for names in twice)


def test_studies_use_the_papers_own_graphs() -> None:
    for study in STUDIES.values():
        for experiment in study.experiments:
            if experiment.dataset == "ba2motifs":
                assert experiment.recipe(0).data.options["source"] == "published"


def test_the_paper_is_quoted_by_method_network_data_and_metric() -> None:
    assert find_paper_number("gsat", "gin", "ba2motifs", "explanation_auc") == (98.74, 0.55)
    assert find_paper_number("gsat", "gin", "spmotif-0.5", "explanation_auc") == (78.45, 3.12)
    assert find_paper_number("gsat-star", "pna", "ogbg-molhiv", PREDICTION) == (80.67, 0.95)
    assert find_paper_number("gsat", "leconv", "spmotif-0.9", "precision_at_5") == (41.6, 8.1)
    assert find_paper_number("gsat", "leconv", "spmotif-0.9", "explanation_auc") is None
    assert find_study("table6").parts[0].rows[0].paper["mutag"] == (72.7, None)


def test_ablations_differ_from_gsat_in_what_they_are_named_for() -> None:
    rows = {row.variant: row.experiment("spmotif-0.5") for row in STUDIES["table5"].parts[0].rows}
    settings = {name: e.recipe(0).settings for name, e in rows.items()}
    assert (settings[""].sampling, settings[""].info_coef) == ("concrete", 1.0)
    assert (settings["beta0"].sampling, settings["beta0"].info_coef) == ("concrete", 0.0)
    assert (settings["nostoch"].sampling, settings["nostoch"].info_coef) == ("none", 1.0)
    both = settings["nostoch-beta0"]
    assert (both.sampling, both.info_coef) == ("none", 0.0)


def test_the_sweeps_are_the_papers() -> None:
    assert (max(R_SWEEP), min(R_SWEEP), len(R_SWEEP)) == (0.9, 0.1, 9)
    assert (max(L1_SWEEP), min(L1_SWEEP)) == (1.0, 1e-5)
    assert len(STUDIES["fig-regulariser"].experiments) == 3 * (9 + 6)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(GSATError, match="no study 'table9': available: table1, "):
        find_study("table9")
    with pytest.raises(GSATError, match="no variant 'x'"):
        parse_rows("mutag", "gsat/x gin 1.0±1.0")
