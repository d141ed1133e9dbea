"""The base of post-hoc explainers: a network is trained alone, frozen, and then explained."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor
from torch.optim import Optimizer

from gsat.core.errors import GSATError
from gsat.graphs import GraphBatch, GraphStore
from gsat.methods.base import Context, Losses, MethodSettings, Phase
from gsat.methods.pretraining import PretrainedMethod
from gsat.models import Backbone, InterpretableModel, ModelOutput
from gsat.ops import Draws
from gsat.tasks import Task

EXPLAIN = "explain"

Target = Literal["prediction", "label"]


class PostHocSettings(MethodSettings):
    """Settings of all post-hoc explainers."""

    target: Target = Field(
        "prediction",
        description="What is explained: the network's own prediction, or the label where a graph "
        "has one.",
    )
    trace: bool = Field(
        True, description="Whether explanations of the training set are measured every epoch, too."
    )


class PostHocModel(InterpretableModel):
    """A frozen network and its explainer.

    The network stays in evaluation mode, unless ``frozen`` is False: it is trained first.
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
        """Set the mode like torch, but keep a frozen network in evaluation mode."""
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
        """Predict without explaining."""
        return self.backbone(batch)

    def explained_label(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """The prediction or the label that is explained, in the shape of labels."""
        if self.task.kind == "multiclass":
            predicted = logits.argmax(dim=-1)
        elif self.task.kind == "regression":
            predicted = self.task.in_units(logits.detach())
        else:
            predicted = (logits > 0).to(logits.dtype)
        if self.target == "prediction" or batch.y is None:
            return predicted
        return torch.where(batch.y.isnan(), predicted, batch.y)


def mask_losses(
    task: Task, logits: Tensor, answer: Tensor, mask: Tensor, batch: GraphBatch
) -> Losses:
    """Losses of a mask for each graph, ``[B]``: of the masked answer, its size and its entropy."""
    return {
        "answer": task.graph_losses(logits, answer),
        "size": graph_sum(mask, batch),
        "entropy": graph_mean(entropy(mask), batch),
    }


def graph_sum(values: Tensor, batch: GraphBatch) -> Tensor:
    """The sum over the edges of each graph, ``[E]`` to ``[B]``."""
    return values.new_zeros(batch.num_graphs).index_add(0, batch.edge_graph, values)


def graph_mean(values: Tensor, batch: GraphBatch) -> Tensor:
    """The mean over the edges of each graph, ``[E]`` to ``[B]``; 0 for a graph without edges."""
    return graph_sum(values, batch) / batch.edge_ptr.diff().clamp(min=1)


def entropy(mask: Tensor) -> Tensor:
    """The entropy of Bernoulli(mask), ``[E]``, with a finite gradient at 0 and 1 (PGExplainer)."""
    p = 0.99 * mask + 0.005
    return -p * p.log() - (1 - p) * (1 - p).log()


class PostHocMethod(PretrainedMethod):
    """ERM, whose best epoch on validation data is frozen; then an explainer is learnt on it.

    The last epoch is reported: without ground truth, the best one is unknown.
    """

    reports = "last"
    learns: ClassVar[bool] = True  # whether the explainer has weights
    model: PostHocModel
    settings: PostHocSettings

    def set_up(self) -> None:
        """Make the pre-training of the network that is explained."""
        self.pretrain("best")

    @property
    @abstractmethod
    def explain_epochs(self) -> int:
        """The number of epochs of the second phase."""

    @abstractmethod
    def make_optimisers(self) -> dict[str, Optimizer]:
        """Make the explainer's optimisers, by name."""

    @abstractmethod
    def explain_step(self, batch: GraphBatch, context: Context) -> Losses:
        """Update the explainer on one batch."""

    @abstractmethod
    def explain(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """The explainer's current scores of a batch, and its losses."""

    def phases(self) -> tuple[Phase, ...]:
        """Pre-training, and a phase that explains."""
        epochs, traces = self.explain_epochs, self.settings.trace
        return (self.first_phase, Phase(EXPLAIN, epochs, steps=self.learns, traces=traces))

    def begin(self, phase: str) -> None:
        """Make the optimisers of a phase; the second one freezes the network."""
        self.begin_or_end_pretraining(phase)
        self.model.frozen = phase == EXPLAIN
        if self.model.frozen:
            self._optimisers = self.make_optimisers()

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Update the network, in the second phase the explainer."""
        step = self.explain_step if context.phase == EXPLAIN else super().step
        return step(batch, context)

    def evaluate(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """The outputs and losses of the network, in the second phase of the explainer."""
        evaluate = self.explain if context.phase == EXPLAIN else super().evaluate
        return evaluate(batch, context)

    def optimisers(self) -> dict[str, Optimizer]:
        """The optimisers of the current phase."""
        return self.erm.optimisers() if self.pretraining else self._optimisers

    def learn(self, store: GraphStore, seed: int, batch_size: int) -> None:
        """Run the second phase alone, on a trained network; its modes are restored afterwards."""
        self.begin(EXPLAIN)
        device = next(self.model.parameters()).device
        with self.model.evaluating(gradients=True):
            for epoch in range(self.explain_epochs):
                draws = Draws(seed, EXPLAIN, epoch)
                order = draws.child("order").permutation(len(store))
                for start in range(0, len(order), batch_size):
                    batch = store.batch(order[start : start + batch_size]).to(device)
                    self.explain_step(batch, Context(EXPLAIN, epoch, draws))
