"""Agreement of the explanations of two models: ranks of scores, and hard explanations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gsat.attention import AttentionLevel
from gsat.audit.perturbations import BATCH, ScoredBatch, unit_of
from gsat.graphs import GraphStore
from gsat.metrics import mean_graph_correlation
from gsat.models import InterpretableModel
from gsat.models.interpretable import MAX_EDGES


class Scores(NamedTuple):
    """The scores of the edges or nodes of graphs; undirected edges count once."""

    scores: NDArray[Any]  # [U]
    inside: NDArray[np.bool_]  # the hard explanation [U]
    ptr: NDArray[np.int64]  # first edge or node of each graph [G + 1]


def common_unit(models: Sequence[InterpretableModel]) -> AttentionLevel:
    """The units by which explanations of several models are compared."""
    return "node" if all(unit_of(model) == "node" for model in models) else "edge"


def score_graphs(
    model: InterpretableModel, store: GraphStore, unit: AttentionLevel | None = None
) -> Scores:
    """Score the edges or nodes of graphs."""
    model.check_fits(store)
    device = next(model.parameters()).device
    scores, inside, counts = [], [], []
    unit = unit_of(model) if unit is None else unit
    with model.evaluating(), model.threads():
        for batch in store.batches(BATCH, MAX_EDGES):
            batch = batch.to(device)
            scored = ScoredBatch.explained(batch, model(batch), unit)
            scores.append(scored.scores[scored.once].cpu())
            inside.append(scored.split()[scored.once].cpu())
            counts.append(scored.counts.cpu())
    ptr = np.concatenate([[0], torch.cat(counts).cumsum(0).numpy()])
    return Scores(torch.cat(scores).double().numpy(), torch.cat(inside).numpy(), ptr)


def rank_correlation(one: Scores, two: Scores) -> float | None:
    """The mean rank correlation of two scorings of the same graphs; None where undefined."""
    return mean_graph_correlation(one.scores, two.scores, one.ptr)


def hamming_distance(one: Scores, two: Scores) -> float:
    """The structural Hamming distance (SHD) of hard explanations, as a share of the units."""
    size = np.diff(one.ptr)
    some = size > 0
    differs = np.add.reduceat((one.inside != two.inside).astype(float), one.ptr[:-1][some])
    return float(np.mean(differs / size[some]))


def stability(scored: Sequence[Scores]) -> dict[str, float | None]:
    """Compare a model's explanations with those of other models."""
    pairs = [(one, two) for i, one in enumerate(scored) for two in scored[i + 1 :]]
    values = [rank_correlation(one, two) for one, two in pairs]
    defined = [value for value in values if value is not None]
    return {
        "stable_correlation": float(np.mean(defined)) if defined else None,
        "stable_distance": float(np.mean([hamming_distance(*p) for p in pairs])) if pairs else None,
    }
