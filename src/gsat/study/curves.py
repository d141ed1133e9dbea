"""Curves over epochs, recorded as one JSON line per run in ``results/curves.jsonl``.

Figures over epochs are drawn from that file, without the run directories.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsat.training.results import IDENTITY, record_once
from gsat.training.run_directory import RunDirectory

DIGITS = 5  # significant digits that are kept


def read_curves(run: str | Path) -> dict[str, Any]:
    """Read the curves of a finished run."""
    directory = RunDirectory.open(run)
    result = directory.result
    phases: dict[str, dict[str, list[float | None]]] = {}
    for line in directory.read_log():
        phase = phases.setdefault(line["phase"], {"loss": [], "train_auc": [], "valid_auc": []})
        train = line["train"]
        # GSAT logs the prediction loss and, with the information loss added, the total.
        phase["loss"].append(_rounded(train.get("total", train.get("loss"))))
        phase["train_auc"].append(_rounded(train.get("explanation_auc")))
        phase["valid_auc"].append(_rounded(line["valid"].get("explanation_auc")))
    defined = {
        name: {key: values for key, values in phase.items() if any(v is not None for v in values)}
        for name, phase in phases.items()
    }
    return {
        **{key: result[key] for key in ("dataset", "method", "backbone", *IDENTITY)},
        "phases": defined,
    }


def record_curves(path: str | Path, run: str | Path) -> bool:
    """Append the curves of a run to a file, unless they are there already."""
    return record_once(path, read_curves(run))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
