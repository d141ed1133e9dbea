"""Perturbations: predictions with edges or nodes kept, removed or resampled.

The units of an explanation are what has attention: edges or nodes. Both directions of an undirected
edge are one unit, with the mean of their scores, and are kept or removed together.

*By attention*: the model gets the whole graph, and a number from 0 to 1 as the attention of each
unit. It predicts as it does in training, and a network that is explained afterwards predicts with
weighted messages. Models that can't predict under given attention (DIR, plug-ins) get the graph
without the edges. *Cut*: the whole model, extractor included, gets a real subgraph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.attention import AttentionLevel
from gsat.audit.settings import AuditSettings
from gsat.core.errors import DataError
from gsat.graphs import GraphBatch, GraphStore
from gsat.graphs.subgraph import subgraph
from gsat.launch.progress import Progress
from gsat.models import InterpretableModel, ModelOutput
from gsat.models.interpretable import MAX_EDGES
from gsat.ops import Draws

BATCH = 256  # graphs
_NEAR = 1e-4  # scores this close to 0 or 1 are moved away from it, to have a finite logit


def unit_of(model: InterpretableModel) -> AttentionLevel:
    """The units of a model's explanations: nodes if it predicts under attention to nodes."""
    return "node" if model.answers and model.on == "node" else "edge"


