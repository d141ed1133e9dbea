"""The page of results on molecules is what the records say."""

from __future__ import annotations

import json

import numpy as np

from benchmarks import molecule_results as results


def test_the_page_is_made_of_the_records() -> None:
    assert results.page() in results.PAGE.read_text(encoding="utf-8"), (
        "run python -m benchmarks.molecule_results"
    )


def test_means_deviations_and_numbers_of_seeds() -> None:
    values = [0.5, 0.7, 0.9]
    assert results.mean(values) == f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"
    assert results.mean([0.5]) == "0.500 (1)"
    assert results.mean([]) == "–"


def test_prediction_stands_beside_chemprop() -> None:
    rows = [
        {"table": "delaney", "tool": tool, "metric": "rmse", "value": value, "cpu_seconds": cpu}
        for tool, value, cpu in (("gsat", 0.9, 10.0), ("gsat", 1.1, 20.0), ("chemprop", 0.8, 70.0))
    ]
    (line,) = results.prediction(rows).splitlines()[2:]
    assert line == "| delaney | RMSE | 1.000 ± 0.141 (2) | 0.800 (1) | 15 | 70 |"


def test_measures_of_explanations_by_set() -> None:
    rows = [
        {"set": "ibench-n", "method": "gsat", "atom_auc": 0.9, "positive_auc": 1.0},
        {"set": "ibench-n", "method": "random", "atom_auc": 0.5, "atom_top_n": None},
        {"set": "ibench-amide", "method": "random", "atom_auc": 0.4},
    ]
    lines = results.explanations(rows).splitlines()
    assert lines[0] == "| method | measure | n | amide |"
    assert lines[2] == "| gsat | AUC | 0.900 (1) | – |"
    assert "| random | AUC | 0.500 (1) | 0.400 (1) |" in lines
    assert "| gsat | AUC of positive atoms | 1.000 (1) | – |" in lines
    assert not any("top-n" in line for line in lines)


def test_records_are_of_known_tables_and_sets() -> None:
    assert {row["table"] for row in results.read("chemprop.jsonl")} <= set(results.TABLES)
    for row in results.read("ibench.jsonl"):
        assert 0 <= row["atom_auc"] <= 1, json.dumps(row)
