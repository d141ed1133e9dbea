"""A first phase in which the backbone is trained alone, and methods that start with one."""

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
    """ERM on a backbone; afterwards the backbone has the weights of the epoch that is kept.

    Methods that train the same backbone in the same way train the same network, whichever epoch of
    it they keep: :attr:`identity` identifies the network.

    Attributes:
        best: The backbone with the weights of the best epoch so far, while it is trained.
        epochs: The last epoch so far and the best, with their metrics.
        weights: The weights of these two, once the phase is over and until the next one begins.
        running: Whether the phase is the current one.
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
        """The phase; none of its epochs is reported."""
        epochs = self.erm.training.epochs
        return Phase(PRETRAIN, epochs, selectable_from=None, explains=False)

    @property
    def identity(self) -> dict[str, Any]:
        """How the backbone is trained, as plain values."""
        after = {"selection", "snapshots"}  # of the phases that follow
        training = self.erm.training.model_dump(exclude=after)
        return {"training": training, "erm": self.settings.model_dump()}

    def begin(self, phase: str) -> None:
        """Make ERM's optimiser, or end the phase if another one begins."""
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
        """Remember the epoch, also as the best if it is."""
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
        """Measure the two epochs on the test set, and restore the one that is kept."""
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
        """Use what another method has trained, instead of the whole phase."""
        self.backbone.load_state_dict(weights[self.keep])
        self.epochs = epochs

    def report(self) -> dict[str, Any]:
        """The metrics of the backbone alone, for ``result.json``."""
        return {"pretrained": {"checkpoint": self.keep, **self.epochs[self.keep]}}

    def optimisers(self) -> dict[str, Optimizer]:
        """ERM's optimisers."""
        return self.erm.optimisers()

    def networks(self) -> dict[str, nn.Module]:
        """The best backbone so far, while it is trained."""
        return {} if self.best is None else {"best backbone": self.best}

    def state(self) -> dict[str, Any]:
        """The two epochs, and ERM's state while it is trained, as plain values."""
        return {"epochs": self.epochs, "erm": self.erm.extra_state() if self.running else {}}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state`."""
        self.epochs = state["epochs"]
        if self.running:
            self.erm.load_extra_state(state["erm"])


class PretrainedMethod(Method):
    """A method whose backbone is trained alone first.

    A mixin: it handles the first phase, and leaves all others to the class after it, as in
    ``class MyMethod(PretrainedMethod, GSATMethod)``. The constructor sets :attr:`first`.
    """

    first: Pretraining

    def phases(self) -> tuple[Phase, ...]:
        """Pre-training, of which no epoch is reported, then the method's own."""
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
        return super().step(batch, context)  # type: ignore[safe-super]  # of the class after it

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
        """After pre-training, restore the epoch that is kept."""
        self.first.finish_phase(context, measure)
        if context.phase != PRETRAIN:
            super().finish_phase(context, measure)

    def report(self) -> dict[str, Any]:
        """What the backbone alone achieved."""
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
