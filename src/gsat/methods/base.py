"""The interface of a method: its steps, its predictions and its state.

The training loop owns order, randomness, selection, checkpoints, logs and progress. A method owns
its modules, optimisers and updates. A new method is one file: subclass :class:`Method`, declare its
settings, and write :meth:`~Method.step`::

    class MySettings(MethodSettings):
        strength: float = Field(0.1, ge=0, description="Weight of the penalty.")

    @register_method("my-method")
    class MyMethod(Method):
        Settings = MySettings
        Model = GSAT
        ...
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PositiveInt
from torch import Tensor, nn
from torch.optim import Optimizer

from gsat.core.settings import Settings
from gsat.datasets.load import Dataset
from gsat.graphs import GraphBatch
from gsat.models import Backbone, InterpretableModel, ModelOutput
from gsat.ops import Adam, Draws

Losses = dict[str, Tensor]


class MethodSettings(Settings):
    """Base of a method's own settings, the table ``[method.NAME]`` of a recipe."""


class TrainingSettings(Settings):
    """The table ``[training]`` of a recipe: the settings that all methods share."""

    epochs: PositiveInt = Field(100, le=100_000, description="Number of epochs.")
    batch_size: PositiveInt = Field(128, le=1_000_000, description="Graphs per step.")
    lr: float = Field(1e-3, gt=0, description="Learning rate.")
    weight_decay: float = Field(0.0, ge=0, description="Weight decay.")
    selection: Annotated[
        Literal["stable", "last"] | None,
        # The name of earlier versions.
        BeforeValidator(lambda name: "stable" if name == "settledness" else name),
    ] = Field(
        None,
        description="Epoch to report: absent, the one with the best validation metric and, of "
        "equals, the lowest loss, as published; 'stable', among those within a standard error "
        "of the best metric, the one with the highest score stability (rank correlation of edge "
        "scores with those of the epoch before); 'last', the last one.",
    )
    snapshots: PositiveInt | None = Field(
        None,
        le=1000,
        description="Explain by the mean score of this many of the epochs that could be selected; "
        "absent: by the best epoch alone.",
    )
    snapshot_epochs: Literal["last", "spread"] | None = Field(
        None,
        description="Epochs of the snapshots: the 'last' ones, or 'spread' evenly over all that "
        "could be selected; absent: 'last'.",
    )


@dataclass(frozen=True)
class Phase:
    """A sequence of epochs with one kind of step.

    Attributes:
        name: Names the phase in logs and random draws.
        epochs: Number of epochs.
        selectable_from: The first epoch that may be selected as the best; None if none may.
        explains: Whether edges are scored; without, explanation metrics are None.
        patience: Epochs without a better one after which training ends; only for the last phase.
        steps: Whether there are steps on the training set.
        traces: Whether the training set is evaluated after each epoch, for the log.
    """

    name: str
    epochs: int
    selectable_from: int | None = 0
    explains: bool = True
    patience: int | None = None
    steps: bool = True
    traces: bool = False


class GradientSync:
    """Averages a step's gradients over processes; this class is for a single process."""

    def through(self, network: nn.Module) -> nn.Module:
        """A module to call in place of a network, so that its gradients are averaged."""
        return network

    def mean(self, value: Tensor, over: Tensor) -> Tensor:
        """Weight a mean so that its mean over all processes is the mean over all entries.

        Args:
            value: A mean over the entries of ``over``, a scalar.
            over: The entries of this process; NaN (a missing label) does not count.
        """
        return value


@dataclass(frozen=True)
class Context:
    """The place of a step in a training.

    Attributes:
        phase: The name of the phase.
        epoch: The epoch within the phase, from 0.
        draws: The source of random numbers.
        step: The number of the step within the epoch, from 0.
        steps: The number of steps of the epoch.
        sync: The processes that share the step.
    """

    phase: str
    epoch: int
    draws: Draws
    step: int = 0
    steps: int = 1
    sync: GradientSync = field(default_factory=GradientSync)


