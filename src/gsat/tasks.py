"""What is predicted for a graph: its loss, its probabilities, its decision and its metric."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from gsat import metrics
from gsat.errors import DataError

Kind = Literal["binary", "multiclass", "multilabel"]


@dataclass(frozen=True)
class Task:
    """A graph-level prediction task.

    Args:
        kind: ``binary`` (one logit, ``y`` float [G, 1]), ``multiclass`` (``y`` long [G]) or
            ``multilabel`` (one logit per label, ``y`` float [G, T], NaN where missing).
        classes: number of classes, or of labels when multi-label; 2 when binary.
        metric: what selects the best epoch and is reported, ``accuracy`` or ``roc_auc``.
    """

    kind: Kind
    classes: int = 2
    metric: Literal["accuracy", "roc_auc"] = "accuracy"

    def __post_init__(self) -> None:
        if self.kind not in ("binary", "multiclass", "multilabel"):
            raise DataError(f"a task is 'binary', 'multiclass' or 'multilabel', not {self.kind!r}")
        if self.metric not in ("accuracy", "roc_auc"):
            raise DataError(f"a task's metric is 'accuracy' or 'roc_auc', not {self.metric!r}")
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

    @property
    def num_logits(self) -> int:
        """How many outputs a model needs."""
        return 1 if self.kind == "binary" else self.classes

    def check_labels(self, y: Tensor) -> None:
        """Raise a :class:`DataError` that names the first graph whose label can't be one."""
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
        else:
            bad = ~((y == 0) | (y == 1) | torch.isnan(y)).all(dim=1)
            allowed = "0, 1 or (missing) NaN"
        if bad.any():
            graph = int(bad.nonzero()[0, 0])
            raise DataError(
                f"graph {graph} has the label {y[graph].tolist()}; it must be {allowed}"
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
        return F.binary_cross_entropy_with_logits(logits[present], y[present].to(logits.dtype))

    def probabilities(self, logits: Tensor) -> Tensor:
        """[G, num_logits] logits to probabilities: one per class, or one per label.

        A binary task gives two columns, so that a column is always a class.
        """
        if self.kind == "multiclass":
            return logits.softmax(dim=-1)
        positive = logits.sigmoid()
        return torch.cat([1 - positive, positive], dim=-1) if self.kind == "binary" else positive

    def decide(self, logits: Tensor) -> Tensor:
        """The predicted class [G] (long), or the predicted labels [G, T] (long)."""
        if self.kind == "multiclass":
            return logits.argmax(dim=-1)
        decided = (logits > 0).long()
        return decided[:, 0] if self.kind == "binary" else decided

    def score(self, logits: Tensor, y: Tensor) -> float | None:
        """The task's metric as a fraction, or None where it is undefined."""
        if self.metric == "roc_auc":
            return metrics.roc_auc(logits.numpy(force=True), y.numpy(force=True))
        target = y[:, 0] if self.kind == "binary" else y
        return metrics.accuracy(self.decide(logits).numpy(force=True), target.numpy(force=True))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)
