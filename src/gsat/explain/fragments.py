"""Explanations of molecules by chemically whole fragments, each with a signed effect.

The score of a fragment comes from the scores of its bonds. Its effect is the model's answer for the
molecule minus its answer for the molecule without the fragment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.graphs import GraphStore
from gsat.graphs.subgraph import node_subgraph
from gsat.models import InterpretableModel
from gsat.molecules.fragments import Fragment, fragments
from gsat.tasks import Task

if TYPE_CHECKING:
    from gsat.explanation import Explanation

# Atoms that one molecule's effects may send through the model; drugs need about a thousand.
_MOST_NODES: Final = 1 << 16
_MAX_NODES: Final = 1 << 13  # of one batch of molecules without a fragment: it fits the cache


@dataclass(frozen=True)
class ScoredFragment(Fragment):
    """A fragment of an explained molecule."""

    # Mean score of its atoms, where the model attends to nodes; else of its bonds, or of the bonds
    # to its neighbours if it has none inside. 0 for an atom without bonds.
    score: float
    total: float  # sum of these scores; both directions of a bond count once
    used: bool  # whether it is in the explanation
    # Change of the probability of each class or label (or of the predicted number) by the fragment;
    # None if it is the whole molecule, or not measured.
    effects: tuple[float, ...] | None = None
    # The same in natural log-odds, which change also at probabilities near 0 and 1; None in a
    # regression.
    log_odds: tuple[float, ...] | None = None

    @property
    def fragment(self) -> Fragment:
        """Former place of the name, atoms and SMILES."""
        return self


def score_fragments(explanation: Explanation, molecule: Any) -> list[ScoredFragment]:
    """Sum scores up to chemically whole fragments.

    A fragment is in the explanation if its score is above the middle between the lowest and the
    highest score of the molecule and, where the model has a prior, above r.
    """
    ends = explanation.edge_index.numpy(force=True)
    node_mask = explanation.get("node_mask")
    scores = (explanation.edge_mask if node_mask is None else node_mask[:, 0]).numpy(force=True)
    scores = scores.astype(np.float64)
    once = 0.5 if node_mask is None and explanation.undirected else 1.0
    limit = _limit(explanation, scores)
    member = np.zeros(molecule.GetNumAtoms(), dtype=bool)
    order = np.argsort(ends, axis=None, kind="stable")  # the ends of edges, by atom
    start = np.searchsorted(ends.reshape(-1)[order], np.arange(len(member) + 1))
    out = []
    for fragment in fragments(molecule):
        atoms = list(fragment.atoms)
        if node_mask is None:
            places = np.concatenate([order[start[i] : start[i + 1]] for i in atoms])
            touching = np.unique(places % ends.shape[1])
            member[atoms] = True
            inside = touching[member[ends[:, touching]].all(axis=0)]
            member[atoms] = False
            part = scores[inside if len(inside) else touching]
        else:
            part = scores[atoms]
        score = float(part.mean()) if len(part) else 0.0
        out.append(
            ScoredFragment(
                **vars(fragment), score=score, total=float(part.sum()) * once, used=score > limit
            )
        )
    return sorted(out, key=lambda fragment: -fragment.score)


def _limit(explanation: Explanation, scores: NDArray[np.float64]) -> float:
    if not explanation.found:
        return np.inf
    middle = float(scores.min() + scores.max()) / 2
    return middle if explanation.get("r") is None else max(middle, float(explanation.r))


def outputs(task: Task, logits: Tensor) -> NDArray[np.float64]:
    """Turn logits into what effects are measured in."""
    values = task.probabilities(logits)
    if values.shape[1] == 0:
        values = task.decide(logits).reshape(len(logits), -1)
    return values.numpy(force=True).astype(np.float64)


def log_odds(task: Task, logits: Tensor) -> NDArray[np.float64] | None:
    """Turn logits into log-odds: log p / (1 − p) of every class or label."""
    if task.kind == "regression":
        return None
    values = logits.double()
    if task.kind == "binary":
        values = torch.cat([-values, values], dim=1)
    elif task.kind == "multiclass":  # against all other classes together
        same = torch.eye(values.shape[1], dtype=torch.bool, device=values.device)
        others = values[:, None, :].masked_fill(same, -torch.inf).logsumexp(dim=2)
        values = values - others
    return values.numpy(force=True)


def measure_effects(
    model: InterpretableModel,
    graphs: GraphStore,
    fragments: Sequence[Sequence[ScoredFragment]],
    logits: Tensor,
) -> list[list[ScoredFragment]]:
    """Measure the effect of every fragment: the answer with it minus the answer without it.

    The atoms of the fragment and their bonds are taken out of the graph; the other atoms keep their
    features. All molecules without one of their fragments are one stream of batches. In very large
    molecules, only the effects of the fragments with the highest scores are measured.
    """
    sizes = graphs.node_counts.tolist()
    places = [
        (graph, place)
        for graph, listed in enumerate(fragments)
        for place, fragment in enumerate(listed[: max(1, _MOST_NODES // sizes[graph])])
        if len(fragment.atoms) < sizes[graph]
    ]
    out = [list(listed) for listed in fragments]
    if not places:
        return out
    without = []
    with model.evaluating(), model.threads():
        device = next(model.parameters()).device
        for first, last in _chunks([sizes[graph] for graph, _ in places]):
            chunk = places[first:last]
            batch = graphs.batch([graph for graph, _ in chunk])
            keep = torch.ones(batch.num_nodes, dtype=torch.bool)
            for start, (graph, place) in zip(batch.node_ptr.tolist(), chunk, strict=False):
                keep[[start + atom for atom in fragments[graph][place].atoms]] = False
            part = node_subgraph(batch, keep)[0].to(device)
            without.append(model.predict_batch(part).cpu())
    whole, rest = logits.cpu()[[graph for graph, _ in places]], torch.cat(without)
    effects = (outputs(model.task, whole) - outputs(model.task, rest)).tolist()
    before, after = log_odds(model.task, whole), log_odds(model.task, rest)
    changes = None if before is None or after is None else (before - after).tolist()
    for number, (graph, place) in enumerate(places):
        out[graph][place] = replace(
            out[graph][place],
            effects=tuple(effects[number]),
            log_odds=None if changes is None else tuple(changes[number]),
        )
    return out


def _chunks(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Cut a list of graphs, given their sizes, into batches."""
    ends = np.cumsum(sizes)
    out, first = [], 0
    while first < len(sizes):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _MAX_NODES, side="right")))
        out.append((first, last))
        first = last
    return out
