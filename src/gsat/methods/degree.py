"""Edge scores from degrees: a trivial baseline that sees the graph but not the task."""

from __future__ import annotations

import torch
from torch import Tensor

from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.methods.erm import ERMMethod, PlainModel


class DegreeScores(PlainModel):
    """A backbone without attention, whose edges are scored by the degrees of their ends.

    The score of an edge is d_u + d_v, divided by the largest such sum in its graph. The degree of a
    node counts its incoming and outgoing edges.
    """

    explains = True
    method = "degree"

    def edge_scores(self, batch: GraphBatch) -> Tensor:
        """The score of each edge in (0, 1], ``[E]``."""
        degree = (batch.dst_ptr.diff() + batch.src_ptr.diff()).to(torch.get_default_dtype())
        sums = degree[batch.src] + degree[batch.dst]  # [E]
        largest = sums.new_zeros(batch.num_graphs)
        largest = largest.scatter_reduce(0, batch.edge_graph, sums, "amax")  # [B]
        return sums / largest[batch.edge_graph]


@register_method("degree")
class DegreeMethod(ERMMethod):
    """The backbone trained by ERM, explained by degrees."""

    title = "Degree"
    summary = (
        "the backbone alone, with edges scored by the degrees of their ends: a trivial baseline"
    )
    paper = "a trivial baseline; it has no paper"
    based_on = "erm"
    Model = DegreeScores
