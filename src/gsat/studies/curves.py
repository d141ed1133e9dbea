"""Curves of runs, one JSON line each in ``results/curves.jsonl``: figures over epochs are drawn
from it, without the run directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsat.training.results import IDENTITY, record_once
from gsat.training.run_directory import RunDirectory

DIGITS = 5  # significant ones that are kept


def compress(run: str | Path) -> dict[str, Any]:
    """What identifies a finished run, and for each of its phases one value per epoch of ``loss``
    (all that was minimised, on the training set), ``train_auc`` and ``valid_auc`` (explanation
    AUC). A list without any value is left out; None is a value that is not defined.
    """
    directory = RunDirectory.open(run)
    result = directory.result
    phases: dict[str, dict[str, list[float | None]]] = {}
    for line in directory.read_log():
        phase = phases.setdefault(line["phase"], {"loss": [], "train_auc": [], "valid_auc": []})
        train = line["train"]
        # GSAT logs the prediction loss and, with the information loss added, the total.
        phase["loss"].append(_short(train.get("total", train.get("loss"))))
        phase["train_auc"].append(_short(train.get("explanation_auc")))
        phase["valid_auc"].append(_short(line["valid"].get("explanation_auc")))
    known = {
        name: {key: values for key, values in phase.items() if any(v is not None for v in values)}
        for name, phase in phases.items()
    }
    return {
        **{key: result[key] for key in ("dataset", "method", "backbone", *IDENTITY)},
        "phases": known,
    }


def record_curves(path: str | Path, run: str | Path) -> bool:
    """Append the curves of a run unless they are there already; whether they were appended."""
    return record_once(path, compress(run))


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
