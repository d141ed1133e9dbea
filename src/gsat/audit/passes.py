"""The questions of an audit: a model's predictions with edges or nodes kept, removed or resampled.

Two kinds of questions. *By attention*: the model gets the whole graph, and a number from 0 to 1 as
the attention of each edge or node, at its own level. It predicts as it does in training, and a
network that is explained afterwards predicts with weighted messages. Models that can't predict
under given attention (DIR, plug-ins) get the graph without the edges.
*Cut*: the whole model, extractor included, gets a real subgraph. It can't see what was removed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.audit.masks import ScoredBatch, unit_of
from gsat.audit.settings import AuditSettings
from gsat.core.errors import DataError
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.subgraph import subgraph
from gsat.launch.progress import Progress
from gsat.models import InterpretableModel
from gsat.models.interpretable import MAX_EDGES
from gsat.ops import Draws

BATCH = 256  # graphs at a time
_NEAR = 1e-4  # scores this close to 0 or 1 are moved away from it, to have a finite logit

Explain = Callable[[ScoredBatch], Tensor]


@dataclass(frozen=True)
class Answers:
    """The predictions for M graphs (or nodes) by question, and the scores of their units.

    Attributes:
        logits: By question, ``[K, M, num_logits]`` for its K variants; see :func:`ask`.
        labels: The labels as the task reads them; None where they are unknown.
        scores: The score of each unit (edge or node), ``[U]``.
        again: The scores when the attended graphs are explained, ``[U]``; None where the model
            can't explain them.
        inside: Whether each unit is in the hard explanation, ``[U]``.
        ptr: First unit of each graph, ``[G + 1]``.
    """

    logits: dict[str, Tensor]
    labels: Tensor | None
    scores: NDArray[np.float64]
    again: NDArray[np.float64] | None
    inside: NDArray[np.bool_]
    ptr: NDArray[np.int64]


class Predictor:
    """A model, asked about graphs of which edges or nodes are kept or removed.

    Attributes:
        model: The model.
    """

    def __init__(self, model: InterpretableModel) -> None:
        self.model = model

    def attended(self, batch: GraphBatch, weight: Tensor) -> Tensor:
        """Predict under given attention; without a model that can, remove edges without it."""
        if self.model.answers:
            return self.model.answer(batch, weight.to(torch.float32))
        everything = torch.ones(batch.num_nodes, dtype=torch.bool, device=weight.device)
        return self.cut(batch, everything, weight > 0)

    def cut(self, batch: GraphBatch, nodes: Tensor, edges: Tensor) -> Tensor:
        """Predict for a part of each graph."""
        part, _ = subgraph(batch, nodes, edges)
        return self.model.predict_batch(replace(part, targets=batch.targets))


def ask(
    model: InterpretableModel,
    store: GraphStore,
    explain: Explain,
    settings: AuditSettings,
    progress: Progress,
) -> Answers:
    """Ask a model all questions of an audit."""
    model.check_fits(store)
    device = next(model.parameters()).device
    unit, predictor = unit_of(model), Predictor(model)
    gathered: dict[str, list[Tensor]] = {}
    scores, again, inside, counts = [], [], [], []
    progress.start(len(store))
    try:
        with model.evaluating(), model.threads():
            for batch in store.batches(BATCH, MAX_EDGES):
                batch = batch.to(device)
                output = model(batch)
                if not output.logits.isfinite().all() or not output.edge_weight.isfinite().all():
                    raise DataError(
                        "an answer or a score of the model is not a number; look for NaN or "
                        "infinity in the features of the graphs"
                    )
                scored = ScoredBatch.explained(batch, output, unit)
                chosen = explain(scored)
                asked = _questions(predictor, scored, output.attention, chosen, settings)
                for name, logits in {**asked, "own": output.logits[None]}.items():
                    gathered.setdefault(name, []).append(logits.cpu())
                scores.append(scored.scores[scored.once].cpu())
                inside.append(chosen[scored.once].cpu())
                counts.append(scored.counts.cpu())
                if model.rescores:
                    new = scored.both(model.rescore(batch, scored.scores))
                    again.append(new[scored.once].cpu())
                progress.advance(steps=batch.num_graphs)
    finally:
        progress.stop()
    level = model.task.level
    known = store.has("node_y" if level == "node" else "y")
    return Answers(
        {name: torch.cat(parts, dim=1) for name, parts in gathered.items()},
        torch.from_numpy(np.asarray(store.labels(level))) if known else None,
        torch.cat(scores).double().numpy(),
        torch.cat(again).double().numpy() if again else None,
        torch.cat(inside).numpy(),
        np.concatenate([[0], torch.cat(counts).cumsum(0).numpy()]),
    )


def _questions(
    predictor: Predictor,
    scored: ScoredBatch,
    attention: Tensor,
    chosen: Tensor,
    settings: AuditSettings,
) -> dict[str, Tensor]:
    """The logits of one batch by question, ``[K, M, num_logits]`` each."""
    batch, model, draws = scored.batch, predictor.model, Draws(settings.seed, "audit")
    # With refinement or snapshots, the scores differ from the attention of the prediction.
    decides = model.answers and model.attention_decides
    own = scored.both(attention) if decides else scored.scores

    def attended(*weights: Tensor) -> Tensor:
        return torch.stack([predictor.attended(batch, weight) for weight in weights])

    def uniform(*purpose: object) -> Tensor:
        return scored.uniform(draws.child(*purpose))

    def extended(kept: Tensor, number: int) -> Tensor:
        return _extended(predictor, scored, kept, settings.est_keep, draws.child("est", number))

    tops = [scored.top(share) for share in settings.shares]
    orders = [uniform("order", number) for number in range(settings.orders)]
    randoms = [scored.top(share, order) for order in orders for share in settings.shares]
    numbers = range(settings.draws)
    less = [~(chosen & (uniform("rfid+", n) < settings.rfid_remove)) for n in numbers]
    more = [chosen | (uniform("rfid-", n) < settings.rfid_keep) for n in numbers]
    level = scored.mean(own, among=~chosen)
    redrawn = [uniform("redrawn", n) < level for n in numbers]
    alike = [scored.as_many(chosen, uniform("alike", n)) for n in numbers]
    out = {
        "inside": attended(chosen),
        "outside": attended(~chosen),
        "less": attended(*less),
        "more": attended(*more),
        "rest_redrawn": attended(*(chosen | kept for kept in redrawn)),
        "explanation_redrawn": attended(*(~chosen | kept for kept in redrawn)),
        "extended": torch.stack([extended(chosen, n) for n in range(settings.est_budget)]),
        "random_extended": torch.stack([extended(other, n) for n, other in enumerate(alike)]),
    }
    if tops:
        out["kept"], out["removed"] = attended(*tops), attended(*(~mask for mask in tops))
        out["random_kept"] = attended(*randoms)
        out["random_removed"] = attended(*(~mask for mask in randoms))
    if model.answers:
        centre, spread = _logits_by_graph(scored, own)
        out["drawn"] = attended(
            *(
                torch.sigmoid(centre + spread * torch.special.ndtri(uniform("attention", n)))
                for n in numbers
            )
        )
    if decides:
        prior = scored.mean(own) if model.r is None else torch.full_like(own, model.r)
        out["attended"] = attended(attention)
        out["rest_levelled"] = attended(torch.where(chosen, own, level))
        out["explanation_levelled"] = attended(torch.where(chosen, level, own))
        out["zero"], out["prior"] = attended(torch.zeros_like(own)), attended(prior)
    return out


def _logits_by_graph(scored: ScoredBatch, attention: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of the logits of a graph's attention, at each row, ``[L]`` each."""
    logits = torch.logit(attention, eps=_NEAR)
    centre = scored.mean(logits)
    return centre, scored.mean((logits - centre).square()).sqrt()


def _extended(
    predictor: Predictor, scored: ScoredBatch, chosen: Tensor, keep: float, draws: Draws
) -> Tensor:
    """A draw of EST: the chosen units, and random nodes and edges of the rest of the graph."""
    batch, of_nodes = scored.batch, scored.unit == "node"
    if predictor.model.task.level == "graph":
        nodes = draws.child("nodes").uniform(batch.node_id) < keep
        if of_nodes:
            nodes |= chosen
            return predictor.cut(batch, nodes, nodes[batch.src] & nodes[batch.dst])
        nodes[batch.src[chosen]] = True
        nodes[batch.dst[chosen]] = True
    else:  # every target node has a prediction, so all nodes stay
        nodes = torch.ones(batch.num_nodes, dtype=torch.bool, device=chosen.device)
    edges = nodes[batch.src] & nodes[batch.dst]
    kept = chosen[batch.src] & chosen[batch.dst] if of_nodes else chosen
    pairs = torch.minimum(batch.edge_id, batch.edge_id[batch.pair])
    kept = kept | (edges & (draws.child("edges").uniform(pairs) < keep))
    return predictor.cut(batch, nodes, kept)
