"""The measures of an audit: perturbed predictions compared with those for the whole graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.audit.perturbations import Answers
from gsat.audit.settings import AuditSettings
from gsat.metrics import mean_graph_correlation, r2
from gsat.tasks import Task

Floats = NDArray[np.float64]
Measures = dict[str, float | None]
CURVES = ("kept", "removed", "random_kept", "random_removed")

SAME_NUMBER = 0.5  # predictions this close count as equal, in standard deviations
UNSURE = (0.4, 0.6)  # a probability between these is not a decision


class Comparison:
    """Compares predictions with those for the whole graph."""

    def __init__(self, task: Task, own: Tensor) -> None:
        self.task, self.own = task, own
        self.decided = task.decide(own)
        self.likely = task.probabilities(own)  # no columns in a regression
        deviation = own.std(dim=0, correction=0) if len(own) > 1 else torch.ones(own.shape[1])
        self.deviation = deviation.clamp(min=1e-6)

    def same(self, logits: Tensor) -> Floats:
        """Whether decisions are the same; for several labels or numbers, the share that are."""
        flat = logits.flatten(0, 1)
        if self.task.kind == "regression":
            near = (self._apart(logits) <= SAME_NUMBER).double()
        else:
            decided = self.task.decide(flat).reshape(len(logits), len(self.own), -1)
            near = (decided == self.decided.reshape(1, len(self.own), -1)).double()
        return near.mean(dim=2).numpy()

    def shift(self, logits: Tensor) -> Floats:
        """Total variation of the predicted probabilities; for numbers, the distance."""
        if self.task.kind == "regression":
            return self._apart(logits).clamp(max=1).mean(dim=2).numpy()
        apart = (self._likely(logits) - self.likely[None].double()).abs()
        if self.task.kind == "multilabel":
            return apart.mean(dim=2).numpy()
        return (apart.sum(dim=2) / 2).numpy()

    def drop(self, logits: Tensor) -> Floats:
        """Fall of the probability of the model's own decision; for numbers, the distance."""
        if self.task.kind == "regression":
            return self.shift(logits)
        now, before = self._likely(logits), self.likely.double()
        if self.task.kind == "multilabel":
            sign = 2.0 * self.decided.double() - 1
            return (sign * (before - now)).mean(dim=2).numpy()
        row = self.decided[:, None]
        return (before.gather(1, row) - now.gather(2, row.expand(len(now), -1, -1)))[..., 0].numpy()

    def rejected(self, logits: Tensor) -> NDArray[np.bool_]:
        """Whether any prediction contradicts the model's own, by the rule of EST."""
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
        """The agreement of the most frequent decision for every graph.

        In a regression, of the number that is equal to most of the model's own predictions.
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
    """Agreement without attention, stretched from chance (0) to full agreement (1)."""
    return max(0.0, (agreement - chance) / (1 - chance)) if chance < 1 else None


def skill(task: Task, logits: Tensor, labels: Tensor | None) -> tuple[float | None, float | None]:
    """The metric of a task, and the skill: the metric with guessing at 0 and no error at 1."""
    if labels is None:
        return None, None
    if task.kind == "regression":
        numbers = task.decide(logits).reshape(len(labels), -1).numpy(force=True).T
        values = [r2(a, b) for a, b in zip(numbers, labels.numpy(force=True).T, strict=True)]
        defined = [value for value in values if value is not None]
        return (float(np.mean(defined)),) * 2 if defined else (None, None)
    score = task.score(logits, labels)
    if score is None:
        return None, None
    if task.metric == "roc_auc":
        return score, 2 * score - 1
    classes = labels.double()[~labels.double().isnan()]
    guess = float(classes.unique(return_counts=True)[1].max() / len(classes))
    return score, (score - guess) / (1 - guess) if guess < 1 else None


def _most_alike(numbers: NDArray[np.float32]) -> float:
    """The largest share of numbers that are equal to a single number."""
    ordered = np.sort(numbers.astype(np.float64))
    last = np.searchsorted(ordered, ordered + 2 * SAME_NUMBER, side="right")
    return float((last - np.arange(len(ordered))).max() / len(ordered))


def measure(
    task: Task, r: float | None, answers: Answers, settings: AuditSettings
) -> tuple[Measures, dict[str, list[float | None]]]:
    """Compute the measures and the curves of an audit."""
    own = answers.logits["own"][0]
    compared = Comparison(task, own)
    out: Measures = {}
    out["metric"], out["skill"] = skill(task, own, answers.labels)
    out["chance"] = compared.chance()
    out |= _sufficiency(task, answers, compared)
    out |= _necessity(answers, compared)
    out |= _bypass(task, answers, compared)
    out |= _robustness(answers, compared)
    out |= score_measures(answers.scores, answers.ptr, r)
    out["size"] = float(answers.inside.mean())
    if answers.again is not None:
        out["again_difference"] = float(np.abs(answers.scores - answers.again).mean())
        out["again_correlation"] = mean_graph_correlation(
            answers.scores, answers.again, answers.ptr
        )
    curves = _curves(task, answers, compared, settings)
    if settings.shares:
        out["kept_area"] = _area(curves["kept"], curves["random_kept"])
        out["removed_area"] = _area(curves["random_removed"], curves["removed"])
    return out, curves


def score_measures(scores: NDArray[Any], ptr: NDArray[Any], r: float | None) -> Measures:
    """Measure the spread of the scores of edges or nodes."""
    some = ptr[:-1][np.diff(ptr) > 0]
    count = np.diff(np.append(some, len(scores)))
    mean = np.add.reduceat(scores, some) / count
    square = np.add.reduceat(np.square(scores), some) / count
    spread = np.maximum.reduceat(scores, some) - np.minimum.reduceat(scores, some)
    return {
        "spread": float(spread.mean()),
        "deviation": float(np.sqrt(np.maximum(square - mean**2, 0)).mean()),
        "from_r": None if r is None else float(np.abs(scores - r).mean()),
    }


def _sufficiency(task: Task, answers: Answers, compared: Comparison) -> Measures:
    out: dict[str, Any] = {}
    for how in ("redrawn", "levelled"):
        rest, explanation = f"rest_{how}", f"explanation_{how}"
        if rest in answers.logits:
            for name in (rest, explanation):
                out[name] = float(compared.same(answers.logits[name]).mean())
            out[f"{how}_gap"] = out[rest] - out[explanation]
    for name in ("inside", "outside"):
        logits = answers.logits[name]
        out[f"{name}_agreement"] = float(compared.same(logits).mean())
        out[f"{name}_metric"] = skill(task, logits[0], answers.labels)[0]
    out["removed_gap"] = out["inside_agreement"] - out["outside_agreement"]
    return out


def _necessity(answers: Answers, compared: Comparison) -> Measures:
    named = {
        "fid_plus": "outside",
        "fid_minus": "inside",
        "rfid_plus": "less",
        "rfid_minus": "more",
    }
    return {
        name: float(compared.drop(answers.logits[question]).mean())
        for name, question in named.items()
    }


def _bypass(task: Task, answers: Answers, compared: Comparison) -> Measures:
    """Compare predictions under zero, constant and the model's own attention."""
    out: Measures = {}
    for name in ("zero", "prior"):
        if name in answers.logits:
            out[f"{name}_agreement"] = float(compared.same(answers.logits[name]).mean())
            out[f"{name}_metric"] = skill(task, answers.logits[name][0], answers.labels)[0]
    if (zero := out.get("zero_agreement")) is not None:
        out["bypass"] = bypass(zero, compared.chance())
    if "attended" in answers.logits:
        out["own_agreement"] = float(compared.same(answers.logits["attended"]).mean())
    return out


