"""Random edge scores: the trivial baseline of every explanation."""

from __future__ import annotations

import torch
from torch import Tensor

from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.methods.erm import ERMMethod, PlainModel
from gsat.models import Backbone
from gsat.ops import Draws


class RandomScores(PlainModel):
    """A backbone without attention, whose edges have uniform random scores.

    A score depends only on the seed, the graph and the edge. The two directions of an undirected
    edge share one score.
    """

    explains = True
    method = "random"

    def __init__(self, backbone: Backbone, *, seed: int = 0) -> None:
        super().__init__(backbone)
        self.seed, self.settings = seed, {"seed": seed}

    def edge_scores(self, batch: GraphBatch) -> Tensor:
        """The score of each edge in (0, 1), ``[E]``."""
        edge = torch.minimum(batch.edge_id, batch.edge_id[batch.pair])
        return Draws(self.seed, "random scores").uniform(edge)


@register_method("random")
class RandomMethod(ERMMethod):
    """The backbone trained by ERM, explained at random."""

    title = "Random"
    summary = "the backbone alone, with random edge scores: a trivial baseline"
    paper = "a trivial baseline; it has no paper"
    based_on = "erm"
    Model = RandomScores