class Method(ABC):
    """A way to train an interpretable model.

    Args:
        model: The model that is trained, saved and loaded.
        settings: The method's own settings, of the type :attr:`Settings`.
        training: The settings that all methods share.
        seed: Decides what is random in the method itself. (default: ``0``)

    Attributes:
        name: The name it is registered under, as users type it.
        title: The name as papers print it.
        summary: What it does, in one line.
        paper: Reference of its publication.
        reports: Which epoch is reported, the ``best`` or the ``last``.
        Settings: The type of its settings.
        Model: The type of its model.
        based_on: Another method, whose settings in a recipe apply to this one unless its own table
            overrides them.
        data_parallel: Whether several processes can train it together: then a step calls its
            network through ``context.sync``, and its losses are means.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    reports: ClassVar[Literal["best", "last"]] = "best"
    Settings: ClassVar[type[MethodSettings]] = MethodSettings
    Model: ClassVar[type[InterpretableModel]]
    based_on: ClassVar[str | None] = None
    data_parallel: ClassVar[bool] = False
    model: Any
    settings: Any

    def __init__(
        self, model: Any, settings: Any, training: TrainingSettings, seed: int = 0
    ) -> None:
        self.model, self.settings, self.training, self.seed = model, settings, training, seed
        model.method = self.name
        self.set_up()

    def set_up(self) -> None:  # noqa: B027
        """Make whatever training needs beyond the model; called by the constructor."""

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """Make the method and its model on a fresh backbone."""
        return cls(cls.make_model(backbone, settings, seed), settings, training, seed)

    @classmethod
    def make_model(cls, backbone: Backbone, settings: Any, seed: int) -> InterpretableModel:
        """Make the model: pass its constructor those settings that it has arguments for."""
        taken = inspect.signature(cls.Model).parameters
        values = {**settings.model_dump(), "seed": seed}
        return cls.Model(backbone, **{name: values[name] for name in taken if name in values})

    def prepare(self, data: Dataset) -> None:  # noqa: B027
        """Read the data before anything is written.

        Raises:
            DataError: If the method can't be trained on it.
        """

    def phases(self) -> tuple[Phase, ...]:
        """The phases, in order; by default one, of which any epoch may be selected."""
        return (Phase("train", self.training.epochs, explains=self.Model.explains),)

    def begin(self, phase: str) -> None:
        """Make the optimisers of a phase; by default one Adam over :meth:`parameters`.

        The loop calls it once per phase, before it restores any state of that phase.
        """
        training = self.training
        self.optimiser = Adam(self.parameters(), training.lr, training.weight_decay)

    def parameters(self) -> Iterable[nn.Parameter]:
        """The weights that are trained; by default all of the model."""
        return self.model.parameters()

    @abstractmethod
    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Update the model on one batch.

        Returns:
            The scalars to log; ``loss`` must be among them.
        """

    def update(self, loss: Tensor) -> None:
        """Take a step of :attr:`optimiser` down the gradient of a scalar loss."""
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:  # noqa: B027
        """End an epoch, given its validation metrics: the place for learning-rate schedules."""

    def finish_phase(  # noqa: B027
        self, context: Context, measure: Callable[[str], dict[str, Any]]
    ) -> None:
        """End a phase, after its last epoch.

        Args:
            context: The last epoch.
            measure: ``measure("test")`` returns the method's current metrics on the test set.
        """

    def calibrate(self, batches: Iterable[GraphBatch]) -> bool:
        """Adjust the trained model to the training set without a gradient.

        Returns:
            Whether anything has changed.
        """
        return False

    def report(self) -> dict[str, Any]:
        """Additional values for ``result.json``."""
        return {}

    def evaluate(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """Predict and score a batch without updating.

        The result must depend only on the model's weights and the context, as the test set is
        evaluated after training with the weights of the best epoch.

        Returns:
            The output, and the scalars to log; ``loss``, the prediction loss, breaks ties between
            epochs.
        """
        assert batch.y is not None
        output: ModelOutput = self.model(batch)
        return output, {"loss": self.model.task.loss(output.logits, batch.y)}

    def optimisers(self) -> dict[str, Optimizer]:
        """The optimisers of the current phase, by name."""
        return {"adam": self.optimiser}

    def networks(self) -> dict[str, nn.Module]:
        """All modules with weights, by name."""
        return {"model": self.model}

    def to_device(self, device: str) -> Self:
        """Move all modules to a torch device; called before :meth:`begin`."""
        for network in self.networks().values():
            network.to(device)
        return self

    def extra_state(self) -> dict[str, Any]:
        """Whatever else a resumed run needs, as plain values for JSON."""
        return {}

    def load_extra_state(self, state: dict[str, Any]) -> None:  # noqa: B027
        """Restore :meth:`extra_state`, read back from JSON."""
