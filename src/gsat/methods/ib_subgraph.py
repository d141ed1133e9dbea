"""IB-subgraph (Yu et al., ICLR 2021): predict from a subgraph with little information on its graph.

Every node is softly assigned to the subgraph or to the rest. The prediction reads the subgraph's
embedding, whose mutual information with the whole graph's embedding must be small. A separate
network estimates it, and is trained on every batch before it is used. A connectivity loss keeps
neighbours on the same side.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import Optimizer

from gsat.attention import lift
from gsat.core.errors import GSATError
from gsat.core.registry import register_method
from gsat.core.settings import ADDED_LATER
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, Losses, Method, MethodSettings, Phase
from gsat.models import Backbone, InterpretableModel, ModelOutput, seeded
from gsat.ops import (
    Draws,
    StatisticsNetwork,
    donsker_varadhan,
    pool,
    train_statistics_network,
)

_LARGEST = 100.0  # largest value in a subgraph's embedding, as published


class Assigned(NamedTuple):
    """Nodes assigned to the subgraph or to the rest."""

    x: Tensor  # node embeddings, [N, h]
    assignment: Tensor  # S, [N, 2]; column 0 is the subgraph
    subgraph: Tensor  # embeddings of the subgraphs, Σ_v S_v0 x_v, [B, h]


class IBSubgraph(InterpretableModel):
    """A backbone that reads out only the nodes assigned to the subgraph."""

    method = "ib-subgraph"

    def __init__(self, backbone: Backbone, seed: int = 0) -> None:
        super().__init__()
        if backbone.task.level == "node":
            raise GSATError("IB-subgraph reads out graphs and needs labels of graphs, not of nodes")
        h = backbone.hidden
        self.backbone, self.task, self.on, self.r = backbone, backbone.task, "node", None
        with seeded(seed, "assignment"):
            self.assignment = nn.Sequential(nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 2))

    def assign(self, batch: GraphBatch, draws: Draws | None = None) -> Assigned:
        """Assign the nodes of a batch."""
        x = self.backbone.embed(batch, draws=draws)
        assignment = self.assignment(x).softmax(dim=1)
        subgraph = pool(x * assignment[:, :1], batch.node_ptr)
        return Assigned(x, assignment, subgraph.clamp(-_LARGEST, _LARGEST))

    def classify(self, embeddings: Tensor) -> Tensor:
        """Logits ``[B, num_logits]`` from embeddings of subgraphs ``[B, h]``."""
        return self.backbone.head(embeddings)

    def answer(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """Predict from other subgraphs; see :meth:`InterpretableModel.answer`."""
        subgraph = pool(self.backbone.embed(batch) * attention[:, None], batch.node_ptr)
        return self.classify(subgraph.clamp(-_LARGEST, _LARGEST))

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Logits from the subgraphs; the score of an edge is S_u0 · S_v0."""
        assigned = self.assign(batch, draws)
        inside = assigned.assignment[:, 0]
        return ModelOutput(self.classify(assigned.subgraph), lift(inside, batch), inside, inside)


def connectivity(assignment: Tensor, batch: GraphBatch) -> Tensor:
    """The connectivity loss, 0 if no edge joins the subgraph and the rest.

    SᵀAS with normalised rows then has ones on its diagonal; the loss is the mean squared
    difference.
    """
    pooled = pooled_adjacency(assignment, batch)
    inside = F.normalize(pooled, p=1.0, dim=2).diagonal(dim1=1, dim2=2)
    return (1 - inside).square().mean()


def pooled_adjacency(assignment: Tensor, batch: GraphBatch) -> Tensor:
    """SᵀAS of each graph, ``[B, 2, 2]``, as a sum over edges instead of dense products."""
    ends = assignment[batch.src][:, :, None] * assignment[batch.dst][:, None, :]
    return pool(ends.flatten(1), batch.edge_ptr).unflatten(1, (2, 2))


