"""IB-subgraph (Yu et al., ICLR 2021): predict from a subgraph that tells little of its graph.

Every node is assigned to the subgraph or to the rest, softly. The subgraph's embedding predicts.
How much it tells of the whole graph's is estimated by a network of its own, which learns on every
batch before it is asked, and has to be little; a connectivity loss wants neighbours on one side.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import Adam, Optimizer

from gsat.attention import lift
from gsat.errors import GSATError
from gsat.graphs import GraphBatch, GraphStore
from gsat.methods.base import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.models import BACKBONES, Backbone, InterpretableModel, ModelOutput, seeded
from gsat.ops import (
    Draws,
    StatisticsNetwork,
    donsker_varadhan,
    pool,
    train_statistics_network,
)

_LARGEST = 100.0  # of a channel of a subgraph's embedding, as published


class Assigned(NamedTuple):
    """Where nodes go: embeddings x [N, h], assignment S [N, 2] (column 0: the subgraph), and the
    subgraphs' embeddings p = Σ_v S_v0 x_v [B, h]."""

    x: Tensor
    assignment: Tensor
    subgraph: Tensor


class IBSubgraph(InterpretableModel):
    """A backbone whose read-out is of the nodes assigned to the subgraph.

    Args:
        backbone: the network. seed: decides the initial weights of the assignment.
    """

    def __init__(self, backbone: Backbone, seed: int = 0) -> None:
        super().__init__()
        if backbone.task.level == "node":
            raise GSATError("IB-subgraph reads out graphs and needs labels of graphs, not of nodes")
        h = backbone.hidden
        self.backbone, self.task, self.on, self.r = backbone, backbone.task, "node", None
        with seeded(seed, "assignment"):
            self.assignment = nn.Sequential(nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 2))

    def assign(self, batch: GraphBatch, draws: Draws | None = None) -> Assigned:
        """Assign the nodes of a batch; ``draws`` is the source of dropout masks."""
        x = self.backbone.embed(batch, draws=draws)
        assignment = self.assignment(x).softmax(dim=1)
        subgraph = pool(x * assignment[:, :1], batch.node_ptr)
        return Assigned(x, assignment, subgraph.clamp(-_LARGEST, _LARGEST))

    def classify(self, embeddings: Tensor) -> Tensor:
        """Logits [B, num_logits] from embeddings of subgraphs [B, h], by the backbone's head."""
        head = self.backbone.head
        assert isinstance(head, nn.Module)
        return head(embeddings)

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Logits from the subgraphs; the score of an edge is S_u0 · S_v0."""
        said = self.assign(batch, draws)
        inside = said.assignment[:, 0]
        return ModelOutput(self.classify(said.subgraph), lift(inside, batch), inside, inside)

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {"backbone": {"name": self.backbone.name, **self.backbone.config}}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> IBSubgraph:
        """The model :attr:`config` describes, with fresh weights."""
        described = dict(config["backbone"])
        return cls(BACKBONES[described.pop("name")].from_config(described))

    def check_fits(self, store: GraphStore) -> None:
        """Raise a :class:`DataError` when the graphs have other features than the model knows."""
        self.backbone.check_fits(store)


def connectivity(assignment: Tensor, batch: GraphBatch) -> Tensor:
    """How far each side is from having all edges of its nodes inside, mean over graphs.

    SᵀAS, each row divided by its sum, has ones on its diagonal if no edge crosses; the mean square
    of what is missing there.

    Args:
        assignment: S [N, 2].
    """
    pooled = pooled_adjacency(assignment, batch)
    inside = F.normalize(pooled, p=1.0, dim=2).diagonal(dim1=1, dim2=2)
    return (1 - inside).square().mean()


def pooled_adjacency(assignment: Tensor, batch: GraphBatch) -> Tensor:
    """SᵀAS of each graph, [B, 2, 2]: a sum over edges, not a product of dense matrices."""
    ends = assignment[batch.src][:, :, None] * assignment[batch.dst][:, None, :]
    return pool(ends.flatten(1), batch.edge_ptr).unflatten(1, (2, 2))


class IBSubgraphSettings(MethodSettings):
    """``[method.ib-subgraph]``.

    Attributes:
        mi_weight: of the mutual information. con_weight: of the connectivity loss.
        graph_embedding: of the whole graph: the ``mean`` of its nodes' embeddings or half their
            ``sum`` (published code).
        inner_steps: of the estimator, per batch. inner_lr, inner_weight_decay: of its Adam.
        patience: epochs without a better one after which training ends.
    """

    mi_weight: float = Field(0.2, ge=0)
    con_weight: float = Field(5.0, ge=0)
    graph_embedding: Literal["mean", "sum"] = "mean"
    inner_steps: NonNegativeInt = 150
    inner_lr: float = Field(1e-3, gt=0)
    inner_weight_decay: float = Field(5e-5, ge=0)
    patience: PositiveInt = 20


class IBSubgraphMethod(Method):
    """The graph information bottleneck with an estimator of mutual information."""

    name = "ib-subgraph"
    title = "IB-subgraph"
    summary = "choose nodes that say little of the graph and enough of its label"
    paper = (
        "Yu et al., Graph Information Bottleneck for Subgraph Recognition, ICLR 2021 "
        "(arXiv:2010.05563)"
    )
    Settings = IBSubgraphSettings
    Model = IBSubgraph
    model: IBSubgraph

    def __init__(
        self, model: IBSubgraph, settings: IBSubgraphSettings, training: TrainingSettings, seed: int
    ) -> None:
        self.model, self.settings, self.training = model, settings, training
        with seeded(seed, "estimator"):
            self.estimator = StatisticsNetwork(model.backbone.hidden)

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """IB-subgraph on a fresh backbone."""
        return cls(IBSubgraph(backbone, seed), settings, training, seed)

    def phases(self) -> tuple[Phase, ...]:
        """One phase, which ends early; any epoch may be the best."""
        return (Phase("train", self.training.epochs, patience=self.settings.patience),)

    def begin(self, phase: str) -> None:
        """An Adam for the model, and one for the estimator that goes on from batch to batch."""
        weight_decay = self.training.weight_decay
        self.outer = Adam(
            self.model.parameters(), self.training.lr, weight_decay=weight_decay, fused=True
        )
        self.inner = self.estimator.adam(self.settings.inner_lr, self.settings.inner_weight_decay)

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """Train the estimator on the batch, then take one step against it."""
        assert batch.y is not None
        draws = context.draws
        said = self.model.assign(batch, draws)
        graph, subgraph = self._whole(said.x, batch), said.subgraph
        orders = self._orders(batch.num_graphs, draws.child("shuffle", context.step))
        train_statistics_network(self.estimator, self.inner, graph, subgraph, orders[1:])
        # Taken as it is: the estimator learns nothing from this.
        fixed = {name: weights.detach() for name, weights in self.estimator.named_parameters()}
        joint, shuffled = (
            functional_call(self.estimator, fixed, (e, subgraph)) for e in (graph, graph[orders[0]])
        )
        parts = {
            "loss": self.model.task.loss(self.model.classify(subgraph), batch.y),
            "information": donsker_varadhan(joint, shuffled),
            "connectivity": connectivity(said.assignment, batch),
        }
        parts["total"] = (
            parts["loss"]
            + self.settings.mi_weight * parts["information"]
            + self.settings.con_weight * parts["connectivity"]
        )
        self.outer.zero_grad(set_to_none=True)
        parts["total"].backward()
        self.outer.step()
        return parts

    def _whole(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """Embeddings of whole graphs [B, h]."""
        if self.settings.graph_embedding == "mean":
            return pool(x, batch.node_ptr, "mean")
        return pool(x, batch.node_ptr) / 2

    def _orders(self, graphs: int, draws: Draws) -> Tensor:
        """Permutations [1 + inner_steps, graphs], the first for the step against the estimator."""
        count = 1 + self.settings.inner_steps
        device = next(self.estimator.parameters()).device
        drawn = draws.uniform(torch.arange(count * graphs, device=device))
        return drawn.view(count, graphs).argsort(dim=1, stable=True)

    def evaluate(
        self, batch: GraphBatch, context: Context
    ) -> tuple[ModelOutput, dict[str, Tensor]]:
        """From the subgraphs, without dropout."""
        assert batch.y is not None
        said = self.model(batch)
        return said, {"loss": self.model.task.loss(said.logits, batch.y)}

    def optimisers(self) -> dict[str, Optimizer]:
        """The model's Adam and the estimator's."""
        return {"outer": self.outer, "inner": self.inner}

    def networks(self) -> dict[str, nn.Module]:
        """The model, and the estimator, which only training needs."""
        return {"model": self.model, "estimator": self.estimator}
