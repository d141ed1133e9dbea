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

    Methods take ``logits``, the outputs of a model ``[G, num_logits]``, and labels ``y``, whose
    shape depends on ``kind``.

    Args:
        kind: ``"binary"`` (one logit, ``y`` float ``[G, 1]``), ``"multiclass"`` (``y`` long
            ``[G]``), ``"multilabel"`` (one logit per label, ``y`` float ``[G, T]``, NaN where
            missing) or ``"regression"`` (numbers, ``y`` float ``[G, T]``, NaN where missing).
        classes: Number of classes; of labels if multi-label; of numbers in a regression.
            (default: 2, in a regression 1)
        metric: The reported metric, which also selects the best epoch: ``"accuracy"`` or
            ``"roc_auc"``; in a regression ``"r2"``, ``"mae"`` or ``"rmse"``, averaged over several
            numbers. (default: ``"accuracy"``)
        level: What has labels, ``"graph"`` or ``"node"``. (default: ``"graph"``)
        centre: In a regression, the number subtracted from ``y``, or one for each number; best the
            mean of the training set. (default: 0)
        scale: In a regression, the number that ``y - centre`` is divided by, or one for each
            number; best the standard deviation of the training set. The network predicts
            ``(y - centre) / scale``, and the loss is computed on that, so that it does not depend
            on the unit of ``y``. (default: 1)
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
    classes: int = None  # type: ignore[assignment]  # the default depends on the kind
    metric: Metric = "accuracy"
    level: Level = "graph"
    centre: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = 1.0
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.classes is None:
            object.__setattr__(self, "classes", 1 if self.kind == "regression" else 2)
        for name in ("centre", "scale", "weights"):  # JSON has lists
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
                f"weights must be {self.classes} numbers above 0, one per class or label (a "
                f"regression has none), not {self.weights}"
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
        """Number of outputs of a model per graph or node."""
        return 1 if self.kind == "binary" else self.classes

    def check_labels(self, y: Tensor) -> None:
        """Raise unless labels are valid.

        Raises:
            DataError: If their shape, type or a value is wrong; the message names the first graph
                or node.
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
        """Average the loss over the labels that are present; 0 if there are none."""
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
        """The weight of each of the ``M`` labels that are present."""
        weights = torch.tensor(self.weights, device=y.device)
        if self.kind == "multiclass":
            return weights[y]
        if self.kind == "binary":
            each = torch.where(y > 0, weights[1], weights[0])
        else:
            each = torch.where(y > 0, weights, torch.ones_like(weights))
        return each[~torch.isnan(y)]

    def losses(self, logits: Tensor, y: Tensor) -> Tensor:
        """Compute the unweighted losses of the ``M`` labels that are present, without averaging.

        Args:
            logits: ``K`` outputs for the same graphs or nodes, ``[K, G, num_logits]``.
            y: Labels of these graphs or nodes.

        Returns:
            ``[K, M]``.
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
        """Average the loss over the labels of each graph or node, ``[G]``; 0 without labels."""
        if self.kind == "multiclass":
            return F.cross_entropy(logits, y, reduction="none")
        present = ~torch.isnan(y)
        target = y.nan_to_num().to(logits.dtype)
        if self.kind == "regression":
            each = (logits - self._standardised(target)).square()
        else:
            each = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        return (each * present).sum(dim=1) / present.sum(dim=1).clamp(min=1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Turn logits into probabilities.

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

        Returns:
            Classes ``[G]`` long; labels ``[G, T]`` long; or numbers, float ``[G]`` or ``[G, T]``.
        """
        if self.kind == "regression":
            return self.in_units(logits[:, 0] if self.classes == 1 else logits)
        if self.kind == "multiclass":
            return logits.argmax(dim=-1)
        decided = (logits > 0).long()
        return decided[:, 0] if self.kind == "binary" else decided

    def in_units(self, logits: Tensor) -> Tensor:
        """Turn outputs of a regression, ``[…, T]``, into numbers in the units of the labels."""
        if isinstance(self.centre, tuple) or isinstance(self.scale, tuple):
            return logits * logits.new_tensor(self.scale) + logits.new_tensor(self.centre)
        return logits * self.scale + self.centre

    def scores(self, logits: Tensor, y: Tensor) -> dict[str, float | None]:
        """Compute the task's metrics.

        Returns:
            Metrics by name, ``None`` where undefined: accuracy or ROC AUC as fractions; in a
            regression ``r2``, ``mae`` and ``rmse``, each averaged over the predicted numbers.
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
        """Compute the task's own metric; ``None`` where it is undefined."""
        return self.scores(logits, y)[self.metric]

    def merit(self, measured: Mapping[str, Any]) -> float | None:
        """The task's metric among measured ones, with its sign changed if lower is better."""
        value = measured.get(self.metric)
        return -value if value is not None and self.metric in LOWER_IS_BETTER else value

    def as_dict(self) -> dict[str, Any]:
        """The arguments as plain values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def _numbers(value: float | tuple[float, ...]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


def _mean(values: list[float | None]) -> float | None:
    """The mean of the values that are defined."""
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None
