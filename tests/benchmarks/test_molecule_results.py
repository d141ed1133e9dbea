"""The page of results on molecules follows from the records."""

from __future__ import annotations

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


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_predictions_beside_chemprop() -> None:
    rows = [
        {"table": "delaney", "tool": tool, "metric": "rmse", "value": value, "cpu_seconds": cpu}
        for tool, value, cpu in (("gsat", 0.9, 10.0), ("gsat", 1.1, 20.0), ("chemprop", 0.8, 70.0))
    ]
    (line,) = results.prediction(rows).splitlines()[2:]
    ours, theirs = results.mean([0.9, 1.1]), results.mean([0.8])
    assert cells(line)[0] == "delaney"
    assert cells(line)[2:] == [ours, theirs, "15", "70"]


def test_measures_of_explanations_by_set() -> None:
    rows = [
        {"set": "ibench-n", "method": "gsat", "atom_auc": 0.9, "positive_auc": 1.0},
        {"set": "ibench-n", "method": "random", "atom_auc": 0.5, "atom_top_n": None},
        {"set": "ibench-amide", "method": "random", "atom_auc": 0.4},
    ]
    lines = [cells(line) for line in results.explanations(rows).splitlines()]
    values = [(line[0], *line[2:]) for line in lines[2:]]
    none, mean = results.mean([]), results.mean
    assert sorted(values) == sorted(
        [
            ("gsat", mean([0.9]), none),
            ("random", mean([0.5]), mean([0.4])),
            ("gsat", mean([1.0]), none),
        ]
    )
