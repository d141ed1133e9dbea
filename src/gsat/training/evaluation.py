"""Metrics of predictions and, where the ground truth is known, of explanations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat import metrics
from gsat.core.errors import DataError
from gsat.datasets.load import Dataset
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.build import ranges
from gsat.graphs.subgraph import k_hop_edges
from gsat.metric_names import ATOM_METRICS, EXPLANATION_METRICS
from gsat.models import InterpretableModel, ModelOutput

_PAIRS = 1 << 24  # pairs of a node and an edge in one piece

Score = Callable[[GraphBatch], tuple[ModelOutput, dict[str, Tensor]]]


def measure(
    store: GraphStore,
    model: InterpretableModel,
    score: Score,
    batch_size: int,
    *,
    explains: bool,
    on_scores: Callable[[NDArray[Any]], None] | None = None,
) -> dict[str, Any]:
    """Compute all metrics of a split, as fractions by name, and the losses.

    ``score`` returns the output for a batch, and the losses to average over batches. ``on_scores``
    is called with the edge scores, if the model explains.
    """
    if not len(store):
        raise DataError("the split has no graphs to evaluate")
    task = model.task
    y = torch.from_numpy(store.labels(task.level))
    task.check_labels(y)
    logits, weights, nodes, losses = [], [], [], []
    atoms = store.has("node_sign") and task.level == "graph"
    for batch in store.batches(batch_size):
        output, parts = score(batch)
        logits.append(output.logits.cpu())
        weights.append(output.edge_weight.cpu())
        if atoms:
            p, weight = output.probability, output.edge_weight
            at_nodes = p if model.on == "node" else mean_at_nodes(weight, batch)
            nodes.append(at_nodes.reshape(-1).cpu())
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
    out.update(task.scores(torch.cat(logits), y))
    edge_scores = torch.cat(weights).numpy()
    if on_scores is not None and explains:
        on_scores(edge_scores)
    if not explains:
        out.update(dict.fromkeys(EXPLANATION_METRICS))
    elif task.level == "node":
        out.update(node_explanation_metrics(store, edge_scores, model.hops))
    else:
        out.update(explanation_metrics(store, edge_scores))
    if atoms:
        scores = torch.cat(nodes).numpy()
        out.update(atom_metrics(store, scores) if explains else dict.fromkeys(ATOM_METRICS))
    return out


def mean_at_nodes(edge_scores: Tensor, batch: GraphBatch) -> Tensor:
    """The mean score of the edges at each node, ``[E]`` to ``[N]``; 0 without any."""
    ends = torch.cat([batch.src, batch.dst])
    sums = edge_scores.new_zeros(batch.num_nodes).index_add(0, ends, edge_scores.repeat(2))
    return sums / torch.bincount(ends, minlength=batch.num_nodes).clamp(min=1)


def atom_metrics(store: GraphStore, scores: NDArray[Any]) -> dict[str, float | None]:
    """Measure how well node scores find the nodes that contribute, by iBenchmark's measures."""
    kept, sign, ptr = _annotated_atoms(store, scores)
    truth = (sign != 0).astype(np.float64)
    measured = metrics.mean_graph_auc(kept, truth, ptr), metrics.top_n(kept, truth, ptr)
    return dict(zip(ATOM_METRICS, measured, strict=True))


def signed_atom_metrics(store: GraphStore, scores: NDArray[Any]) -> dict[str, float | None]:
    """Measure how well signed contributions find the nodes that raise the answer or lower it."""
    kept, sign, ptr = _annotated_atoms(store, scores)
    found: dict[str, float | None] = {}
    for name, factor in (("positive", 1), ("negative", -1)):
        truth = (sign == factor).astype(np.float64)
        found[f"{name}_auc"] = metrics.mean_graph_auc(factor * kept, truth, ptr)
        found[f"{name}_top_n"] = metrics.top_n(factor * kept, truth, ptr)
    return found


def _annotated_atoms(
    store: GraphStore, scores: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]:
    """Scores and signs of the nodes of annotated graphs, ``[N']``, and their first nodes."""
    view, scores = _annotated(store, scores, store.node_counts)
    nodes = ranges(view.arrays["node_ptr"][view.index], view.node_counts)
    ptr = np.concatenate([[0], np.cumsum(view.node_counts)])
    return scores, np.asarray(view.arrays["node_sign"][nodes]), ptr


