"""Curves of runs in one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gsat.core.errors import RunError
from gsat.study.curves import read_curves, record_curves
from gsat.training.recipe import make_recipe
from gsat.training.results import IDENTITY, read_records
from gsat.training.run_directory import RunDirectory


def epoch(phase: str, loss: float, auc: float | None, **train: Any) -> dict[str, Any]:
    return {
        "phase": phase,
        "epoch": 0,
        "train": {"loss": loss, **train},
        "valid": {"loss": 9.0, "explanation_auc": auc},
        "selected": False,
    }


def finished(path: Path, lines: list[dict[str, Any]], method: str = "gsat", seed: int = 0) -> Path:
    """A run directory with this log."""
    recipe = make_recipe("ba2motifs", method=method, seed=seed)
    run = RunDirectory.create(path, recipe)
    for line in lines:
        run.log(line)
    result = {
        "best_epoch": 0,
        "selected": "best",
        "valid": {},
        "test": {},
        "seconds": 1.0,
        "dataset": "ba2motifs",
        "method": method,
        "backbone": "gin",
        "seed": seed,
        "recipe_hash": recipe.hash(),
        "data_hash": "d",
        "results_version": 2,
    }
    run.result_path.write_text(json.dumps(result))
    return path


def test_a_run_in_one_line(tmp_path: Path) -> None:
    lines = [
        epoch("pretrain", 0.123456789, None),
        epoch("pretrain", 12345.6789, None),
        epoch("explain", 2.0, 0.98765432, explanation_auc=0.5),
        epoch("explain", 1e-9 / 3, None, explanation_auc=0.25),
    ]
    found = read_curves(finished(tmp_path / "run", lines, "graphmask", seed=3))
    assert {key: found[key] for key in ("dataset", "method", "backbone", "seed")} == {
        "dataset": "ba2motifs",
        "method": "graphmask",
        "backbone": "gin",
        "seed": 3,
    }
    assert set(IDENTITY) <= set(found)
    assert found["phases"] == {
        "pretrain": {"loss": [0.12346, 12346.0]},
        "explain": {
            "loss": [2.0, 3.3333e-10],
            "train_auc": [0.5, 0.25],
            "valid_auc": [0.98765, None],
        },
    }


def test_the_loss_of_gsat_is_the_total_it_minimises(tmp_path: Path) -> None:
    lines = [epoch("train", 0.5, 0.9, info=0.25, total=0.75)]
    assert read_curves(finished(tmp_path / "run", lines))["phases"]["train"]["loss"] == [0.75]


def test_a_run_is_written_once(tmp_path: Path) -> None:
    file = tmp_path / "curves.jsonl"
    runs = [finished(tmp_path / f"{s}", [epoch("train", 1, 0.5)], seed=s) for s in range(2)]
    assert [record_curves(file, run) for run in (runs[0], runs[0], runs[1])] == [True, False, True]
    assert [line["seed"] for line in read_records(file)] == [0, 1]


def test_runs_that_have_no_curves(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run"):
        read_curves(tmp_path)
    run = finished(tmp_path / "run", [epoch("train", 1, 0.5)])
    (run / "metrics.jsonl").write_text("{")
    with pytest.raises(RunError, match="train the run again"):
        read_curves(run)
    (run / "result.json").unlink()
    with pytest.raises(RunError, match="is not finished"):
        read_curves(run)
