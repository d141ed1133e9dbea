"""Which epoch of a run is reported, and when training ends early."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from gsat import metrics
from gsat.methods import Phase
from gsat.tasks import Task

# Metrics that are a share of the graphs, or close to one: their error is that of a share.
_SHARES = ("accuracy", "roc_auc")


@dataclass
class Best:
    """The best epoch so far.

    Attributes:
        epoch: Its number, over all phases.
        valid: Its validation metrics.
        settledness: How much its explanations agree with those of the epoch before.
            (default: ``None``, unknown)
        top: The best validation metric of any epoch so far, where less of it may be chosen.
            (default: ``None``)
    """

    epoch: int
    valid: dict[str, Any]
    settledness: float | None = None
    top: float | None = None


class Settledness:
    """How little explanations move: the rank correlation of scores with those of the epoch before.

    Attributes:
        value: Of the last scores that were seen; None for the first, and where all are equal.
    """

    def __init__(self) -> None:
        self._before: NDArray[Any] | None = None
        self.value: float | None = None

    def see(self, scores: NDArray[Any]) -> None:
        """Compare the scores of an epoch with the last ones."""
        before, self._before = self._before, scores
        self.value = None if before is None else metrics.spearman(before, scores)


def is_better(task: Task, valid: dict[str, Any], best: Best | None) -> bool:
    """Whether an epoch with these validation metrics is better than the best one so far.

    The task's metric decides; of equal ones, the lower loss.
    """
    before = best.valid if best else {}
    return metrics.better(task.merit(valid), valid["loss"], task.merit(before), before.get("loss"))


def settledness_best(
    task: Task, new: Best, best: Best | None, labels: int
) -> tuple[Best | None, bool]:
    """The better of two epochs: of those as accurate as any, the one with more settledness.

    An epoch is as accurate as any if its metric is within a standard error of the highest so far.
    """
    merit = task.merit(new.valid)
    if merit is None:
        return best, False
    top = merit if best is None or best.top is None else max(merit, best.top)
    new.top = top
    if best is None:
        return new, True
    held = task.merit(best.valid)
    least = top - noise(task, top, labels)
    taken = merit >= least and (
        held is None or held < least or _known(new.settledness) > _known(best.settledness)
    )
    if not taken:
        best.top = top
    return (new, True) if taken else (best, False)


def noise(task: Task, merit: float, labels: int) -> float:
    """The standard error of a validation metric; 0 for one that is not a share.

    That of a share p of n is the square root of p (1 − p) / n, with two successes and two failures
    added (Agresti and Coull), so that a share of 1 has an error, too.
    """
    if task.metric not in _SHARES:
        return 0.0
    share = (merit * labels + 2) / (labels + 4)
    return math.sqrt(share * (1 - share) / (labels + 4))


def _known(value: float | None) -> float:
    return -math.inf if value is None else value


def is_finished(phases: Sequence[Phase], epochs_done: int, best: Best | None) -> bool:
    """Whether training is over: all epochs are done, or the last phase is out of patience."""
    left, patience = sum(phase.epochs for phase in phases) - epochs_done, phases[-1].patience
    if left <= 0 or patience is None or best is None:
        return left <= 0
    in_last_phase = phases[-1].epochs - left
    return min(in_last_phase, epochs_done - 1 - best.epoch) >= patience
