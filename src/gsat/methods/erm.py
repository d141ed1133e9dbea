"""ERM: the backbone alone, on the prediction loss. It has nothing to say about edges."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import PositiveInt
from torch import Tensor
from torch.optim import Adam, Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from gsat.graphs import GraphBatch, GraphStore
from gsat.methods.base import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.models import BACKBONES, Backbone, InterpretableModel, ModelOutput
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

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Logits of a batch; ``draws`` is the source of dropout masks, None for no dropout."""
        logits = self.backbone(batch, draws=draws)
        ones = logits.new_ones(batch.num_edges)
        return ModelOutput(logits, ones, ones, ones)

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
    """``[method.erm]``.

    Attributes:
        plateau: the learning rate is halved when the validation metric has not risen for more than
            this many epochs; absent: it stays.
    """

    plateau: PositiveInt | None = None


class ERMMethod(Method):
    """Empirical risk minimisation; also the first phase of GSAT*."""

    name = "erm"
    title = "ERM"
    summary = "the backbone alone; it does not explain"
    paper = "Vapnik, Principles of Risk Minimization for Learning Theory, NIPS 1991"
    Settings: ClassVar[type[MethodSettings]] = ERMSettings
    Model = Plain
    shares = True
    model: Plain

    def __init__(
        self, model: Plain, training: TrainingSettings, settings: ERMSettings | None = None
    ) -> None:
        self.model, self.training = model, training
        self.plateau = settings.plateau if settings else None
        self.schedule: ReduceLROnPlateau | None = None

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """The backbone as it is."""
        return cls(Plain(backbone), training, settings)

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
        if self.plateau is not None:
            self.schedule = ReduceLROnPlateau(
                self.optimiser, "max", factor=0.5, patience=self.plateau
            )

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """One gradient step on the prediction loss."""
        assert batch.y is not None
        logits = context.sharing.through(self.model)(batch, context.draws).logits
        loss = context.sharing.mean(self.model.task.loss(logits, batch.y), batch.y)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        return {"loss": loss}

    def evaluate(
        self, batch: GraphBatch, context: Context
    ) -> tuple[ModelOutput, dict[str, Tensor]]:
        """Logits without dropout, and scores of 1."""
        assert batch.y is not None
        said = self.model(batch)
        return said, {"loss": self.model.task.loss(said.logits, batch.y)}

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:
        """Lower the learning rate on a plateau."""
        merit = self.model.task.merit(valid)
        if self.schedule is not None and merit is not None:
            self.schedule.step(merit)

    def extra_state(self) -> dict[str, Any]:
        """Where the schedule stands; the learning rate itself is the optimiser's."""
        if self.schedule is None:
            return {}
        return {"best": self.schedule.best, "waited": self.schedule.num_bad_epochs}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Restore it."""
        if self.schedule is not None:
            self.schedule.best, self.schedule.num_bad_epochs = state["best"], state["waited"]

    def optimisers(self) -> dict[str, Optimizer]:
        """The one Adam."""
        return {"adam": self.optimiser}
