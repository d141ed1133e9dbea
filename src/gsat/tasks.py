"""Prediction tasks: losses, probabilities, predictions and metrics of graphs or nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from gsat import metrics
from gsat.core.errors import DataError
from gsat.metric_names import LOWER_IS_BETTER

Kind = Literal["binary", "multiclass", "multilabel", "regression"]
Metric = Literal["accuracy", "roc_auc", "r2", "mae", "rmse"]
Level = Literal["graph", "node"]


@dataclass(frozen=True)
class Task:
    """What is predicted, and how it is measured: ``G`` predictions, one per graph or node.

    Args:
        kind: ``"binary"`` (one logit, ``y`` float ``[G, 1]``), ``"multiclass"`` (``y`` long
            ``[G]``), ``"multilabel"`` (one logit per label, ``y`` float ``[G, T]``, NaN where
            missing) or ``"regression"`` (numbers, ``y`` float ``[G, T]``, NaN where missing).
        classes: Number of classes, of labels if multi-label, or of numbers in a regression.
            (default: 2, in a regression 1)
        metric: What selects the best epoch and is reported: ``"accuracy"`` or ``"roc_auc"``;
            ``"r2"``, ``"mae"`` or ``"rmse"`` in a regression, where all are reported; of several
            numbers, the mean of each. (default: ``"accuracy"``)
        level: What has labels, ``"graph"`` or ``"node"``. (default: ``"graph"``)
        centre: In a regression, the number subtracted from ``y``, best the mean of the training
            set; of several numbers one each. (default: 0)
        scale: In a regression, the number ``y - centre`` is divided by, best the standard deviation
            of the training set. The network predicts ``(y - centre) / scale``, and the loss is
            computed on that, so that its weight does not depend on the unit of ``y``; of several
            numbers one each. (default: 1)
        weights: Weight of each class in the loss or, if multi-label, of each label's positives.
            (default: all count the same)

    Raises:
        DataError: If the arguments contradict each other.

    Example:
        >>> task = Task("multiclass", classes=3)
        >>> task.decide(torch.tensor([[0.1, 2.0, 0.3], [1.5, 0.2, 0.1]])).tolist()
        [1, 0]
    """

    kind: Kind
    classes: int = None  # type: ignore[assignment]  # known once the kind is
    metric: Metric = "accuracy"
    level: Level = "graph"
    centre: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = 1.0
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.classes is None:
            object.__setattr__(self, "classes", 1 if self.kind == "regression" else 2)
        for name in ("centre", "scale", "weights"):  # lists where it was read from JSON
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))
        if self.kind not in ("binary", "multiclass", "multilabel", "regression"):
            raise DataError(
                f"kind must be 'binary', 'multiclass', 'multilabel' or 'regression', "
                f"not {self.kind!r}"
            )
        if self.level not in ("graph", "node"):
            raise DataError(f"level must be 'graph' or 'node', not {self.level!r}")
        if self.weights is not None and (
            self.kind == "regression"
            or len(self.weights) != self.classes
            or not all(math.isfinite(w) and w > 0 for w in self.weights)
        ):
            raise DataError(
                f"weights must be {self.classes} numbers above 0, one per class or label of a task "
                f"that has some, not {self.weights}"
            )
        if self.kind == "regression":
            self._check_regression()
            return
        if self.metric not in ("accuracy", "roc_auc"):
            raise DataError(f"metric must be 'accuracy' or 'roc_auc', not {self.metric!r}")
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
        if self.metric not in ("r2", "mae", "rmse"):
            raise DataError(
                "a regression is measured by R², MAE or RMSE; set metric='r2', 'mae' or 'rmse'"
            )
        if self.classes < 1:
            raise DataError(f"a regression predicts 1 number or more, not {self.classes}")
        centre, scale = _numbers(self.centre), _numbers(self.scale)
        if not {len(centre), len(scale)} <= {1, self.classes}:
            raise DataError(
                f"a regression of {self.classes} numbers needs as many centres and scales, "
                f"not {len(centre)} and {len(scale)}"
            )
        if not (all(map(math.isfinite, (*centre, *scale))) and min(scale) > 0):
            raise DataError(
                f"a regression needs a finite centre and a scale above 0, "
                f"not {self.centre} and {self.scale}"
            )

    @property
    def num_logits(self) -> int:
        """How many outputs a model needs per graph or node."""
        return 1 if self.kind == "binary" else self.classes

    def check_labels(self, y: Tensor) -> None:
        """Raise unless labels are valid.

        Args:
            y: Labels, one row per graph or node.

        Raises:
            DataError: If their shape or type is wrong, or a value is invalid; the message names the
                first graph or node.
        """
        wanted = "[G]" if self.kind == "multiclass" else f"[G, {self.num_logits}]"
        if y.ndim != (1 if self.kind == "multiclass" else 2) or (
            y.ndim == 2 and y.shape[1] != self.num_logits
        ):
            raise DataError(
                f"labels of this {self.kind} task must have shape {wanted}, not {list(y.shape)}"
            )
        if self.kind == "multiclass":
            if y.is_floating_point():
                raise DataError(f"labels of a multi-class task must be integers, not {y.dtype}")
            bad = (y < 0) | (y >= self.classes)
            allowed = f"0 to {self.classes - 1}"
        elif self.kind == "regression":
            bad = torch.isinf(y).any(dim=1)
            allowed = "a finite number, or NaN if missing"
        else:
            bad = ~((y == 0) | (y == 1) | torch.isnan(y)).all(dim=1)
            allowed = "0, 1, or NaN if missing"
        if bad.any():
            row = int(bad.nonzero()[0, 0])
            raise DataError(
                f"{self.level} {row} has the label {y[row].tolist()}; it must be {allowed}"
            )

    def loss(self, logits: Tensor, y: Tensor) -> Tensor:
        """Mean loss over the labels that are present.

        Args:
            logits: Outputs of a model, ``[G, num_logits]``.
            y: Labels, ``[G]`` long if multi-class, else ``[G, num_logits]`` float with NaN where
                missing.

        Returns:
            A scalar; 0 if no label is present.
        """
        if self.weights is not None:
            weight = self._loss_weights(y).to(logits.dtype)
            return (self.losses(logits[None], y)[0] * weight).sum() / max(len(weight), 1)
        if self.kind == "multiclass":
            return F.cross_entropy(logits, y)
        present = ~torch.isnan(y)
        if not present.any():
            return logits.sum() * 0.0
        if self.kind == "regression":
            return F.mse_loss(logits[present], self._standardised(y.to(logits.dtype))[present])
        return F.binary_cross_entropy_with_logits(logits[present], y[present].to(logits.dtype))

    def _standardised(self, y: Tensor) -> Tensor:
        """``(y - centre) / scale`` of labels ``[G, T]``."""
        if isinstance(self.centre, tuple) or isinstance(self.scale, tuple):
            return (y - y.new_tensor(self.centre)) / y.new_tensor(self.scale)
        return (y - self.centre) / self.scale

    def _loss_weights(self, y: Tensor) -> Tensor:
        """The weight of every label that is present, ``[M]``."""
        weights = torch.tensor(self.weights, device=y.device)
        if self.kind == "multiclass":
            return weights[y]
        if self.kind == "binary":
            each = torch.where(y > 0, weights[1], weights[0])
        else:
            each = torch.where(y > 0, weights, torch.ones_like(weights))
        return each[~torch.isnan(y)]

    def losses(self, logits: Tensor, y: Tensor) -> Tensor:
        """The loss of every label that is present; its mean is :meth:`loss` without weights.

        Args:
            logits: ``K`` outputs for the same graphs or nodes, ``[K, G, num_logits]``.
            y: Labels, as in :meth:`loss`.

        Returns:
            The losses, ``[K, M]`` for the ``M`` labels that are present.
        """
        if self.kind == "multiclass":
            classes_second, answers = logits.movedim(-1, 1), y.expand(len(logits), -1)
            return F.cross_entropy(classes_second, answers, reduction="none")
        present = ~torch.isnan(y)
        predicted, target = logits[:, present], y[present].to(logits.dtype)
        if self.kind == "regression":
            target = self._standardised(y.to(logits.dtype))[present]
            return (predicted - target).square()
        target = target.expand(len(predicted), -1)
        return F.binary_cross_entropy_with_logits(predicted, target, reduction="none")

    def graph_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        """The loss of each graph or node: the mean over its labels that are present.

        Args:
            logits: Outputs of a model, ``[G, num_logits]``.
            y: Labels, as in :meth:`loss`.

        Returns:
            The losses, ``[G]``; 0 where no label is present.
        """
        if self.kind == "multiclass":
            return F.cross_entropy(logits, y, reduction="none")
        present = ~torch.isnan(y)
        known = y.nan_to_num().to(logits.dtype)
        if self.kind == "regression":
            each = (logits - self._standardised(known)).square()
        else:
            each = F.binary_cross_entropy_with_logits(logits, known, reduction="none")
        return (each * present).sum(dim=1) / present.sum(dim=1).clamp(min=1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Turn logits into probabilities.

        Args:
            logits: Outputs of a model, ``[G, num_logits]``.

        Returns:
            One column per class (two if binary) or per label; no columns in a regression.

        Example:
            >>> Task("binary").probabilities(torch.tensor([[0.0]])).tolist()
            [[0.5, 0.5]]
        """
        if self.kind == "regression":
            return logits[:, :0]
        if self.kind == "multiclass":
            return logits.softmax(dim=-1)
        positive = logits.sigmoid()
        return torch.cat([1 - positive, positive], dim=-1) if self.kind == "binary" else positive

    def decide(self, logits: Tensor) -> Tensor:
        """Turn logits into predictions.

        Args:
            logits: Outputs of a model, ``[G, num_logits]``.

        Returns:
            The predicted classes, ``[G]`` long; labels, ``[G, T]`` long; or numbers, float ``[G]``
            or, of several, ``[G, T]``.
        """
        if self.kind == "regression":
            return self.in_units(logits[:, 0] if self.classes == 1 else logits)
        if self.kind == "multiclass":
            return logits.argmax(dim=-1)
        decided = (logits > 0).long()
        return decided[:, 0] if self.kind == "binary" else decided

    def in_units(self, logits: Tensor) -> Tensor:
        """Turn the outputs of a regression into numbers in the units of the labels.

        Args:
            logits: Outputs of a model, ``[…, T]``, or of one number of any shape.

        Returns:
            The numbers, the same shape.
        """
        if isinstance(self.centre, tuple) or isinstance(self.scale, tuple):
            return logits * logits.new_tensor(self.scale) + logits.new_tensor(self.centre)
        return logits * self.scale + self.centre

    def scores(self, logits: Tensor, y: Tensor) -> dict[str, float | None]:
        """Compute the task's metrics.

        Args:
            logits: Outputs of a model, ``[G, num_logits]``.
            y: Labels, as in :meth:`loss`.

        Returns:
            Metrics by name, ``None`` where undefined: accuracy or ROC AUC as fractions; in a
            regression R², the mean absolute and the root mean squared error, of several numbers
            the mean of each.
        """
        if self.metric == "roc_auc":
            return {"roc_auc": metrics.roc_auc(logits.numpy(force=True), y.numpy(force=True))}
        predicted = self.decide(logits).numpy(force=True)
        if self.kind == "regression":
            measures = {"r2": metrics.r2, "mae": metrics.mae, "rmse": metrics.rmse}
            pairs = list(zip(predicted.reshape(len(y), -1).T, y.numpy(force=True).T, strict=True))
            return {name: _mean([m(*pair) for pair in pairs]) for name, m in measures.items()}
        target = (y[:, 0] if y.ndim == 2 else y).numpy(force=True)
        return {"accuracy": metrics.accuracy(predicted, target)}

    def score(self, logits: Tensor, y: Tensor) -> float | None:
        """Compute the task's metric: the one of :meth:`scores` that is named ``metric``.

        Args:
            logits: Outputs of a model, ``[G, num_logits]``.
            y: Labels, as in :meth:`loss`.

        Returns:
            The metric, or ``None`` where it is undefined.
        """
        return self.scores(logits, y)[self.metric]

    def merit(self, measured: Mapping[str, Any]) -> float | None:
        """The task's metric, with its sign changed if less is better.

        Args:
            measured: What :meth:`scores` returned.
        """
        value = measured.get(self.metric)
        return -value if value is not None and self.metric in LOWER_IS_BETTER else value

    def as_dict(self) -> dict[str, Any]:
        """The arguments as plain values, for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _numbers(value: float | tuple[float, ...]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


def _mean(values: list[float | None]) -> float | None:
    """The mean of the values that are defined; of one, its own bits."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
