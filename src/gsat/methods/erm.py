"""ERM: the backbone alone, on the prediction loss. It has nothing to say about edges."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor
from torch.optim import Adam, Optimizer

from gsat.graphs import GraphBatch, GraphStore
from gsat.methods.base import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.models import BACKBONES, Attended, Backbone, InterpretableModel
from gsat.ops import Draws


class Plain(InterpretableModel):
    """A backbone without attention; the score of every edge is 1.

    Args:
        backbone: the network.
    """

    explains = False

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone, self.task, self.on, self.r = backbone, backbone.task, "edge", None

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> Attended:
        """Logits of a batch; ``draws`` is the source of dropout masks, None for no dropout."""
        logits = self.backbone(batch, draws=draws)
        ones = logits.new_ones(batch.num_edges)
        return Attended(logits, ones, ones, ones)

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {"backbone": {"name": self.backbone.name, **self.backbone.config}}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Plain:
        """The model :attr:`config` describes, with fresh weights."""
        described = dict(config["backbone"])
        return cls(BACKBONES[described.pop("name")].from_config(described))

    def check_fits(self, store: GraphStore) -> None:
        """Raise a :class:`DataError` when the graphs have other features than the model knows."""
        self.backbone.check_fits(store)


class ERMSettings(MethodSettings):
    """``[method.erm]``: nothing of its own."""


class ERMMethod(Method):
    """Empirical risk minimisation; also the first phase of GSAT*."""

    name = "erm"
    title = "ERM"
    Settings = ERMSettings
    Model = Plain
    model: Plain

    def __init__(self, model: Plain, training: TrainingSettings) -> None:
        self.model, self.training = model, training

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """The backbone as it is."""
        return cls(Plain(backbone), training)

    def phases(self) -> tuple[Phase, ...]:
        """One phase; any epoch may be the best."""
        return (Phase("train", self.training.epochs, explains=False),)

    def begin(self, phase: str) -> None:
        """One Adam."""
        self.optimiser = Adam(
            self.model.parameters(),
            self.training.lr,
            weight_decay=self.training.weight_decay,
            fused=True,
        )

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """One gradient step on the prediction loss."""
        assert batch.y is not None
        loss = self.model.task.loss(self.model(batch, context.draws).logits, batch.y)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return {"loss": loss}

    def evaluate(self, batch: GraphBatch, context: Context) -> tuple[Attended, dict[str, Tensor]]:
        """Logits without dropout, and scores of 1."""
        assert batch.y is not None
        said = self.model(batch)
        return said, {"loss": self.model.task.loss(said.logits, batch.y)}

    def optimisers(self) -> dict[str, Optimizer]:
        """The one Adam."""
        return {"adam": self.optimiser}
