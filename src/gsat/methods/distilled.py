"""Consensus distillation: one GSAT learns to explain like an ensemble."""

from __future__ import annotations

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from gsat.attention import edge_weights
from gsat.core.errors import RecipeError
from gsat.core.registry import register_method
from gsat.datasets.load import Dataset
from gsat.graphs import GraphBatch, GraphStore
from gsat.methods.base import Context, Losses
from gsat.methods.gsat import GSATMethod, GSATSettings
from gsat.models import InterpretableModel
from gsat.models.ensemble import load_any


class DistilledSettings(GSATSettings):
    """``[method.distilled]``; the settings of ``[method.gsat]`` apply, too."""

    teacher: str = Field("", description="Run whose explanations are learnt.")
    distill_coef: float = Field(
        10.0, ge=0, description="Weight of the mean difference from the teacher's scores."
    )


@register_method("distilled")
class DistilledMethod(GSATMethod):
    """GSAT's loss plus the distance of its edge weights from those of another run."""

    title = "Distilled GSAT"
    summary = "GSAT that learns to explain as an ensemble does"
    paper = "after consensus distillation as published at ICML 2025"
    Settings = DistilledSettings
    based_on = "gsat"
    data_parallel = False
    settings: DistilledSettings
    taught: Tensor  # the teacher's score of every edge of the store
    first_edge: Tensor  # first edge of every graph of the store

    def prepare(self, data: Dataset) -> None:
        """Let the teacher explain the training set."""
        if not self.settings.teacher:
            raise RecipeError("distillation needs a teacher: name its run, teacher='runs/x'")
        teacher = load_any(self.settings.teacher)
        if not teacher.explains:
            raise RecipeError(f"the model in {self.settings.teacher} has no explanations to learn")
        self.first_edge = torch.from_numpy(np.array(data.store.arrays["edge_ptr"]))
        self.taught = taught_scores(teacher, data.split("train"), int(self.first_edge[-1]))

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take one gradient step on GSAT's loss plus the distance from the teacher."""
        output = self.model(batch, context.draws)
        losses = self._losses(batch, output, context)
        weight = edge_weights(output.probability, batch, self.model.on)
        place = edge_places(batch, self.first_edge.to(batch.edge_id))
        distance = (weight - self.taught.to(weight)[place]).abs().mean()
        total = losses["total"] + self.settings.distill_coef * distance
        self.update(total)
        return {**losses, "distance": distance, "total": total}


def taught_scores(teacher: InterpretableModel, graphs: GraphStore, edges: int) -> Tensor:
    """The edge scores of a model, at the places of the edges in the store."""
    teacher.check_fits(graphs)
    scores = torch.zeros(edges)
    first = torch.from_numpy(np.array(graphs.arrays["edge_ptr"]))
    with teacher.evaluating():
        for batch in graphs.batches(256):
            scores[edge_places(batch, first)] = teacher(batch).edge_weight
    return scores


def edge_places(batch: GraphBatch, first_edge: Tensor) -> Tensor:
    """The positions of a batch's edges among all edges of the store."""
    offset = torch.arange(batch.num_edges, device=batch.src.device)
    return first_edge[batch.graph_row][batch.edge_graph] + offset - batch.edge_ptr[batch.edge_graph]