def _robustness(answers: Answers, compared: Comparison) -> Measures:
    largest = compared.shift(answers.logits["extended"]).max(axis=0)
    drawn = answers.logits.get("drawn")
    kept = float(compared.same(answers.logits["extended"]).mean())
    return {
        "est_agreement": kept,
        "est_advantage": kept - float(compared.same(answers.logits["random_extended"]).mean()),
        "est_shift": float(largest.mean()),
        "est_largest": float(largest.max()),
        "est_rejected": float(compared.rejected(answers.logits["extended"]).mean()),
        "attention_variation": None if drawn is None else float(compared.shift(drawn).mean()),
    }


def _curves(
    task: Task, answers: Answers, compared: Comparison, settings: AuditSettings
) -> dict[str, list[float | None]]:
    shares = list(settings.shares)
    out: dict[str, list[float | None]] = {"shares": list(shares)}
    for name in CURVES if shares else ():
        agreement = compared.same(answers.logits[name]).mean(axis=1)
        out[name] = [float(v) for v in agreement.reshape(-1, len(shares)).mean(axis=0)]
    for name in ("kept", "removed") if shares else ():
        logits: Tensor = answers.logits[name]
        out[f"{name}_metric"] = [skill(task, row, answers.labels)[0] for row in logits]
    return out


def _area(upper: list[float | None], lower: list[float | None]) -> float:
    """The mean distance of two curves."""
    return float(np.mean(np.subtract(np.array(upper, float), np.array(lower, float))))
