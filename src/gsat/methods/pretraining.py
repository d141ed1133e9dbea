"""Pre-training: a first phase that trains the backbone alone, and methods that start with it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from gsat import metrics
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, Losses, Method, Phase, TrainingSettings
from gsat.methods.erm import ERMMethod, ERMSettings, PlainModel
from gsat.models import Backbone, ModelOutput

PRETRAIN = "pretrain"

Epoch = Literal["last", "best"]


class Pretraining:
    """ERM on a backbone, which then gets the weights of the last or the best epoch.

    Attributes:
        keep: The epoch whose weights are used, ``"last"`` or ``"best"``.
        best: The backbone with the weights of the best epoch so far; None when training is over.
        epochs: Number and metrics of the last and of the best epoch.
        weights: The weights after both, from the end of the phase until the next one begins.
        running: Whether this is the current phase.
    """

    def __init__(
        self,
        backbone: Backbone,
        training: TrainingSettings,
        keep: Epoch,
        settings: ERMSettings | None = None,
    ) -> None:
        self.backbone, self.keep = backbone, keep
        self.settings = settings or ERMSettings.model_validate({})
        self.erm = ERMMethod(PlainModel(backbone), self.settings, training)
        self.best: Backbone | None = None
        self.epochs: dict[Epoch, dict[str, Any]] = {}
        self.weights: dict[Epoch, dict[str, Tensor]] = {}
        self.running = True

    @property
    def phase(self) -> Phase:
        """The phase; none of its epochs can be reported."""
        epochs = self.erm.training.epochs
        return Phase(PRETRAIN, epochs, selectable_from=None, explains=False)

    @property
    def identity(self) -> dict[str, Any]:
        """Plain values that decide the trained weights: methods with equal ones can share them."""
        after = {"selection", "snapshots"}  # only matter to later phases
        training = self.erm.training.model_dump(exclude=after)
        return {"training": training, "erm": self.settings.model_dump()}

    def begin(self, phase: str) -> None:
        """Make ERM's optimiser, or end the pre-training if another phase begins."""
        self.running = phase == PRETRAIN
        self.best, self.weights = None, {}
        if self.running:
            self.erm.begin(phase)
            self.best = copy.deepcopy(self.backbone)

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take ERM's step."""
        return self.erm.step(batch, context)

    def evaluate(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """Predict by the backbone alone."""
        return self.erm.evaluate(batch, context)

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:
        """Remember the epoch, and its weights if it is the best."""
        if context.phase != PRETRAIN:
            return
        assert self.best is not None
        self.erm.finish_epoch(context, valid)
        merit, before = self.backbone.task.merit, self.epochs.get("best", {}).get("valid", {})
        self.epochs["last"] = {"epoch": context.epoch, "valid": valid}
        scores = (merit(valid), valid["loss"], merit(before), before.get("loss"))
        if not before or metrics.better(*scores):
            self.epochs["best"] = {**self.epochs["last"]}
            self.best.load_state_dict(self.backbone.state_dict())

    def finish_phase(self, context: Context, measure: Callable[[str], dict[str, Any]]) -> None:
        """Measure both epochs on the test set, then restore the one to keep."""
        if context.phase != PRETRAIN:
            return
        assert self.best is not None
        self.weights = {"last": _copy(self.backbone), "best": _copy(self.best)}
        other: Epoch = "last" if self.keep == "best" else "best"
        for name in (other, self.keep):
            self.backbone.load_state_dict(self.weights[name])
            self.epochs[name]["test"] = measure("test")

    def take(
        self, weights: dict[Epoch, dict[str, Tensor]], epochs: dict[Epoch, dict[str, Any]]
    ) -> None:
        """Use the result of an equal pre-training in place of the phase."""
        self.backbone.load_state_dict(weights[self.keep])
        self.epochs = epochs

    def report(self) -> dict[str, Any]:
        """The metrics of the backbone alone."""
        return {"pretrained": {"checkpoint": self.keep, **self.epochs[self.keep]}}

    def optimisers(self) -> dict[str, Optimizer]:
        """ERM's optimisers."""
        return self.erm.optimisers()

    def networks(self) -> dict[str, nn.Module]:
        """The best backbone so far, while it is trained."""
        return {} if self.best is None else {"best backbone": self.best}

    def state(self) -> dict[str, Any]:
        """Both epochs and, while it is running, ERM's state, as plain values."""
        return {"epochs": self.epochs, "erm": self.erm.extra_state() if self.running else {}}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state`."""
        self.epochs = state["epochs"]
        if self.running:
            self.erm.load_extra_state(state["erm"])


class PretrainedMethod(Method):
    """A mixin that trains the backbone alone first: ``class My(PretrainedMethod, GSATMethod)``.

    It handles the first phase and leaves the others to the next class. :meth:`set_up` sets
    :attr:`first`.
    """

    first: Pretraining

    def phases(self) -> tuple[Phase, ...]:
        """Pre-training, then the method's own phases."""
        return (self.first.phase, *super().phases())

    def begin(self, phase: str) -> None:
        """Make the optimisers of a phase."""
        self.first.begin(phase)
        if phase != PRETRAIN:
            super().begin(phase)

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take ERM's step, in later phases the method's own."""
        if context.phase == PRETRAIN:
            return self.first.step(batch, context)
        return super().step(batch, context)  # type: ignore[safe-super]  # of the next class

    def evaluate(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """Predict by the backbone alone, in later phases by the method's model."""
        if context.phase == PRETRAIN:
            return self.first.evaluate(batch, context)
        return super().evaluate(batch, context)

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:
        """Remember the epochs of pre-training."""
        self.first.finish_epoch(context, valid)
        if context.phase != PRETRAIN:
            super().finish_epoch(context, valid)

    def finish_phase(self, context: Context, measure: Callable[[str], dict[str, Any]]) -> None:
        """After pre-training, restore the epoch to keep."""
        self.first.finish_phase(context, measure)
        if context.phase != PRETRAIN:
            super().finish_phase(context, measure)

    def report(self) -> dict[str, Any]:
        """The method's report and the metrics of the backbone alone."""
        return super().report() | self.first.report()

    def optimisers(self) -> dict[str, Optimizer]:
        """The optimisers of the current phase."""
        return self.first.optimisers() if self.first.running else super().optimisers()

    def networks(self) -> dict[str, nn.Module]:
        """The model, and the best backbone so far while it is trained."""
        return super().networks() | self.first.networks()

    def extra_state(self) -> dict[str, Any]:
        """The state of pre-training."""
        return super().extra_state() | self.first.state()

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Restore :meth:`extra_state`."""
        super().load_extra_state(state)
        self.first.load_state(state)


def _copy(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
