"""What the post-hoc explainers share: a network is trained alone, frozen, and then explained."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor
from torch.optim import Optimizer

from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, GraphStore
from gsat.methods.base import Context, Losses, Method, MethodSettings, Phase, TrainingSettings
from gsat.methods.pretraining import PretrainedMethod, Pretraining
from gsat.models import Backbone, InterpretableModel, ModelOutput
from gsat.ops import Draws

EXPLAIN = "explain"

Target = Literal["prediction", "label"]


class PostHocSettings(MethodSettings):
    """Settings of all post-hoc explainers."""

    target: Target = Field(
        "prediction",
        description="The answer that is explained: the network's own prediction, or the label "
        "where a graph has one.",
    )
    trace: bool = Field(
        True, description="Whether the training set's explanations are measured every epoch, too."
    )


class PostHocModel(InterpretableModel):
    """A frozen network and an explainer of it.

    The network is never in training mode, has no dropout and is in no optimiser.

    Attributes:
        frozen: False lets :meth:`train` reach the network, to train it before it is explained.
    """

    attention_decides = False

    def __init__(self, backbone: Backbone, target: Target, **settings: Any) -> None:
        super().__init__()
        if backbone.task.level == "node":
            raise GSATError(
                "post-hoc explainers are for predictions of graphs, and these are of nodes; use "
                "gsat or gsat-star"
            )
        self.backbone, self.task, self.on, self.r = backbone, backbone.task, "edge", None
        self.target = target
        self.settings = {"target": target, **settings}
        self.frozen = True

    def train(self, mode: bool = True) -> Self:
        """Set the mode as torch does, but keep a frozen network in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    @property
    def bare_backbone(self) -> Backbone:
        """The explained network, for another explainer."""
        return self.backbone

    def answer(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """Predict with weighted messages; see :meth:`InterpretableModel.answer`."""
        return self.backbone(batch, attention=attention)

    def predict_batch(self, batch: GraphBatch) -> Tensor:
        """Predict by the network alone."""
        return self.backbone(batch)

    def explained_label(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """The prediction or the label that is explained, in the shape of labels."""
        if self.task.kind == "multiclass":
            own = logits.argmax(dim=-1)
        elif self.task.kind == "regression":
            own = self.task.in_units(logits.detach())
        else:
            own = (logits > 0).to(logits.dtype)
        if self.target == "prediction" or batch.y is None:
            return own
        return torch.where(batch.y.isnan(), own, batch.y)


def graph_sum(values: Tensor, batch: GraphBatch) -> Tensor:
    """The sum over the edges of each graph, ``[E]`` to ``[B]``."""
    return values.new_zeros(batch.num_graphs).index_add(0, batch.edge_graph, values)


def graph_mean(values: Tensor, batch: GraphBatch) -> Tensor:
    """The mean over the edges of each graph, ``[E]`` to ``[B]``; 0 for a graph without edges."""
    return graph_sum(values, batch) / batch.edge_ptr.diff().clamp(min=1)


def entropy(mask: Tensor) -> Tensor:
    """The entropy of Bernoulli(mask), ``[E]`` to ``[E]``.

    The mask is pulled in a little, as in PGExplainer, so that the gradient is finite at 0 and 1.
    """
    p = 0.99 * mask + 0.005
    return -p * p.log() - (1 - p) * (1 - p).log()


class ExplainerMethod(Method):
    """The second phase: an explainer is learnt on a frozen network.

    Attributes:
        learns: Whether the explainer has weights to be learnt. (default: ``True``)
    """

    learns: ClassVar[bool] = True
    model: PostHocModel
    settings: PostHocSettings

    @property
    @abstractmethod
    def explain_epochs(self) -> int:
        """The number of epochs."""

    @abstractmethod
    def make_optimisers(self) -> dict[str, Optimizer]:
        """Make the optimisers, by name."""

    @abstractmethod
    def explain_step(self, batch: GraphBatch, context: Context) -> Losses:
        """Update the explainer on one batch."""

    @abstractmethod
    def explain(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """The explainer's current scores of a batch, and its losses."""

    def phases(self) -> tuple[Phase, ...]:
        """One phase, which explains."""
        traces = self.settings.trace
        return (Phase(EXPLAIN, self.explain_epochs, steps=self.learns, traces=traces),)

    def begin(self, phase: str) -> None:
        """Make the explainer's optimisers."""
        self._optimisers = self.make_optimisers()

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Update the explainer on one batch."""
        return self.explain_step(batch, context)

    def evaluate(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """The explainer's current scores of a batch, and its losses."""
        return self.explain(batch, context)

    def optimisers(self) -> dict[str, Optimizer]:
        """The explainer's optimisers."""
        return self._optimisers


class PostHocMethod(PretrainedMethod, ExplainerMethod):
    """ERM first; its best epoch on validation data is frozen, then explained.

    The last epoch is reported: without the truth, nothing shows which one is best.
    """

    reports = "last"

    def __init__(
        self, model: PostHocModel, settings: Any, training: TrainingSettings, seed: int = 0
    ) -> None:
        super().__init__(model, settings, training, seed)
        self.first = Pretraining(model.backbone, training, "best")

    def begin(self, phase: str) -> None:
        """Make the optimisers of a phase; in the second one, the network is frozen."""
        self.model.frozen = phase == EXPLAIN
        super().begin(phase)

    def learn(self, store: GraphStore, seed: int, batch_size: int) -> None:
        """Run the second phase alone, on a network that is trained already.

        All flags of its modules are as before afterwards.
        """
        self.begin(EXPLAIN)
        device = next(self.model.parameters()).device
        with self.model.evaluating(gradients=True):
            for epoch in range(self.explain_epochs):
                draws = Draws(seed, EXPLAIN, epoch)
                order = draws.child("order").permutation(len(store))
                for start in range(0, len(order), batch_size):
                    batch = store.batch(order[start : start + batch_size]).to(device)
                    self.explain_step(batch, Context(EXPLAIN, epoch, draws))
