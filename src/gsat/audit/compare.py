"""Answers compared with those for the whole graph: the same decision, a shift, a drop."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.metrics import r2
from gsat.tasks import Task

Floats = NDArray[np.float64]

SAME_NUMBER = 0.5  # numbers this near are the same answer, in standard deviations of the answers
UNSURE = (0.4, 0.6)  # probabilities between these are no answer


class Comparison:
    """How far answers are from a model's own."""

    def __init__(self, task: Task, own: Tensor) -> None:
        self.task, self.own = task, own
        self.decided = task.decide(own)
        self.likely = task.probabilities(own)  # no columns in a regression
        deviation = own.std(dim=0, correction=0) if len(own) > 1 else torch.ones(own.shape[1])
        self.deviation = deviation.clamp(min=1e-6)

    def same(self, logits: Tensor) -> Floats:
        """Whether decisions are the same; of several labels or numbers, the share that are."""
        flat = logits.flatten(0, 1)
        if self.task.kind == "regression":
            near = (self._apart(logits) <= SAME_NUMBER).double()
        else:
            decided = self.task.decide(flat).reshape(len(logits), len(self.own), -1)
            near = (decided == self.decided.reshape(1, len(self.own), -1)).double()
        return near.mean(dim=2).numpy()

    def shift(self, logits: Tensor) -> Floats:
        """Total variation of the answers' probabilities; of numbers, the distance."""
        if self.task.kind == "regression":
            return self._apart(logits).clamp(max=1).mean(dim=2).numpy()
        apart = (self._likely(logits) - self.likely[None].double()).abs()
        if self.task.kind == "multilabel":
            return apart.mean(dim=2).numpy()
        return (apart.sum(dim=2) / 2).numpy()

    def drop(self, logits: Tensor) -> Floats:
        """How much the probability of the model's own decision falls; of numbers, the distance."""
        if self.task.kind == "regression":
            return self.shift(logits)
        now, before = self._likely(logits), self.likely.double()
        if self.task.kind == "multilabel":
            sign = 2.0 * self.decided.double() - 1
            return (sign * (before - now)).mean(dim=2).numpy()
        row = self.decided[:, None]
        return (before.gather(1, row) - now.gather(2, row.expand(len(now), -1, -1)))[..., 0].numpy()

    def rejected(self, logits: Tensor) -> NDArray[np.bool_]:
        """Whether any of several answers contradicts the model's own, by the rule of EST."""
        if self.task.kind == "regression":
            return (self._apart(logits) > 1).any(dim=2).any(dim=0).numpy()
        changed: NDArray[np.bool_] = np.any(self.same(logits) < 1, axis=0)
        if self.task.kind != "binary":
            return changed
        low, high = UNSURE
        first, now = self.likely[:, 1].numpy(), self._likely(logits)[..., 1].numpy()
        sure = (first < low) | (first > high)
        return changed | (sure & np.any((now >= low) & (now <= high), axis=0))

    def chance(self) -> float:
        """The agreement of giving every graph the most frequent decision.

        In a regression it is the number that is the same as most of the model's own answers.
        """
        if self.task.kind == "regression":
            return float(np.mean([_most_alike(c) for c in (self.own / self.deviation).numpy().T]))
        columns = self.decided.reshape(len(self.own), -1).numpy().T
        return float(np.mean([np.unique(c, return_counts=True)[1].max() / len(c) for c in columns]))

    def _likely(self, logits: Tensor) -> Tensor:
        flat = self.task.probabilities(logits.flatten(0, 1)).double()
        return flat.reshape(len(logits), len(self.own), -1)

    def _apart(self, logits: Tensor) -> Tensor:
        """The distance of numbers in standard deviations, ``[K, M, T]``."""
        return ((logits - self.own[None]) / self.deviation).abs().double()


def bypass(agreement: float, chance: float) -> float | None:
    """How far predictions are made without attention."""
    return max(0.0, (agreement - chance) / (1 - chance)) if chance < 1 else None


def skill(task: Task, logits: Tensor, labels: Tensor | None) -> tuple[float | None, float | None]:
    """How well a task is solved, and what is left of that when guessing is taken off."""
    if labels is None:
        return None, None
    if task.kind == "regression":
        numbers = task.decide(logits).reshape(len(labels), -1).numpy(force=True).T
        found = [r2(a, b) for a, b in zip(numbers, labels.numpy(force=True).T, strict=True)]
        known = [value for value in found if value is not None]
        return (float(np.mean(known)),) * 2 if known else (None, None)
    score = task.score(logits, labels)
    if score is None:
        return None, None
    if task.metric == "roc_auc":
        return score, 2 * score - 1
    known_labels = labels.double()[~labels.double().isnan()]
    guess = float(known_labels.unique(return_counts=True)[1].max() / len(known_labels))
    return score, (score - guess) / (1 - guess) if guess < 1 else None


def _most_alike(numbers: NDArray[np.float32]) -> float:
    """The largest share of numbers that one number is the same as."""
    ordered = np.sort(numbers.astype(np.float64))
    last = np.searchsorted(ordered, ordered + 2 * SAME_NUMBER, side="right")
    return float((last - np.arange(len(ordered))).max() / len(ordered))
