"""The flat table of runs that are in no study."""

from __future__ import annotations

from typing import Any

import numpy as np
from paper.other_runs import COLUMNS, other_runs_table

from gsat.models import GIN
from gsat.study.records import Records
from gsat.study.study import Experiment
from gsat.training.recipe import make_recipe
from study_harness import failure, line

# Of no study: shorter than the shipped recipe.
SHORT = Experiment("spmotif-0.5", "gsat", settings=(("epochs", 30),))


def rows(records: list[dict[str, Any]]) -> list[list[str]]:
    """The texts of the table."""
    table = other_runs_table(Records(records))
    return [] if table is None else [[cell.text for cell in row] for row in table.rows]


def run(seed: int, auc: float | None, accuracy: float = 0.5, **changed: Any) -> dict[str, Any]:
    """A short run of Spurious-Motif."""
    test = {"accuracy": accuracy, "explanation_auc": auc}
    return line(SHORT, seed, **{"test": test, "matches_paper": "rebuilt", **changed})


def test_a_row_holds_mean_and_population_deviation_beside_the_paper() -> None:
    aucs, accuracies = [0.7, 0.8, 0.9], [0.4, 0.5, 0.7]
    (row,) = rows([run(i, a, b) for i, (a, b) in enumerate(zip(aucs, accuracies, strict=True))])
    shown = dict(zip(COLUMNS[:4], row[:4], strict=True))
    assert shown["data"] == "spmotif-0.5°"
    assert shown["method"] == "GIN + GSAT (epochs=30)"
    assert shown["seeds"] == "3"
    assert (
        shown["prediction"] == f"{100 * np.mean(accuracies):.2f} ± {100 * np.std(accuracies):.2f}"
    )
    assert row[4] == "52.74 ± 4.08"
    assert row[5] == f"{100 * np.mean(aucs):.2f} ± {100 * np.std(aucs):.2f}"
    assert row[6] == "78.45 ± 3.12"


def test_runs_of_studies_are_not_listed_again() -> None:
    assert other_runs_table(Records([line(Experiment("spmotif-0.5", "gsat"), 0)])) is None
    # Also not what only a figure shows.
    swept = Experiment("spmotif-0.5", "gsat", settings=(("r_final", 0.3),))
    assert other_runs_table(Records([line(swept, 0)])) is None


def test_fine_tuning_is_shown_beside_the_pretrained_network() -> None:
    star = Experiment("spmotif-0.5", "gsat-star", settings=(("hidden", 32),))
    runs = [line(star, i, test={"accuracy": a}, pretrained={"test": {"accuracy": b}})
            for i, (a, b) in enumerate([(0.5, 0.6), (0.7, 0.6)])]  # fmt: skip
    (row,) = rows(runs)
    assert row[3] == "60.00 ± 10.00 (before: 60.00 ± 0.00)"


def test_molecules_are_measured_by_roc_auc() -> None:
    runs = [run(i, None, test={"roc_auc": a, "explanation_auc": None},
                pretrained={"test": {"roc_auc": 0.5}})
            for i, a in enumerate([0.7, 0.8])]  # fmt: skip
    (row,) = rows(runs)
    assert row[3] == "AUC 75.00 ± 5.00 (before: 50.00 ± 0.00)"
    assert row[5] == "–"


def test_a_regression_has_other_numbers() -> None:
    runs = [run(i, 0.7, test={"r2": r, "mae": m, "explanation_auc": 0.7})
            for i, (r, m) in enumerate([(0.8, 0.25), (0.9, 0.75)])]  # fmt: skip
    (row,) = rows(runs)
    assert row[3] == "R² 85.00 ± 5.00, MAE 0.50 ± 0.25"


def test_other_recipes_are_other_rows_that_name_what_differs() -> None:
    settings = (("data.undirected", True), ("epochs", 30), ("r_final", 0.5))
    changed = Experiment("spmotif-0.5", "gsat", settings=settings)
    plain, undirected = rows([run(0, 0.7), line(changed, 0, matches_paper="different")])
    assert plain[0] == "spmotif-0.5°"
    assert undirected[0] == "spmotif-0.5 (undirected=True)†"
    assert undirected[1] == "GIN + GSAT (epochs=30, r_final=0.5)"
    # The paper says nothing about data it did not use.
    assert undirected[4] == undirected[6] == "–"


def test_an_explainer_has_no_value_before_fine_tuning() -> None:
    explainer = Experiment("spmotif-0.5", "graphmask", settings=(("hidden", 32),))
    (row,) = rows([line(explainer, 0, pretrained={"test": {"accuracy": 0.5}})])
    # Nor has a single run a deviation.
    assert row[3] == "50.00"


def test_gaps_failures_and_undefined_values_are_shown() -> None:
    assert rows([run(0, 0.7, results_version=GIN.results_version - 1)]) == []
    (row,) = rows([run(0, 0.7), run(2, None)])
    assert row[2] == "only seeds 0, 2"
    assert rows([run(2, 0.7)])[0][2] == "only seed 2"
    assert row[5] == "–"
    (row,) = rows([run(0, 0.7), failure(SHORT, 1)])
    assert row[2] == "1, 1 failed"
    (row,) = rows([failure(SHORT, 0)])
    assert row[:4] == ["spmotif-0.5", "GIN + GSAT (epochs=30)", "0, 1 failed", "–"]


def test_data_at_a_path_is_shown_by_its_file_and_split() -> None:
    inferred = {"task": "binary", "content": "0123", "split": "kfold", "fold": 3}
    recipe = make_recipe("/data/toy.jsonl", settings=inferred)
    own = run(0, 0.7, dataset="/data/toy.jsonl", recipe=recipe.tables(), recipe_hash=recipe.hash())
    (row,) = rows([own | {"matches_paper": "different"}])
    assert row[0].startswith("toy.jsonl (split=kfold, fold=3)")
