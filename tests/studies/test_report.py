"""The table of recorded runs, and that the README shows it as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gsat.errors import GSATError
from gsat.studies.report import COLUMNS, markdown, rows, write_between_marks
from gsat.training.recipe import make_recipe
from gsat.training.train import RESULTS_VERSION

ROOT = Path(__file__).parents[2]


def record(seed: int, auc: float | None, accuracy: float = 0.5, **changed: Any) -> dict[str, Any]:
    """A recorded run of spmotif-0.5."""
    recipe = make_recipe("spmotif-0.5", seed=seed, settings=changed.pop("settings", ()))
    return {
        "dataset": "spmotif-0.5",
        "method": "gsat",
        "backbone": "gin",
        "seed": seed,
        "test": {"accuracy": accuracy, "explanation_auc": auc},
        "matches_paper": "rebuilt",
        "recipe_hash": recipe.hash(),
        "recipe": recipe.tables(),
        "results_version": RESULTS_VERSION,
        **changed,
    }


def test_a_row_holds_mean_and_population_deviation_beside_the_paper() -> None:
    aucs, accuracies = [0.7, 0.8, 0.9], [0.4, 0.5, 0.7]
    (row,) = rows([record(i, a, b) for i, (a, b) in enumerate(zip(aucs, accuracies, strict=True))])
    shown = dict(zip(COLUMNS[:4], row[:4], strict=True))
    assert shown["data"] == "spmotif-0.5°"
    assert shown["seeds"] == "3"
    assert (
        shown["prediction"] == f"{100 * np.mean(accuracies):.2f} ± {100 * np.std(accuracies):.2f}"
    )
    assert row[4] == "52.74 ± 4.08"
    assert row[5] == f"{100 * np.mean(aucs):.2f} ± {100 * np.std(aucs):.2f}"
    assert row[6] == "78.45 ± 3.12"


def test_fine_tuning_is_shown_beside_what_it_started_from() -> None:
    runs = [record(i, 0.7, a, pretrained={"test": {"accuracy": b}})
            for i, (a, b) in enumerate([(0.5, 0.6), (0.7, 0.6)])]  # fmt: skip
    (row,) = rows(runs)
    assert row[3] == "60.00 ± 10.00 (before: 60.00 ± 0.00)"


def test_molecules_are_measured_by_roc_auc() -> None:
    runs = [record(i, None) | {"test": {"roc_auc": a, "explanation_auc": None},
                               "pretrained": {"test": {"roc_auc": 0.5}}}
            for i, a in enumerate([0.7, 0.8])]  # fmt: skip
    (row,) = rows(runs)
    assert row[3] == "AUC 75.00 ± 5.00 (before: 50.00 ± 0.00)"
    assert row[5] == "–"


def test_a_regression_has_other_numbers() -> None:
    runs = [record(i, 0.7) | {"test": {"r2": r, "mae": m, "explanation_auc": 0.7}}
            for i, (r, m) in enumerate([(0.8, 0.25), (0.9, 0.75)])]  # fmt: skip
    (row,) = rows(runs)
    assert row[3] == "R² 85.00 ± 5.00, MAE 0.50 ± 0.25"


def test_other_recipes_are_other_rows_and_say_what_differs() -> None:
    other = record(0, 0.6, settings=["undirected=true"], matches_paper="different")
    plain, undirected = rows([record(0, 0.7), other])
    assert plain[0] == "spmotif-0.5°"
    assert undirected[0] == "spmotif-0.5 (undirected=True)†"
    # The paper says nothing about data it did not use.
    assert undirected[4] == undirected[6] == "–"


def test_an_explainer_has_no_before() -> None:
    recipe = make_recipe("spmotif-0.5", method="graphmask")
    run = record(0, 0.7, method="graphmask", pretrained={"test": {"accuracy": 0.5}})
    (row,) = rows([run | {"recipe": recipe.tables(), "recipe_hash": recipe.hash()}])
    assert row[3] == "50.00 ± 0.00"


def test_settings_other_than_the_shipped_ones_are_said() -> None:
    other = record(0, 0.6, settings=["epochs=30", "r_final=0.5"])
    methods = [row[1] for row in rows([record(0, 0.7), other])]
    assert sorted(methods) == ["GIN + GSAT", "GIN + GSAT (epochs=30, r_final=0.5)"]


def test_stale_runs_are_left_out_gaps_are_shown_and_undefined_is_no_number() -> None:
    assert rows([record(0, 0.7, results_version=RESULTS_VERSION - 1)]) == []
    (row,) = rows([record(0, 0.7), record(2, None)])
    assert row[2] == "[0, 2] (gaps)"
    assert row[5] == "–"


def test_a_seed_recorded_twice_counts_once() -> None:
    (row,) = rows([record(0, 0.7), record(0, 0.7), record(1, 0.8)])
    assert row[2] == "2"


def test_the_table_goes_between_the_marks(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("a\n<!-- results:begin -->\nold\n<!-- results:end -->\nb\n", encoding="utf-8")
    write_between_marks(file, "new\n")
    write_between_marks(file, "new\n")
    assert file.read_text(encoding="utf-8") == (
        "a\n<!-- results:begin -->\n\nnew\n\n<!-- results:end -->\nb\n"
    )
    (tmp_path / "bare.md").write_text("nothing", encoding="utf-8")
    with pytest.raises(GSATError, match="marks"):
        write_between_marks(tmp_path / "bare.md", "new\n")


def test_the_readme_shows_what_was_recorded(tmp_path: Path) -> None:
    copy = tmp_path / "README.md"
    copy.write_text((ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    write_between_marks(copy, markdown(ROOT / "results" / "runs.jsonl"))
    assert copy.read_text(encoding="utf-8") == (ROOT / "README.md").read_text(encoding="utf-8"), (
        "run: gsat results --write README.md"
    )


def test_data_at_a_path_is_shown_by_its_file_and_split() -> None:
    told = {"task": "binary", "content": "0123", "split": "kfold", "fold": 3}
    recipe = make_recipe("/data/toy.jsonl", settings=told)
    run = record(0, 0.7, dataset="/data/toy.jsonl", recipe=recipe.tables())
    (row,) = rows([run | {"matches_paper": "different"}])
    assert row[0].startswith("toy.jsonl (split=kfold, fold=3)")
