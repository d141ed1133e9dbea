"""What the post-hoc explainers share: a network is trained alone, frozen, and then explained."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from gsat.errors import GSATError
from gsat.graphs import GraphBatch, GraphStore
from gsat.methods.base import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.methods.pretraining import PRETRAIN, Pretraining
from gsat.models import BACKBONES, Backbone, InterpretableModel, ModelOutput
from gsat.ops import Draws

EXPLAIN = "explain"

Target = Literal["prediction", "label"]


class PosthocSettings(MethodSettings):
    """What the tables of all post-hoc explainers have.

    Attributes:
        target: the answer that is explained, the network's own ``prediction`` or the ``label``
            (the prediction, where a graph has none).
        trace: whether the training set's explanations are measured after every epoch, too.
    """

    target: Target = "prediction"
    trace: bool = True


class Posthoc(InterpretableModel):
    """A frozen network and a view from outside of which edges it used.

    The network is never in training mode, has no dropout and is in no optimiser.

    Attributes:
        settings: the arguments of the constructor next to the backbone, as plain values.
        frozen: False lets :meth:`train` reach the network, to train it before it is explained.
    """

    def __init__(self, backbone: Backbone, target: Target, **settings: Any) -> None:
        super().__init__()
        if backbone.task.level == "node":
            raise GSATError(
                "post-hoc explainers are for answers about graphs and these are about nodes; "
                "use gsat or gsat-star"
            )
        self.backbone, self.task, self.on, self.r = backbone, backbone.task, "edge", None
        self.target = target
        self.settings = {"target": target, **settings}
        self.frozen = True

    def train(self, mode: bool = True) -> Self:
        """As torch does, but a frozen network stays in evaluation mode."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {"backbone": {"name": self.backbone.name, **self.backbone.config}, **self.settings}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The model :attr:`config` describes, with fresh weights."""
        settings = dict(config)
        described = dict(settings.pop("backbone"))
        return cls(BACKBONES[described.pop("name")].from_config(described), **settings)

    def check_fits(self, store: GraphStore) -> None:
        """Raise a :class:`DataError` when the graphs have other features than the model knows."""
        self.backbone.check_fits(store)

    def answer(self, logits: Tensor, batch: GraphBatch) -> Tensor:
        """What the explained run has to say, in the shape of labels, from the network's own logits
        [B, num_logits]."""
        if self.task.kind == "multiclass":
            own = logits.argmax(dim=-1)
        elif self.task.kind == "regression":
            own = logits.detach() * self.task.scale + self.task.centre
        else:
            own = (logits > 0).to(logits.dtype)
        if self.target == "prediction" or batch.y is None:
            return own
        return torch.where(batch.y.isnan(), own, batch.y)


def graph_sum(values: Tensor, batch: GraphBatch) -> Tensor:
    """The sum over the edges of each graph, [E] to [B]."""
    return values.new_zeros(batch.num_graphs).index_add(0, batch.edge_graph, values)


def graph_mean(values: Tensor, batch: GraphBatch) -> Tensor:
    """The mean over the edges of each graph, [E] to [B]; 0 for a graph without edges."""
    return graph_sum(values, batch) / batch.edge_ptr.diff().clamp(min=1)


def entropy(mask: Tensor) -> Tensor:
    """That of a coin that falls so often [E]; pulled in a little, as PGExplainer does, so that its
    gradient is finite at 0 and 1."""
    p = 0.99 * mask + 0.005
    return -p * p.log() - (1 - p) * (1 - p).log()


class PosthocMethod(Method):
    """ERM first; its best epoch on validation data is frozen, then explained.

    The last epoch is reported: nothing a user has without the truth tells which one is best.
    """

    reports = "last"
    learns: ClassVar[bool] = True  # whether the explainer has weights to be learnt
    model: Posthoc
    settings: PosthocSettings
    first: Pretraining

    def __init__(
        self, model: Posthoc, settings: PosthocSettings, training: TrainingSettings
    ) -> None:
        self.model, self.settings, self.training = model, settings, training
        self.first = Pretraining(model.backbone, training, "best")

    @property
    @abstractmethod
    def explain_epochs(self) -> int:
        """Epochs of the second phase."""

    @abstractmethod
    def make_optimisers(self) -> dict[str, Optimizer]:
        """Those of the second phase, by name."""

    @abstractmethod
    def explain_step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """Update the explainer on one batch."""

    @abstractmethod
    def explain(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, dict[str, Tensor]]:
        """What the explainer says of a batch as it stands, and its losses."""

    def phases(self) -> tuple[Phase, ...]:
        """Training, of which no epoch is reported, and explaining."""
        traces = self.settings.trace
        return self.first.phase, Phase(
            EXPLAIN, self.explain_epochs, steps=self.learns, traces=traces
        )

    def begin(self, phase: str) -> None:
        """ERM's Adam and room for the best epoch, or the explainer's optimisers."""
        self.model.frozen = phase == EXPLAIN
        self.first.begin(phase)
        self._optimisers = self.make_optimisers() if phase == EXPLAIN else self.first.optimisers()

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """ERM's step, then the explainer's."""
        if context.phase == PRETRAIN:
            return self.first.step(batch, context)
        return self.explain_step(batch, context)

    def evaluate(
        self, batch: GraphBatch, context: Context
    ) -> tuple[ModelOutput, dict[str, Tensor]]:
        """ERM's, then the explainer's."""
        if context.phase == PRETRAIN:
            return self.first.evaluate(batch, context)
        return self.explain(batch, context)

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:
        """Remember the network that will be explained."""
        self.first.finish_epoch(context, valid)

    def finish_phase(self, context: Context, measure: Callable[[str], dict[str, Any]]) -> None:
        """After training: go back to the best epoch and see how good it is."""
        self.first.finish_phase(context, measure)

    def learn(self, store: GraphStore, seed: int, batch_size: int) -> None:
        """The second phase by itself, on a network that is trained already; all flags of its
        modules are as before afterwards."""
        self.begin(EXPLAIN)
        device = next(self.model.parameters()).device
        with self.model.evaluating(gradients=True):
            for epoch in range(self.explain_epochs):
                draws = Draws(seed, EXPLAIN, epoch)
                order = draws.child("order").permutation(len(store))
                for start in range(0, len(order), batch_size):
                    batch = store.batch(order[start : start + batch_size]).to(device)
                    self.explain_step(batch, Context(EXPLAIN, epoch, draws))

    def report(self) -> dict[str, Any]:
        """The network that was explained."""
        return self.first.report()

    def optimisers(self) -> dict[str, Optimizer]:
        """Those of the current phase."""
        return self._optimisers

    def networks(self) -> dict[str, nn.Module]:
        """The model, and while it is trained the best network so far."""
        return super().networks() | self.first.networks()

    def extra_state(self) -> dict[str, Any]:
        """Where the first phase stands."""
        return self.first.state()

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.first.load_state(state)
