"""The interface of a method: what it does in a step, how it predicts, what has to be saved.

The training loop owns order, randomness, selection, checkpoints, logs and progress. A method owns
its modules, its optimisers and its update. A new method is one file: subclass :class:`Method`,
declare its settings, list it in ``METHODS``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Optimizer

from gsat.graphs import GraphBatch
from gsat.gsat import GSAT
from gsat.models import Backbone, InterpretableModel, ModelOutput
from gsat.ops import Draws

if TYPE_CHECKING:
    from gsat.datasets.load import Dataset
    from gsat.methods.pretraining import Pretraining


class MethodSettings(BaseModel):
    """Base of a method's own settings, the table ``[method.NAME]`` of a recipe."""

    # Strict: "3" is not 3 and 0.5 is not a number of epochs; a wrong type is said, not guessed.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class TrainingSettings(BaseModel):
    """The table ``[training]`` of a recipe: what all methods share."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    epochs: PositiveInt = 100
    batch_size: PositiveInt = 128
    lr: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.0, ge=0)


@dataclass(frozen=True)
class Phase:
    """A stretch of epochs with one kind of step.

    Attributes:
        name: for logs and random draws. epochs: how many.
        selectable_from: the first epoch that may be chosen as the best; None for none of them.
        explains: whether edges are scored in it; without, explanation metrics are None.
        patience: of the last phase; it ends after so many epochs without a better one.
        steps: whether the training set is stepped through.
        traces: whether the training set is evaluated after each epoch, for the log.
    """

    name: str
    epochs: int
    selectable_from: int | None = 0
    explains: bool = True
    patience: int | None = None
    steps: bool = True
    traces: bool = False


class Sharing:
    """How a step is shared among processes, each with its own part of the batch. Here there is one
    process, and nothing is to be done."""

    def through(self, network: nn.Module) -> nn.Module:
        """The network, called so that its gradient becomes the mean over all processes."""
        return network

    def mean(self, value: Tensor, over: Tensor) -> Tensor:
        """``value``, a mean over the entries of ``over`` that are not NaN (missing labels), weighed
        so that its mean over all processes is the mean over the entries of all of them."""
        return value


@dataclass(frozen=True)
class Context:
    """Where a step happens: the phase, the epoch within it, and the source of random numbers; in
    training also the number of the step within the epoch, how many steps the epoch has, and the
    processes it is shared with."""

    phase: str
    epoch: int
    draws: Draws
    step: int = 0
    steps: int = 1
    sharing: Sharing = field(default_factory=Sharing)


class Method(ABC):
    """A way to train an interpretable model.

    Attributes:
        name: as users type it. title: as papers print it. summary: what it does, in one line.
        paper: where it comes from. reports: which epoch is reported.
        Settings: the type of its settings. based_on: the method whose settings in a recipe file
            hold for this one, too, unless its own table says otherwise.
        Model: the type of the model, whose ``from_config`` makes it again.
        shares: whether several processes can train it together: then a step runs its network by
            ``context.sharing`` and its losses are means.
        model: what is trained, saved and loaded.
        first: how the backbone is trained alone beforehand, if it is.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    reports: ClassVar[Literal["best", "last"]] = "best"
    Settings: ClassVar[type[MethodSettings]]
    based_on: ClassVar[str | None] = None
    Model: ClassVar[Any] = GSAT
    shares: ClassVar[bool] = False
    model: InterpretableModel
    first: Pretraining | None = None

    @classmethod
    @abstractmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """The method on a fresh backbone."""

    def prepare(self, data: Dataset) -> None:  # noqa: B027
        """Look at the data before anything is written; refuse what it can't be trained on."""

    @abstractmethod
    def phases(self) -> tuple[Phase, ...]:
        """The phases, in order."""

    @abstractmethod
    def begin(self, phase: str) -> None:
        """Get ready for a phase: make its optimisers. Called once per phase, before any state of
        that phase is restored."""

    @abstractmethod
    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """Update on one batch; returns the scalars to log. ``loss`` must be among them."""

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:  # noqa: B027
        """Called after validation; the place for learning-rate schedules."""

    def finish_phase(  # noqa: B027
        self, context: Context, measure: Callable[[str], dict[str, Any]]
    ) -> None:
        """Called after a phase's last epoch; ``measure("test")`` gives the metrics of a split."""

    def report(self) -> dict[str, Any]:
        """More for ``result.json``, as plain values."""
        return {}

    @abstractmethod
    def evaluate(
        self, batch: GraphBatch, context: Context
    ) -> tuple[ModelOutput, dict[str, Tensor]]:
        """Predict and score a batch without updating, with the scalars to log; ``loss``, the
        prediction loss, breaks ties between epochs."""

    @abstractmethod
    def optimisers(self) -> dict[str, Optimizer]:
        """The optimisers of the current phase, by name."""

    def networks(self) -> dict[str, nn.Module]:
        """All modules with weights, by name."""
        return {"model": self.model}

    def to_device(self, device: str) -> Self:
        """Move all modules; called before :meth:`begin`."""
        for network in self.networks().values():
            network.to(device)
        return self

    def extra_state(self) -> dict[str, Any]:
        """Anything else a resumed run needs, as plain values for JSON."""
        return {}

    def load_extra_state(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Restore :meth:`extra_state`."""
