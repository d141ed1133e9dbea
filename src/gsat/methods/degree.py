"""Edge scores from degrees: a floor that knows the graph and nothing of the task."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.methods.erm import ERMMethod, PlainModel
from gsat.models import InterpretableModel


class DegreeScores(PlainModel):
    """A backbone without attention, whose edges are scored by the degrees of their ends.

    The score of an edge is d_u + d_v, divided by the largest such sum in its graph; the degree of
    a node counts the edges into it and out of it.
    """

    explains = True
    method = "degree"

    def edge_scores(self, batch: GraphBatch) -> Tensor:
        """A score in (0, 1] for each edge, ``[E]``."""
        degree = (batch.dst_ptr.diff() + batch.src_ptr.diff()).to(torch.get_default_dtype())
        sums = degree[batch.src] + degree[batch.dst]  # [E]
        largest = sums.new_zeros(batch.num_graphs)
        largest = largest.scatter_reduce(0, batch.edge_graph, sums, "amax")  # [B]
        return sums / largest[batch.edge_graph]


@register_method("degree")
class DegreeMethod(ERMMethod):
    """The backbone trained as by ERM, explained by degrees."""

    title = "Degree"
    summary = "the backbone alone, with edges scored by the degrees of their ends: a floor"
    paper = "a floor to compare with; it has no paper"
    based_on = "erm"
    Model: ClassVar[type[InterpretableModel]] = DegreeScores
