"""How far two models agree on an explanation: ranks of edges, and hard explanations."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gsat.explain.audit_masks import ScoredBatch
from gsat.explain.audit_passes import BATCH
from gsat.graphs import GraphStore
from gsat.metrics import mean_graph_correlation
from gsat.models import InterpretableModel
from gsat.models.interpretable import MAX_EDGES
from gsat.ops import exclusive_threads


class Scores(NamedTuple):
    """The scores of graphs' edges, undirected ones once.

    Attributes:
        scores: The score of each edge, ``[U]``.
        inside: Whether it is in the hard explanation, ``[U]``.
        ptr: First edge of each graph, ``[G + 1]``.
    """

    scores: NDArray[Any]
    inside: NDArray[np.bool_]
    ptr: NDArray[np.int64]


def score_graphs(model: InterpretableModel, store: GraphStore) -> Scores:
    """Score the edges of graphs.

    Args:
        model: The model.
        store: The graphs.

    Returns:
        The scores, and the upper of the two groups that those of each graph fall into.
    """
    model.check_fits(store)
    device = next(model.parameters()).device
    scores, inside, counts = [], [], []
    threads = exclusive_threads() if model.backbone.in_kernels else nullcontext()
    with model.evaluating(), threads:
        for batch in store.batches(BATCH, MAX_EDGES):
            batch = batch.to(device)
            scored = ScoredBatch.of(batch, model(batch).edge_weight)
            scores.append(scored.scores[scored.once].cpu())
            inside.append(scored.split()[scored.once].cpu())
            counts.append(scored.counts.cpu())
    ptr = np.concatenate([[0], torch.cat(counts).cumsum(0).numpy()])
    return Scores(torch.cat(scores).double().numpy(), torch.cat(inside).numpy(), ptr)


def rank_correlation(one: Scores, two: Scores) -> float | None:
    """The mean rank correlation of two scorings of the same graphs; None where undefined.

    Args:
        one: Scores.
        two: Scores of the same graphs.
    """
    return mean_graph_correlation(one.scores, two.scores, one.ptr)


def hamming_distance(one: Scores, two: Scores) -> float:
    """The structural Hamming distance (SHD) of hard explanations, as a share of the edges.

    Args:
        one: Scores.
        two: Scores of the same graphs.

    Returns:
        The mean over graphs of the share of edges that one explanation has and the other lacks.
    """
    size = np.diff(one.ptr)
    some = size > 0
    differs = np.add.reduceat((one.inside != two.inside).astype(float), one.ptr[:-1][some])
    return float(np.mean(differs / size[some]))


def stability(scored: Sequence[Scores]) -> dict[str, float | None]:
    """Compare a model's explanations with those of other models.

    Args:
        scored: The scores of the model, then those of snapshots of it, of the other members of
            its ensemble or of other runs, on the same graphs.

    Returns:
        ``stable_correlation``, the mean rank correlation over all pairs, and ``stable_distance``,
        their mean structural Hamming distance; None with fewer than two, or where undefined.
    """
    pairs = [(one, two) for i, one in enumerate(scored) for two in scored[i + 1 :]]
    found = [rank_correlation(one, two) for one, two in pairs]
    known = [value for value in found if value is not None]
    return {
        "stable_correlation": float(np.mean(known)) if known else None,
        "stable_distance": float(np.mean([hamming_distance(*p) for p in pairs])) if pairs else None,
    }
