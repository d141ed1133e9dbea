"""What the training loop says: how far an epoch got, and that training broke down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsat.core.errors import RunError
from gsat.tasks import Task


def status(task: Task, valid: Mapping[str, Any]) -> str:
    """The metrics of an epoch, for the progress bar."""
    shown = []
    for name in (task.metric, "explanation_auc"):
        value = valid.get(name)
        if value is not None:
            shown.append(f"{name.replace('_', ' ')} {value:.3f}")
    return "valid " + ", ".join(shown) if shown else ""


def breakdown(epoch: int, what: str) -> RunError:
    """The error of a loss or prediction that is not a finite number."""
    return RunError(
        f"training broke down in epoch {epoch}: {what}; lower the learning rate (training.lr) or "
        f"check the features for NaN"
    )