@dataclass(frozen=True)
class ScoredBatch:
    """A batch of graphs with scores, and the hard explanations made from them.

    Scores and masks have a row for each node, ``[L] = [N]``, or for each direction of an edge,
    ``[L] = [E]``.
    """

    batch: GraphBatch
    unit: AttentionLevel
    scores: Tensor  # of the rows [L], the same for both directions of an edge
    graph: Tensor  # of each row [L]
    twin: Tensor  # row of the other direction of an edge, or the row itself [L]
    name: Tensor  # identifies each unit in random draws [L]
    once: Tensor  # one row of each unit [U]
    counts: Tensor  # number of units of each graph [B]

    @classmethod
    def of(cls, batch: GraphBatch, scores: Tensor, unit: AttentionLevel = "edge") -> ScoredBatch:
        """Pair the directions of edges."""
        rows = torch.arange(len(scores), device=scores.device)
        if unit == "node":
            graph, twin, name, once = batch.node_graph, rows, batch.node_id, rows
        else:
            graph, twin = batch.edge_graph, batch.pair
            name = torch.minimum(batch.edge_id, batch.edge_id[twin])
            once = (rows <= twin).nonzero()[:, 0]
            scores = (scores + scores[twin]) / 2
        counts = torch.bincount(graph[once], minlength=batch.num_graphs)
        return cls(batch, unit, scores, graph, twin, name, once, counts)

    @classmethod
    def explained(cls, batch: GraphBatch, output: ModelOutput, unit: AttentionLevel) -> ScoredBatch:
        """Take the scores of a model's output."""
        return cls.of(batch, output.probability if unit == "node" else output.edge_weight, unit)

    def both(self, values: Tensor) -> Tensor:
        """Average values over both directions of each edge."""
        return values if self.unit == "node" else (values + values[self.twin]) / 2

    def top(self, share: float, order: Tensor | None = None) -> Tensor:
        """Keep the highest-scored units of each graph."""
        wanted = (share * self.counts - 1e-6).ceil()
        return self._rank(self.scores if order is None else order) < wanted[self.graph]

    def as_many(self, chosen: Tensor, order: Tensor) -> Tensor:
        """Keep as many units of each graph as another choice has, by another order."""
        graph = self.graph[self.once]
        wanted = torch.bincount(graph[chosen[self.once]], minlength=len(self.counts))
        return self._rank(order) < wanted[self.graph]

    def above(self, level: float) -> Tensor:
        """Keep the units scored above a level, ``[L]`` bool."""
        return self.scores > level

    def split(self) -> Tensor:
        """Keep the upper of the two groups that the scores of each graph fall into.

        The groups are those of Otsu's method: their means differ most, weighted by their sizes. It
        needs no number of units and no level. A graph with a single unit keeps it.
        """
        rank = self._rank(self.scores)[self.once]
        graph = self.graph[self.once]
        first = self.counts.cumsum(0) - self.counts
        place = first[graph] + rank
        sorted_scores = torch.empty(len(rank), dtype=torch.float64, device=rank.device)
        sorted_scores[place] = self.scores[self.once].double()
        graph = graph.sort().values
        running = sorted_scores.cumsum(0)
        before = torch.cat([running.new_zeros(1), running])[first]
        total = torch.cat([running.new_zeros(1), running])[first + self.counts] - before
        above = torch.arange(len(rank), device=rank.device) - first[graph] + 1.0
        below = self.counts[graph] - above
        upper = (running - before[graph]) / above
        lower = (total[graph] - (running - before[graph])) / below.clamp(min=1)
        gain = torch.where(below > 0, above * below * (upper - lower).square(), -1.0)
        best = gain.new_full((len(self.counts),), -2.0)
        best = best.scatter_reduce(0, graph, gain, "amax")
        # The smallest of equally good groups.
        size = torch.where(gain >= best[graph], above, torch.inf)
        chosen = size.new_full((len(self.counts),), torch.inf)
        chosen = chosen.scatter_reduce(0, graph, size, "amin")
        return self._rank(self.scores) < chosen[self.graph]

    def uniform(self, draws: Draws) -> Tensor:
        """A random number for each unit, the same for both directions of an edge, ``[L]``."""
        return draws.uniform(self.name)

    def mean(self, values: Tensor, among: Tensor | None = None) -> Tensor:
        """The mean of values over some rows of each graph, at each row, ``[L]``."""
        chosen = torch.ones_like(values) if among is None else among.to(values.dtype)
        zeros = values.new_zeros(len(self.counts))
        total = zeros.index_add(0, self.graph, chosen * values)
        return (total / zeros.index_add(0, self.graph, chosen).clamp(min=1))[self.graph]

    def _rank(self, values: Tensor) -> Tensor:
        """The place of each unit in its graph, from 0 for the highest, ``[L]``; ties as stored."""
        order = values[self.once].sort(descending=True, stable=True).indices
        graph = self.graph[self.once][order]
        order = order[graph.sort(stable=True).indices]
        first = self.counts.cumsum(0) - self.counts
        place = torch.arange(len(order), device=order.device)
        rank = torch.zeros_like(self.twin)
        row = self.once[order]
        rank[row] = place - first[self.graph[row]]
        rank[self.twin[self.once]] = rank[self.once]
        return rank


Explain = Callable[[ScoredBatch], Tensor]


@dataclass(frozen=True)
class Answers:
    """The predictions for M graphs (or nodes) under each perturbation, and the scores of units."""

    logits: dict[str, Tensor]  # [K, M, num_logits] by perturbation, for its K variants
    labels: Tensor | None  # as the task reads them
    scores: NDArray[np.float64]  # of the units [U]
    again: NDArray[np.float64] | None  # when the attended graphs are explained [U]
    inside: NDArray[np.bool_]  # units in the hard explanation [U]
    ptr: NDArray[np.int64]  # first unit of each graph [G + 1]


def predict_perturbed(
    model: InterpretableModel,
    store: GraphStore,
    explain: Explain,
    settings: AuditSettings,
    progress: Progress,
) -> Answers:
    """Predict graphs under all perturbations of an audit."""
    model.check_fits(store)
    device = next(model.parameters()).device
    unit = unit_of(model)
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
                perturbed = _perturbed(model, scored, output.attention, chosen, settings)
                for name, logits in {**perturbed, "own": output.logits[None]}.items():
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
    labelled = store.has("node_y" if level == "node" else "y")
    return Answers(
        {name: torch.cat(parts, dim=1) for name, parts in gathered.items()},
        torch.from_numpy(np.asarray(store.labels(level))) if labelled else None,
        torch.cat(scores).double().numpy(),
        torch.cat(again).double().numpy() if again else None,
        torch.cat(inside).numpy(),
        np.concatenate([[0], torch.cat(counts).cumsum(0).numpy()]),
    )