def _annotated(
    store: GraphStore, scores: NDArray[Any], counts: NDArray[Any]
) -> tuple[GraphStore, NDArray[Any]]:
    """The annotated graphs of a store, and their scores; ``counts`` are the scores per graph."""
    if not store.has("annotated"):
        return store, scores
    used = store.per_graph("annotated").astype(bool)
    return store.select(used), scores[np.repeat(used, counts)]


def node_explanation_metrics(
    store: GraphStore, scores: NDArray[Any], hops: int
) -> dict[str, float | None]:
    """Measure how well edge scores find the true edges, node by node.

    The protocol of GNNExplainer and PGExplainer: every node of a motif (``node_truth``) that is
    among the targets is explained within its own computation graph; the edges of all these graphs
    are pooled, so an edge counts once for each node that sees it.
    """
    if not store.has("edge_truth") or not store.has("node_truth"):
        return dict.fromkeys(EXPLANATION_METRICS)
    seen, counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    first = 0
    for position, edges in enumerate(store.edge_counts):
        batch = store.batch([position])
        assert batch.node_truth is not None
        nodes = batch.at_targets(torch.arange(batch.num_nodes))
        nodes = nodes[batch.node_truth[nodes] > 0]
        for some in nodes.split(max(1, _PAIRS // max(1, int(edges)))):
            inside = k_hop_edges(batch.edge_index, some, hops, batch.num_nodes)
            seen.append(inside.nonzero()[:, 1].numpy() + first)
            counts.append(inside.sum(dim=1).numpy())
        first += edges
    rows = np.concatenate(seen)
    truth = store.arrays["edge_truth"][_edges(store)]
    return _explanation(scores[rows], truth[rows], np.concatenate(counts))


def explanation_metrics(store: GraphStore, scores: NDArray[Any]) -> dict[str, float | None]:
    """Measure how well edge scores find the true edges of a split.

    Where the store marks graphs as ``annotated`` or not, only the annotated ones count.
    """
    if not store.has("edge_truth"):
        return dict.fromkeys(EXPLANATION_METRICS)
    view, scores = _annotated(store, scores, store.edge_counts)
    return _explanation(scores, view.arrays["edge_truth"][_edges(view)], view.edge_counts)


def _explanation(
    scores: NDArray[Any], truth: NDArray[Any], counts: NDArray[Any]
) -> dict[str, float | None]:
    """The metrics of scores and truth, ``[E]``; each explanation has ``counts`` edges, ``[G]``."""
    ptr = np.concatenate([[0], np.cumsum(counts)])
    auc = metrics.explanation_auc(scores, truth)
    precision = metrics.precision_at_k(scores, truth, ptr, k=5) if truth.any() else None
    mean = metrics.mean_graph_auc(scores, truth, ptr)
    return dict(zip(EXPLANATION_METRICS, (auc, mean, precision), strict=True))


def evaluate(
    model: InterpretableModel,
    data: Dataset | GraphStore,
    split: str = "test",
    *,
    batch_size: int = 256,
) -> dict[str, Any]:
    """Measure a model's predictions, and its explanations where the ground truth is known.

    Args:
        model: A trained model.
        data: A data set, or the graphs to measure it on.
        split: Which graphs of a data set. (default: ``"test"``)
        batch_size: Graphs per batch; losses are means over batches. (default: ``256``)

    Returns:
        Metrics by name, as fractions; None where one is undefined.

    Raises:
        DataError: If the graphs don't fit the model, or a prediction is not a finite number.
    """
    store = data.split(split) if isinstance(data, Dataset) else data

    def score(batch: GraphBatch) -> tuple[ModelOutput, dict[str, Tensor]]:
        output = model(batch)
        assert batch.y is not None
        return output, {"loss": model.task.loss(output.logits, batch.y)}

    model.check_fits(store)
    with model.evaluating():
        try:
            return measure(store, model, score, batch_size, explains=model.explains)
        except FloatingPointError as error:
            raise DataError(f"the model's {error}; check the features for NaN") from None


def _edges(store: GraphStore) -> NDArray[np.int64]:
    """The stored edges of a view."""
    return ranges(store.arrays["edge_ptr"][store.index], store.edge_counts)
