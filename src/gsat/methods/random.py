"""Random edge scores: the floor under every explanation."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.methods.erm import ERMMethod, PlainModel
from gsat.models import Backbone, InterpretableModel
from gsat.ops import Draws


class RandomScores(PlainModel):
    """A backbone without attention, whose edges have uniform random scores.

    The score of an edge depends on the seed, the graph and the edge alone; the two directions of
    an undirected edge share one.
    """

    explains = True
    method = "random"

    def __init__(self, backbone: Backbone, *, seed: int = 0) -> None:
        super().__init__(backbone)
        self.seed, self.settings = seed, {"seed": seed}

    def edge_scores(self, batch: GraphBatch) -> Tensor:
        """A score in (0, 1) for each edge, ``[E]``."""
        edge = torch.minimum(batch.edge_id, batch.edge_id[batch.pair])
        return Draws(self.seed, "random scores").uniform(edge)


@register_method("random")
class RandomMethod(ERMMethod):
    """The backbone trained as by ERM, explained at random."""

    title = "Random"
    summary = "the backbone alone, with random edge scores: a floor to compare with"
    paper = "a floor to compare with; it has no paper"
    based_on = "erm"
    Model: ClassVar[type[InterpretableModel]] = RandomScores