class IBSubgraphSettings(MethodSettings):
    """``[method.ib-subgraph]``."""

    mi_weight: float = Field(0.2, ge=0, description="Weight of the mutual information.")
    con_weight: float = Field(5.0, ge=0, description="Weight of the connectivity loss.")
    graph_embedding: Literal["mean", "sum"] = Field(
        "mean",
        description="Embedding of the whole graph: the mean of its nodes' embeddings, or half "
        "their sum (published code).",
    )
    classified: Literal["subgraph", "both"] = Field(
        "subgraph",
        json_schema_extra=ADDED_LATER,
        description="Embeddings whose label is predicted in training: that of the subgraph, or "
        "also that of the whole graph (published code).",
    )
    estimator: Literal["random", "constant"] = Field(
        "random",
        json_schema_extra=ADDED_LATER,
        description="Estimator of the mutual information: as wide as an embedding, with random "
        "weights, or half as wide, with weights of 0.01 ('constant', published code).",
    )
    inner_adam: Literal["kept", "new"] = Field(
        "kept",
        json_schema_extra=ADDED_LATER,
        description="Adam of the estimator: 'kept' for the whole training, or 'new' at every step, "
        "which then only follows the signs of the gradient (published code).",
    )
    inner_steps: NonNegativeInt = Field(
        150, le=10_000, description="Steps of the estimator per batch."
    )
    inner_lr: float = Field(1e-3, gt=0, description="Learning rate of the estimator.")
    inner_weight_decay: float = Field(5e-5, ge=0, description="Weight decay of the estimator.")
    patience: PositiveInt = Field(
        20, description="Training ends after this many epochs without a better one."
    )


@register_method("ib-subgraph")
class IBSubgraphMethod(Method):
    """The graph information bottleneck with an estimator of mutual information."""

    title = "IB-subgraph"
    summary = "choose nodes that say little of the graph and enough of its label"
    paper = (
        "Yu et al., Graph Information Bottleneck for Subgraph Recognition, ICLR 2021 "
        "(arXiv:2010.05563)"
    )
    Settings = IBSubgraphSettings
    Model = IBSubgraph
    model: IBSubgraph
    settings: IBSubgraphSettings

    def set_up(self) -> None:
        """Make the estimator of mutual information, which only training needs."""
        h, constant = self.model.backbone.hidden, self.settings.estimator == "constant"
        with seeded(self.seed, "estimator"):
            self.estimator = StatisticsNetwork(h, max(h // 2, 1) if constant else None)
        if constant:
            for layer in (self.estimator.first, self.estimator.last):
                nn.init.constant_(layer.weight, 0.01)

    def phases(self) -> tuple[Phase, ...]:
        """One phase, which may end early; any epoch may be selected."""
        return (Phase("train", self.training.epochs, patience=self.settings.patience),)

    def begin(self, phase: str) -> None:
        """Make an Adam for the model, and one for the estimator."""
        super().begin(phase)
        self.inner = self._inner_adam()

    def _inner_adam(self) -> torch.optim.Adam:
        """Make an Adam for the estimator."""
        return self.estimator.adam(self.settings.inner_lr, self.settings.inner_weight_decay)

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Train the estimator on the batch, then take one step against it."""
        assert batch.y is not None
        draws = context.draws
        assigned = self.model.assign(batch, draws)
        graph, subgraph = self._whole(assigned.x, batch), assigned.subgraph
        orders = self._orders(batch.num_graphs, draws.child("shuffle", context.step))
        new = self.settings.inner_adam == "new"
        for some in orders[1:].split(1) if new else [orders[1:]]:
            self.inner = self._inner_adam() if new else self.inner
            train_statistics_network(self.estimator, self.inner, graph, subgraph, some)
        # Detached: this step must not train the estimator.
        fixed = {name: weights.detach() for name, weights in self.estimator.named_parameters()}
        joint, shuffled = (
            functional_call(self.estimator, fixed, (e, subgraph)) for e in (graph, graph[orders[0]])
        )
        loss = self.model.task.loss(self.model.classify(subgraph), batch.y)
        if self.settings.classified == "both":
            loss = (loss + self.model.task.loss(self.model.classify(graph), batch.y)) / 2
        parts = {
            "loss": loss,
            "information": donsker_varadhan(joint, shuffled),
            "connectivity": connectivity(assigned.assignment, batch),
        }
        parts["total"] = (
            parts["loss"]
            + self.settings.mi_weight * parts["information"]
            + self.settings.con_weight * parts["connectivity"]
        )
        self.update(parts["total"])
        return parts

    def _whole(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Embeddings of whole graphs, ``[B, h]``."""
        if self.settings.graph_embedding == "mean":
            return pool(x, batch.node_ptr, "mean")
        return pool(x, batch.node_ptr) / 2

    def _orders(self, graphs: int, draws: Draws) -> Tensor:
        """Permutations ``[1 + inner_steps, graphs]``; the model's step uses the first."""
        count = 1 + self.settings.inner_steps
        device = next(self.estimator.parameters()).device
        drawn = draws.uniform(torch.arange(count * graphs, device=device))
        return drawn.view(count, graphs).argsort(dim=1, stable=True)

    def optimisers(self) -> dict[str, Optimizer]:
        """The model's Adam and the estimator's."""
        return {"outer": self.optimiser, "inner": self.inner}

    def networks(self) -> dict[str, nn.Module]:
        """The model and the estimator."""
        return {"model": self.model, "estimator": self.estimator}
