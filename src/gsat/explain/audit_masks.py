"""Hard explanations: edges of each graph by rank, by a split of the scores, by chance.

Both directions of an undirected edge count as one edge here, with the mean of their scores, and go
together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gsat.graphs import GraphBatch
from gsat.ops import Draws


@dataclass(frozen=True)
class ScoredBatch:
    """A batch of graphs with the score of every edge, and the hard explanations made of it.

    Attributes:
        batch: The graphs.
        scores: The score of each edge, ``[E]``, the same for both directions.
        once: One edge of each pair of directions, ``[U]`` long.
        counts: How many of these each graph has, ``[B]``.
    """

    batch: GraphBatch
    scores: Tensor
    once: Tensor
    counts: Tensor

    @classmethod
    def of(cls, batch: GraphBatch, scores: Tensor) -> ScoredBatch:
        """Pair the directions of edges.

        Args:
            batch: The graphs.
            scores: The score of each edge, ``[E]``.
        """
        edges = torch.arange(batch.num_edges, device=scores.device)
        once = (edges <= batch.pair).nonzero()[:, 0]
        counts = torch.bincount(batch.edge_graph[once], minlength=batch.num_graphs)
        return cls(batch, (scores + scores[batch.pair]) / 2, once, counts)

    def top(self, share: float, order: Tensor | None = None) -> Tensor:
        """Keep the highest-scored edges of each graph.

        Args:
            share: Of the edges, rounded up.
            order: What to order them by in place of their scores, ``[E]``, the same for both
                directions. (default: ``None``)

        Returns:
            ``[E]`` bool.
        """
        wanted = (share * self.counts - 1e-6).ceil()
        return self._rank(self.scores if order is None else order) < wanted[self.batch.edge_graph]

    def as_many(self, chosen: Tensor, order: Tensor) -> Tensor:
        """Keep as many edges of each graph as another choice has, by another order.

        Args:
            chosen: The other choice, ``[E]`` bool.
            order: What to order edges by, ``[E]``, the same for both directions.

        Returns:
            ``[E]`` bool.
        """
        graph = self.batch.edge_graph[self.once]
        wanted = torch.bincount(graph[chosen[self.once]], minlength=len(self.counts))
        return self._rank(order) < wanted[self.batch.edge_graph]

    def above(self, level: float) -> Tensor:
        """Keep the edges scored above a level, ``[E]`` bool.

        Args:
            level: The level.
        """
        return self.scores > level

    def split(self) -> Tensor:
        """Keep the upper of the two groups that the scores of each graph fall into.

        The groups are those of Otsu's method: their means differ most, weighted by their sizes. It
        needs no number of edges and no level. A graph with a single edge keeps it.

        Returns:
            ``[E]`` bool.
        """
        rank = self._rank(self.scores)[self.once]
        graph = self.batch.edge_graph[self.once]
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
        return self._rank(self.scores) < chosen[self.batch.edge_graph]

    def uniform(self, draws: Draws) -> Tensor:
        """A random number for each edge, the same for both directions, ``[E]``.

        Args:
            draws: The source.
        """
        names = self.batch.edge_id
        return draws.uniform(torch.minimum(names, names[self.batch.pair]))

    def _rank(self, values: Tensor) -> Tensor:
        """The place of each edge in its graph, from 0 for the highest, ``[E]``; ties as stored."""
        order = values[self.once].sort(descending=True, stable=True).indices
        graph = self.batch.edge_graph[self.once][order]
        order = order[graph.sort(stable=True).indices]
        first = self.counts.cumsum(0) - self.counts
        place = torch.arange(len(order), device=order.device)
        rank = torch.zeros_like(self.batch.pair)
        edge = self.once[order]
        rank[edge] = place - first[self.batch.edge_graph[edge]]
        rank[self.batch.pair[self.once]] = rank[self.once]
        return rank
