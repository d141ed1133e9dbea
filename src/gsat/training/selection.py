"""Which epoch of a run is reported, and when training ends early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsat import metrics
from gsat.methods import Phase
from gsat.tasks import Task


@dataclass
class Best:
    """The best epoch so far.

    Attributes:
        epoch: Its number, over all phases.
        valid: Its validation metrics.
    """

    epoch: int
    valid: dict[str, Any]


def is_better(task: Task, valid: dict[str, Any], best: Best | None) -> bool:
    """Whether an epoch with these validation metrics is better than the best one so far.

    The task's metric decides; of equal ones, the lower loss.
    """
    before = best.valid if best else {}
    return metrics.better(task.merit(valid), valid["loss"], task.merit(before), before.get("loss"))


def is_finished(phases: Sequence[Phase], epochs_done: int, best: Best | None) -> bool:
    """Whether training is over: all epochs are done, or the last phase is out of patience.

    Args:
        phases: Of the method.
        epochs_done: Over all phases.
        best: The best epoch so far, if there is one.
    """
    left, patience = sum(phase.epochs for phase in phases) - epochs_done, phases[-1].patience
    if left <= 0 or patience is None or best is None:
        return left <= 0
    in_last_phase = phases[-1].epochs - left
    return min(in_last_phase, epochs_done - 1 - best.epoch) >= patience
