"""Hard explanations: units of each graph by rank, by a split of the scores, or at random.

The units of an explanation are what has attention: edges or nodes. Both directions of an undirected
edge are one unit, with the mean of their scores, and are kept or removed together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gsat.attention import AttentionLevel
from gsat.graphs import GraphBatch
from gsat.models import InterpretableModel, ModelOutput
from gsat.ops import Draws


def unit_of(model: InterpretableModel) -> AttentionLevel:
    """The units of a model's explanations: nodes if it predicts under attention to nodes."""
    return "node" if model.answers and model.on == "node" else "edge"


@dataclass(frozen=True)
class ScoredBatch:
    """A batch of graphs with scores, and the hard explanations made from them.

    Scores and masks have a row for each node, ``[L] = [N]``, or for each direction of an edge,
    ``[L] = [E]``.

    Attributes:
        batch: The graphs.
        unit: ``"edge"`` or ``"node"``.
        scores: The score of each row, ``[L]``, the same for both directions of an edge.
        graph: The graph of each row, ``[L]``.
        twin: The row of the other direction of an edge, ``[L]``; else the row itself.
        name: Identifies each unit in random draws, ``[L]``.
        once: One row of each unit, ``[U]``.
        counts: The number of units of each graph, ``[B]``.
    """

    batch: GraphBatch
    unit: AttentionLevel
    scores: Tensor
    graph: Tensor
    twin: Tensor
    name: Tensor
    once: Tensor
    counts: Tensor

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
