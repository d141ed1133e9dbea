"""What an audit asks a model: its answers for graphs of which edges were kept, removed or redrawn.

Two kinds of questions. *By attention*: the predictor gets the whole graph, and 0 or 1 (or a random
number) as the attention of each edge; all nodes stay. It is what the predictor of GSAT sees in
training, and for a network explained afterwards it is that network with masked messages. Other
models (DIR, IB-subgraph, plug-ins) have no such predictor: they get the graph without the edges.
*Cut*: the whole model, extractor included, gets a real subgraph; what was removed is not there, and
can't be seen by anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.errors import DataError
from gsat.explain.audit_masks import ScoredBatch
from gsat.explain.audit_settings import AuditSettings
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.subgraph import subgraph
from gsat.gsat import GSAT
from gsat.launch.progress import Progress
from gsat.methods.erm import PlainModel
from gsat.methods.post_hoc import PostHocModel
from gsat.models import InterpretableModel
from gsat.models.interpretable import MAX_EDGES
from gsat.ops import Draws, exclusive_threads

BATCH = 256  # graphs at a time
_NEAR = 1e-4  # scores this close to 0 or 1 are moved away from it, to have a finite logit

Explain = Callable[[ScoredBatch], Tensor]


@dataclass(frozen=True)
class Answers:
    """The logits of M graphs (or nodes) to all questions, and the scores of their edges.

    Attributes:
        logits: By question, ``[K, M, num_logits]`` for its K variants; see :func:`ask`.
        labels: What is true, as a task reads it; None where it is not known.
        scores: The score of each edge, undirected ones once, ``[U]``.
        again: What the explained graphs are scored when explained again, ``[U]``; None where a
            model can't be asked.
        inside: Which of them the hard explanation has, ``[U]``.
        ptr: First edge of each graph, ``[G + 1]``.
    """

    logits: dict[str, Tensor]
    labels: Tensor | None
    scores: NDArray[np.float64]
    again: NDArray[np.float64] | None
    inside: NDArray[np.bool_]
    ptr: NDArray[np.int64]


class Predictor:
    """A model, asked about graphs with changed edges.

    Args:
        model: The model.

    Attributes:
        model: The model.
        attends: Whether its predictor takes attention; else edges are removed from the graph.
    """

    def __init__(self, model: InterpretableModel) -> None:
        self.model = model
        self.attends = isinstance(model, GSAT | PostHocModel | PlainModel)

    def attended(self, batch: GraphBatch, weight: Tensor) -> Tensor:
        """Answer with this attention to the edges.

        Args:
            batch: The graphs.
            weight: A number from 0 to 1 for each edge, or which to keep, ``[E]``.

        Returns:
            Logits, a row per graph or target node.
        """
        if self.attends:
            return self.model.backbone(batch, attention=weight.to(torch.float32))
        return self.cut(batch, torch.ones(batch.num_nodes, dtype=torch.bool), weight > 0)

    def cut(self, batch: GraphBatch, nodes: Tensor, edges: Tensor) -> Tensor:
        """Answer for a part of each graph.

        Args:
            batch: The graphs.
            nodes: Which nodes to keep, ``[N]`` bool; all of them at node level.
            edges: Which edges to keep, ``[E]`` bool.

        Returns:
            Logits, a row per graph or target node.
        """
        part, _ = subgraph(batch, nodes.to(edges.device), edges)
        part = replace(part, targets=batch.targets)
        if isinstance(self.model, PostHocModel | PlainModel):
            return self.model.backbone(part)  # its answer needs no explanation
        logits: Tensor = self.model(part).logits
        return logits


def ask(
    model: InterpretableModel,
    store: GraphStore,
    explain: Explain,
    settings: AuditSettings,
    progress: Progress,
) -> Answers:
    """Ask a model all questions of an audit.

    Args:
        model: The model.
        store: The graphs.
        explain: Makes the hard explanation of each graph, ``[E]`` bool.
        settings: Parameters of the audit.
        progress: Shows how far it is; a step per graph.

    Returns:
        The answers: ``own``, to the whole graph; ``kept`` and ``removed``, with the highest-scored
        share of edges alone and without it, for each share; ``random_kept`` and
        ``random_removed``, with random edges instead, for each order and share; ``inside`` and
        ``outside``, with the hard explanation alone and without it; ``less`` and ``more``, the
        draws of RFid+ and RFid-; ``rest_redrawn`` and ``explanation_redrawn``, where one of the two
        is whole and of the other each edge stays with the mean score of the rest;
        ``rest_levelled`` and ``explanation_levelled``, where that mean takes the place of the
        scores of one of the two, and the others are as they are (of GSAT); ``drawn``, with
        random attention; ``extended``, the draws of EST; ``random_extended``, the same for random
        edges in place of the explanation.

    Raises:
        DataError: If graphs do not fit the model, or an answer is not a number.
    """
    model.check_fits(store)
    device = next(model.parameters()).device
    gathered: dict[str, list[Tensor]] = {}
    scores, again, inside, counts = [], [], [], []
    threads = exclusive_threads() if model.backbone.in_kernels else nullcontext()
    progress.start(len(store))
    try:
        with model.evaluating(), threads:
            for batch in store.batches(BATCH, MAX_EDGES):
                batch = batch.to(device)
                output = model(batch)
                if not output.logits.isfinite().all() or not output.edge_weight.isfinite().all():
                    raise DataError(
                        "an answer or a score of the model is not a number; look for NaN or "
                        "infinity in the features of the graphs"
                    )
                scored = ScoredBatch.of(batch, output.edge_weight)
                chosen = explain(scored)
                for name, logits in _questions(Predictor(model), scored, chosen, settings).items():
                    gathered.setdefault(name, []).append(logits.cpu())
                gathered.setdefault("own", []).append(output.logits[None].cpu())
                scores.append(scored.scores[scored.once].cpu())
                inside.append(chosen[scored.once].cpu())
                counts.append(scored.counts.cpu())
                if isinstance(model, GSAT):
                    look = model.edge_weights(
                        model.predictor.embed(batch, attention=output.edge_weight), batch
                    )
                    again.append(ScoredBatch.of(batch, look).scores[scored.once].cpu())
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
    predictor: Predictor, scored: ScoredBatch, chosen: Tensor, settings: AuditSettings
) -> dict[str, Tensor]:
    """The logits of one batch by question, ``[K, M, num_logits]`` each."""
    batch, draws = scored.batch, Draws(settings.seed, "audit")

    def attended(*weights: Tensor) -> Tensor:
        return torch.stack([predictor.attended(batch, weight) for weight in weights])

    def uniform(*purpose: object) -> Tensor:
        return scored.uniform(draws.child(*purpose))

    tops = [scored.top(share) for share in settings.shares]
    orders = [uniform("order", number) for number in range(settings.orders)]
    randoms = [scored.top(share, order) for order in orders for share in settings.shares]
    numbers = range(settings.draws)
    less = [~(chosen & (uniform("rfid+", n) < settings.rfid_remove)) for n in numbers]
    more = [chosen | (uniform("rfid-", n) < settings.rfid_keep) for n in numbers]
    noise = _mean_outside(scored, chosen)
    redrawn = [uniform("redrawn", n) < noise for n in numbers]
    randoms_alike = [scored.as_many(chosen, uniform("alike", n)) for n in numbers]
    out = {
        "inside": attended(chosen),
        "outside": attended(~chosen),
        "less": attended(*less),
        "more": attended(*more),
        "rest_redrawn": attended(*(chosen | kept for kept in redrawn)),
        "explanation_redrawn": attended(*(~chosen | kept for kept in redrawn)),
        "extended": torch.stack(
            [
                _extended(predictor, scored, chosen, settings.est_keep, draws.child("est", n))
                for n in range(settings.est_budget)
            ]
        ),
        "random_extended": torch.stack(
            [
                _extended(predictor, scored, alike, settings.est_keep, draws.child("est", n))
                for n, alike in enumerate(randoms_alike)
            ]
        ),
    }
    if tops:
        out["kept"], out["removed"] = attended(*tops), attended(*(~mask for mask in tops))
        out["random_kept"] = attended(*randoms)
        out["random_removed"] = attended(*(~mask for mask in randoms))
    if predictor.attends:
        centre, spread = _logits_by_graph(scored)
        drawn = [
            torch.sigmoid(centre + spread * torch.special.ndtri(uniform("attention", n)))
            for n in numbers
        ]
        out["drawn"] = attended(*drawn)
    if isinstance(predictor.model, GSAT):  # other networks' answers do not depend on scores
        own, level = scored.scores, noise.to(scored.scores.dtype)
        out["rest_levelled"] = attended(torch.where(chosen, own, level))
        out["explanation_levelled"] = attended(torch.where(chosen, level, own))
    return out


def _logits_by_graph(scored: ScoredBatch) -> tuple[Tensor, Tensor]:
    """Mean and deviation of the logits of the scores in the graph of each edge, ``[E]`` each."""
    batch = scored.batch
    logits = torch.logit(scored.scores, eps=_NEAR)
    size = batch.edge_ptr.diff().clamp(min=1)

    def mean(values: Tensor) -> Tensor:
        sums = values.new_zeros(batch.num_graphs).index_add(0, batch.edge_graph, values)
        return (sums / size)[batch.edge_graph]

    centre = mean(logits)
    return centre, mean((logits - centre).square()).sqrt()


def _mean_outside(scored: ScoredBatch, chosen: Tensor) -> Tensor:
    """The mean score of the edges outside of the explanation, at each edge of a graph, ``[E]``."""
    batch, rest = scored.batch, (~chosen).to(scored.scores.dtype)
    zeros = rest.new_zeros(batch.num_graphs)
    total = zeros.index_add(0, batch.edge_graph, rest * scored.scores)
    return (total / zeros.index_add(0, batch.edge_graph, rest).clamp(min=1))[batch.edge_graph]


def _extended(
    predictor: Predictor, scored: ScoredBatch, chosen: Tensor, keep: float, draws: Draws
) -> Tensor:
    """A draw of EST: some edges, and random nodes and edges of the rest of the graph."""
    batch = scored.batch
    nodes = torch.ones(batch.num_nodes, dtype=torch.bool, device=chosen.device)
    if predictor.model.task.level == "graph":  # at node level all nodes have answers
        nodes = draws.child("nodes").uniform(batch.node_id) < keep
        nodes[batch.src[chosen]] = True
        nodes[batch.dst[chosen]] = True
    edges = nodes[batch.src] & nodes[batch.dst]
    edges = chosen | (edges & (scored.uniform(draws.child("edges")) < keep))
    return predictor.cut(batch, nodes, edges)
