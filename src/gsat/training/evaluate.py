"""Metrics of a model on a split: prediction, and explanation where the truth is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat import metrics
from gsat.errors import DataError
from gsat.graphs import GraphBatch, GraphStore
from gsat.models import Attended, InterpretableModel
from gsat.tasks import Task

Score = Callable[[GraphBatch], tuple[Attended, dict[str, Tensor]]]


def evaluate(
    store: GraphStore, task: Task, score: Score, batch_size: int, explains: bool = True
) -> dict[str, Any]:
    """All metrics of a split, as fractions; None where one is undefined.

    Args:
        score: gives what the model says of a batch and the losses to average over batches.
        explains: whether its edge scores mean anything.

    Raises:
        FloatingPointError: the model says something that is not a finite number.
    """
    if not len(store):
        raise DataError("the split has no graphs to evaluate")
    if not store.has("y"):
        raise DataError("the graphs have no labels 'y' to evaluate against")
    y = torch.from_numpy(store.per_graph("y"))
    task.check_labels(y)
    logits, weights, losses = [], [], []
    for batch in store.batches(batch_size):
        said, parts = score(batch)
        logits.append(said.logits.cpu())
        weights.append(said.edge_weight.cpu())
        losses.append({name: float(value) for name, value in parts.items()})
    for name, found in (("predictions", logits), ("edge scores", weights)):
        if not all(bool(part.isfinite().all()) for part in found):
            raise FloatingPointError(f"{name} are NaN or infinite")
    if not np.isfinite([value for loss in losses for value in loss.values()]).all():
        raise FloatingPointError("losses are NaN or infinite")
    out: dict[str, Any] = {
        # Unweighted over batches, as published; it breaks ties between epochs.
        name: float(np.mean([loss[name] for loss in losses]))
        for name in losses[0]
    }
    out[task.metric] = task.score(torch.cat(logits), y)
    out.update(explanation_metrics(store, torch.cat(weights).numpy() if explains else None))
    return out


def explanation_metrics(store: GraphStore, scores: NDArray[Any] | None) -> dict[str, float | None]:
    """How well edge scores [E] (stored order) find the true edges of a split.

    Where graphs say whether they are ``annotated``, only those that are count.
    """
    names = ("explanation_auc", "mean_graph_auc", "precision_at_5")
    if scores is None or not store.has("edge_truth"):
        return dict.fromkeys(names)
    counts = store.edge_counts
    used = store.per_graph("annotated").astype(bool) if store.has("annotated") else None
    view = store
    if used is not None and not used.all():
        scores = scores[np.repeat(used, counts)]
        view = store.select(used)
        counts = counts[used]
    truth = view.arrays["edge_truth"][_edges(view)]
    ptr = np.concatenate([[0], np.cumsum(counts)])
    auc = metrics.explanation_auc(scores, truth)
    precision = metrics.precision_at_k(scores, truth, ptr, k=5) if truth.any() else None
    return dict(
        zip(names, (auc, metrics.mean_graph_auc(scores, truth, ptr), precision), strict=True)
    )


def evaluate_model(
    model: InterpretableModel, store: GraphStore, batch_size: int = 256
) -> dict[str, Any]:
    """Metrics of a trained model on a split, without losses of training."""

    def score(batch: GraphBatch) -> tuple[Attended, dict[str, Tensor]]:
        said = model(batch)
        assert batch.y is not None
        return said, {"loss": model.task.loss(said.logits, batch.y)}

    model.check_fits(store)
    with model.evaluating():
        try:
            return evaluate(store, model.task, score, batch_size, model.explains)
        except FloatingPointError as error:
            raise DataError(f"the model's {error}; look for NaN in the features") from None


def _edges(store: GraphStore) -> NDArray[np.int64]:
    from gsat.graphs.store import ranges

    return ranges(store.arrays["edge_ptr"][store.index], store.edge_counts)