def attend(model: InterpretableModel, batch: GraphBatch, weight: Tensor) -> Tensor:
    """Predict under given attention; without a model that can, remove edges without it."""
    if model.answers:
        return model.answer(batch, weight.to(torch.float32))
    everything = torch.ones(batch.num_nodes, dtype=torch.bool, device=weight.device)
    return cut(model, batch, everything, weight > 0)


def cut(model: InterpretableModel, batch: GraphBatch, nodes: Tensor, edges: Tensor) -> Tensor:
    """Predict for a part of each graph."""
    part, _ = subgraph(batch, nodes, edges)
    return model.predict_batch(replace(part, targets=batch.targets))


def _perturbed(
    model: InterpretableModel,
    scored: ScoredBatch,
    attention: Tensor,
    chosen: Tensor,
    settings: AuditSettings,
) -> dict[str, Tensor]:
    """The logits of one batch by perturbation, ``[K, M, num_logits]`` each."""
    batch, draws = scored.batch, Draws(settings.seed, "audit")
    # With refinement or snapshots, the scores differ from the attention of the prediction.
    decides = model.answers and model.attention_decides
    own = scored.both(attention) if decides else scored.scores

    def attended(*weights: Tensor) -> Tensor:
        return torch.stack([attend(model, batch, weight) for weight in weights])

    def uniform(*purpose: object) -> Tensor:
        return scored.uniform(draws.child(*purpose))

    def extended(kept: Tensor, number: int) -> Tensor:
        return _extended(model, scored, kept, settings.est_keep, draws.child("est", number))

    tops = [scored.top(share) for share in settings.shares]
    orders = [uniform("order", number) for number in range(settings.orders)]
    randoms = [scored.top(share, order) for order in orders for share in settings.shares]
    numbers = range(settings.draws)
    less = [~(chosen & (uniform("rfid+", n) < settings.rfid_remove)) for n in numbers]
    more = [chosen | (uniform("rfid-", n) < settings.rfid_keep) for n in numbers]
    level = scored.mean(own, among=~chosen)
    resampled = [uniform("redrawn", n) < level for n in numbers]
    alike = [scored.as_many(chosen, uniform("alike", n)) for n in numbers]
    out = {
        "inside": attended(chosen),
        "outside": attended(~chosen),
        "less": attended(*less),
        "more": attended(*more),
        "rest_redrawn": attended(*(chosen | kept for kept in resampled)),
        "explanation_redrawn": attended(*(~chosen | kept for kept in resampled)),
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
    model: InterpretableModel, scored: ScoredBatch, chosen: Tensor, keep: float, draws: Draws
) -> Tensor:
    """A draw of EST: the chosen units, and random nodes and edges of the rest of the graph."""
    batch, of_nodes = scored.batch, scored.unit == "node"
    if model.task.level == "graph":
        nodes = draws.child("nodes").uniform(batch.node_id) < keep
        if of_nodes:
            nodes |= chosen
            return cut(model, batch, nodes, nodes[batch.src] & nodes[batch.dst])
        nodes[batch.src[chosen]] = True
        nodes[batch.dst[chosen]] = True
    else:  # every target node has a prediction, so all nodes stay
        nodes = torch.ones(batch.num_nodes, dtype=torch.bool, device=chosen.device)
    edges = nodes[batch.src] & nodes[batch.dst]
    kept = chosen[batch.src] & chosen[batch.dst] if of_nodes else chosen
    pairs = torch.minimum(batch.edge_id, batch.edge_id[batch.pair])
    kept = kept | (edges & (draws.child("edges").uniform(pairs) < keep))
    return cut(model, batch, nodes, kept)
