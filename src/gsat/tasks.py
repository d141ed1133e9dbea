"""What is predicted for a graph or a node: its loss, its probabilities, its answer, its metric."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from gsat import metrics
from gsat.errors import DataError

Kind = Literal["binary", "multiclass", "multilabel", "regression"]
Metric = Literal["accuracy", "roc_auc", "r2", "mae"]
Level = Literal["graph", "node"]


@dataclass(frozen=True)
class Task:
    """A prediction task: G answers, one per graph or, at node level, one per node asked for.

    Args:
        kind: ``binary`` (one logit, ``y`` float [G, 1]), ``multiclass`` (``y`` long [G]),
            ``multilabel`` (one logit per label, ``y`` float [G, T], NaN where missing) or
            ``regression`` (one number, ``y`` float [G, 1], NaN where missing).
        classes: number of classes, or of labels when multi-label; 2 when binary, 1 in regression.
        metric: what selects the best epoch and is reported: ``accuracy`` or ``roc_auc``; ``r2`` or
            ``mae`` in regression, where both are reported.
        level: what has a label, a ``graph`` or a ``node``.
        centre, scale: of the numbers of a regression, best the mean and the standard deviation of
            the training set: a network says (y − centre) / scale, and the loss is taken on that, so
            that it weighs the same against the information loss whatever the unit of y.
    """

    kind: Kind
    classes: int = 2
    metric: Metric = "accuracy"
    level: Level = "graph"
    centre: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("binary", "multiclass", "multilabel", "regression"):
            raise DataError(
                f"a task is 'binary', 'multiclass', 'multilabel' or 'regression', not {self.kind!r}"
            )
        if self.level not in ("graph", "node"):
            raise DataError(f"a task's level is 'graph' or 'node', not {self.level!r}")
        if self.kind == "regression":
            self._check_regression()
            return
        if self.metric not in ("accuracy", "roc_auc"):
            raise DataError(f"a task's metric is 'accuracy' or 'roc_auc', not {self.metric!r}")
        if (self.centre, self.scale) != (0, 1):
            raise DataError(f"centre and scale belong to a regression, not to a {self.kind} task")
        if self.kind == "binary" and self.classes != 2:
            raise DataError(f"a binary task has 2 classes, not {self.classes}")
        if self.kind == "multiclass" and self.classes < 2:
            raise DataError(f"a multi-class task needs at least 2 classes, not {self.classes}")
        if self.kind == "multiclass" and self.metric != "accuracy":
            raise DataError("a multi-class task is measured by accuracy; set metric='accuracy'")
        if self.kind == "multilabel" and self.classes < 1:
            raise DataError(f"a multi-label task needs at least 1 label, not {self.classes}")
        if self.kind == "multilabel" and self.metric != "roc_auc":
            raise DataError("a multi-label task is measured by ROC AUC; set metric='roc_auc'")

    def _check_regression(self) -> None:
        if self.metric not in ("r2", "mae"):
            raise DataError("a regression is measured by R² or MAE; set metric='r2' or 'mae'")
        if self.classes != 1:
            raise DataError(f"a regression predicts one number; set classes=1, not {self.classes}")
        if not (math.isfinite(self.centre) and math.isfinite(self.scale) and self.scale > 0):
            raise DataError(
                f"a regression needs a finite centre and a scale above 0, "
                f"not {self.centre} and {self.scale}"
            )

    @property
    def num_logits(self) -> int:
        """How many outputs a model needs."""
        return 1 if self.kind == "binary" else self.classes

    def check_labels(self, y: Tensor) -> None:
        """Raise a :class:`DataError` that names the first graph or node whose label can't be one.

        Args:
            y: the labels, graph after graph (node after node).
        """
        wanted = "[G]" if self.kind == "multiclass" else f"[G, {self.num_logits}]"
        if y.ndim != (1 if self.kind == "multiclass" else 2) or (
            y.ndim == 2 and y.shape[1] != self.num_logits
        ):
            raise DataError(
                f"labels of this {self.kind} task have the shape {wanted}, not {list(y.shape)}"
            )
        if self.kind == "multiclass":
            if y.is_floating_point():
                raise DataError("labels of a multi-class task are whole numbers, not fractions")
            bad = (y < 0) | (y >= self.classes)
            allowed = f"0 to {self.classes - 1}"
        elif self.kind == "regression":
            bad = torch.isinf(y).any(dim=1)
            allowed = "a finite number or (missing) NaN"
        else:
            bad = ~((y == 0) | (y == 1) | torch.isnan(y)).all(dim=1)
            allowed = "0, 1 or (missing) NaN"
        if bad.any():
            row = int(bad.nonzero()[0, 0])
            raise DataError(
                f"{self.level} {row} has the label {y[row].tolist()}; it must be {allowed}"
            )

    def loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Mean loss over the labels that are present.

        Args:
            logits: [G, num_logits].
            y: [G] long when multi-class, else [G, num_logits] float with NaN where missing.
        """
        if self.kind == "multiclass":
            return F.cross_entropy(logits, y)
        present = ~torch.isnan(y)
        if not present.any():
            return logits.sum() * 0.0
        if self.kind == "regression":
            target = (y[present].to(logits.dtype) - self.centre) / self.scale
            return F.mse_loss(logits[present], target)
        return F.binary_cross_entropy_with_logits(logits[present], y[present].to(logits.dtype))

    def losses(self, logits: Tensor, y: Tensor) -> Tensor:
        """The loss of every label that is present, whose mean is :meth:`loss`.

        Args:
            logits: [K, G, num_logits], K answers to one question. y: as in :meth:`loss`.

        Returns:
            [K, M] for the M labels that are present.
        """
        if self.kind == "multiclass":
            classes_second, answers = logits.movedim(-1, 1), y.expand(len(logits), -1)
            return F.cross_entropy(classes_second, answers, reduction="none")
        present = ~torch.isnan(y)
        said, target = logits[:, present], y[present].to(logits.dtype)
        if self.kind == "regression":
            return (said - (target - self.centre) / self.scale).square()
        target = target.expand(len(said), -1)
        return F.binary_cross_entropy_with_logits(said, target, reduction="none")

    def graph_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        """The loss of each graph (or node) by itself, [G], the mean over its labels that are
        present; 0 where none is.

        Args:
            logits, y: as in :meth:`loss`.
        """
        if self.kind == "multiclass":
            return F.cross_entropy(logits, y, reduction="none")
        present = ~torch.isnan(y)
        known = y.nan_to_num().to(logits.dtype)
        if self.kind == "regression":
            each = (logits - (known - self.centre) / self.scale).square()
        else:
            each = F.binary_cross_entropy_with_logits(logits, known, reduction="none")
        return (each * present).sum(dim=1) / present.sum(dim=1).clamp(min=1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """[G, num_logits] logits to probabilities: one per class, or one per label.

        A binary task gives two columns, so that a column is always a class; a regression has no
        probabilities, so no columns.
        """
        if self.kind == "regression":
            return logits[:, :0]
        if self.kind == "multiclass":
            return logits.softmax(dim=-1)
        positive = logits.sigmoid()
        return torch.cat([1 - positive, positive], dim=-1) if self.kind == "binary" else positive

    def decide(self, logits: Tensor) -> Tensor:
        """The predicted class [G] (long), labels [G, T] (long), or number [G] (float)."""
        if self.kind == "regression":
            return logits[:, 0] * self.scale + self.centre
        if self.kind == "multiclass":
            return logits.argmax(dim=-1)
        decided = (logits > 0).long()
        return decided[:, 0] if self.kind == "binary" else decided

    def scores(self, logits: Tensor, y: Tensor) -> dict[str, float | None]:
        """The task's metrics by name, None where one is undefined.

        Accuracy and ROC AUC are fractions; a regression has R² and the mean absolute error.
        """
        if self.metric == "roc_auc":
            return {"roc_auc": metrics.roc_auc(logits.numpy(force=True), y.numpy(force=True))}
        said = self.decide(logits).numpy(force=True)
        target = (y[:, 0] if y.ndim == 2 else y).numpy(force=True)
        if self.kind == "regression":
            return {"r2": metrics.r2(said, target), "mae": metrics.mae(said, target)}
        return {"accuracy": metrics.accuracy(said, target)}

    def score(self, logits: Tensor, y: Tensor) -> float | None:
        """The one of :meth:`scores` that is the task's metric."""
        return self.scores(logits, y)[self.metric]

    def merit(self, measured: Mapping[str, Any]) -> float | None:
        """The task's metric of some :meth:`scores`, signed so that more is better."""
        value = measured.get(self.metric)
        return -value if value is not None and self.metric == "mae" else value

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)
