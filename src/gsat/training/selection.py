"""Which epoch is reported, which epochs are kept as snapshots, and when training ends early."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from gsat import metrics
from gsat.core.errors import GSATError, RecipeError
from gsat.graphs import GraphBatch
from gsat.methods import Method, Phase
from gsat.models import InterpretableModel
from gsat.models.weights import check_fit
from gsat.tasks import Task

Tensors = dict[str, Tensor]

# Metrics that are a share of the graphs, or close to one: their error is that of a share.
_SHARES = ("accuracy", "roc_auc")


@dataclass
class Best:
    """The best epoch so far."""

    epoch: int  # over all phases
    valid: dict[str, Any]
    score_stability: float | None = None
    top: float | None = None  # highest validation metric of any epoch, if stability decides


class ScoreStability:
    """Rank correlation of edge scores between consecutive epochs."""

    def __init__(self) -> None:
        self._before: NDArray[Any] | None = None
        self.value: float | None = None  # None after the first epoch, and where scores are equal

    def see(self, scores: NDArray[Any]) -> None:
        """Compare the scores of an epoch with those of the epoch before."""
        before, self._before = self._before, scores
        self.value = None if before is None else metrics.spearman(before, scores)


def is_better(task: Task, valid: dict[str, Any], best: Best | None) -> bool:
    """Whether an epoch with these validation metrics is better than the best one so far.

    The task's metric decides; of equal ones, the lower loss.
    """
    before = best.valid if best else {}
    return metrics.better(task.merit(valid), valid["loss"], task.merit(before), before.get("loss"))


def more_stable(task: Task, new: Best, best: Best | None, labels: int) -> tuple[Best | None, bool]:
    """Choose the epoch with the higher score stability; returns it, and whether it is the new one.

    Only epochs whose metric is within a standard error of the highest so far are compared.
    """
    merit = task.merit(new.valid)
    if merit is None:
        return best, False
    if best is None:
        new.top = merit
        return new, True
    top = new.top = best.top = merit if best.top is None else max(merit, best.top)
    held, least = task.merit(best.valid), top - noise(task, top, labels)
    better = held is None or held < least or _stability(new) > _stability(best)
    return (new, True) if merit >= least and better else (best, False)


def noise(task: Task, merit: float, labels: int) -> float:
    """The standard error of a validation metric; 0 for one that is not a share.

    That of a share p of n is the square root of p (1 − p) / n, with two successes and two failures
    added (Agresti and Coull), so that a share of 1 has an error, too.
    """
    if task.metric not in _SHARES:
        return 0.0
    share = (merit * labels + 2) / (labels + 4)
    return math.sqrt(share * (1 - share) / (labels + 4))


def _stability(epoch: Best) -> float:
    return -math.inf if epoch.score_stability is None else epoch.score_stability


def is_finished(phases: Sequence[Phase], epochs_done: int, best: Best | None) -> bool:
    """Whether training is over: all epochs are done, or the last phase is out of patience."""
    left, patience = sum(phase.epochs for phase in phases) - epochs_done, phases[-1].patience
    if left <= 0 or patience is None or best is None:
        return left <= 0
    in_last_phase = phases[-1].epochs - left
    return min(in_last_phase, epochs_done - 1 - best.epoch) >= patience


class Snapshots:
    """The weights of a model after several epochs; the oldest are dropped."""

    def __init__(self, method: Method) -> None:
        self.most: int = method.training.snapshots or 0
        phases = method.phases()
        self._last = sum(phase.epochs for phase in phases) - 1
        selectable = [p.epochs - p.selectable_from for p in phases if p.selectable_from is not None]
        spread = self.most and method.training.snapshot_epochs == "spread"
        self._every = max(1, sum(n for n in selectable if n > 0) // self.most) if spread else 1
        self.weights: dict[int, Tensors] = {}  # by epoch, the oldest first
        if self.most:
            try:
                method.model.take_snapshots([])
            except GSATError:
                raise RecipeError(
                    f"training.snapshots is for models of GSAT, not for those of {method.title}; "
                    "leave it out"
                ) from None

    def take(self, epoch: int, model: InterpretableModel) -> None:
        """Keep the weights of an epoch, if any are kept."""
        if self.most and (self._last - epoch) % self._every == 0:
            self.weights[epoch] = copy_weights(model)
            for old in sorted(self.weights)[: -self.most]:
                del self.weights[old]

    def restore(self, weights: Mapping[int, Tensors], model: InterpretableModel) -> None:
        """Restore the snapshots of a checkpoint."""
        if len(weights) > self.most:
            raise RecipeError(f"{len(weights)} snapshots, and the recipe keeps {self.most}")
        for state in weights.values():
            check_fit(model, state)
        self.weights = dict(weights)

    def complete(
        self,
        method: Method,
        best: Mapping[str, Tensor],
        batches: Callable[[], Iterator[GraphBatch]],
    ) -> bool:
        """Load the weights of the best epoch, calibrate them and attach the snapshots."""
        model, ready, calibrated = method.model, [], False
        for weights in (*self.weights.values(), best):  # the best last: it stays
            model.load_state_dict(dict(weights))
            calibrated = method.calibrate(batches())
            ready.append(copy_weights(model))
        if self.weights:
            model.take_snapshots(ready[:-1])
        return calibrated or bool(self.weights)


def copy_weights(model: InterpretableModel) -> Tensors:
    """The model's weights as they are now."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
