"""Pre-training: methods whose first phase trains the backbone alone."""

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


class PretrainedMethod(Method):
    """A mixin that trains the backbone by ERM first: ``class My(PretrainedMethod, GSATMethod)``.

    It handles the first phase and leaves the others to the next class. :meth:`set_up` calls
    :meth:`pretrain`.

    Attributes:
        keep: The epoch of the first phase whose weights are used.
        erm: The method of the first phase.
        pretraining: Whether the first phase is the current one.
        pretrained: Number and metrics of the last and of the best epoch of the first phase.
        pretrained_weights: The weights after both, from the end of the first phase until the next
            one begins.
    """

    best_backbone: Backbone | None = None  # weights of the best epoch so far, in the first phase
    pretraining = True

    def pretrain(
        self,
        keep: Epoch,
        training: TrainingSettings | None = None,
        settings: ERMSettings | None = None,
    ) -> None:
        """Set up the first phase, by default with the training settings of the method."""
        plain, settings = PlainModel(self.model.backbone), settings or ERMSettings(plateau=None)
        self.keep, self.erm = keep, ERMMethod(plain, settings, training or self.training)
        self.pretrained: dict[Epoch, dict[str, Any]] = {}
        self.pretrained_weights: dict[Epoch, dict[str, Tensor]] = {}

    @property
    def first_phase(self) -> Phase:
        """The first phase; none of its epochs can be reported."""
        return Phase(PRETRAIN, self.erm.training.epochs, selectable_from=None, explains=False)

    @property
    def pretraining_key(self) -> dict[str, Any]:
        """Plain values that decide the weights: methods with equal ones can share them."""
        after = {"selection", "snapshots"}  # only matter to later phases
        training = self.erm.training.model_dump(exclude=after)
        return {"training": training, "erm": self.erm.settings.model_dump()}

    def take_pretrained(
        self, weights: dict[Epoch, dict[str, Tensor]], epochs: dict[Epoch, dict[str, Any]]
    ) -> None:
        """Use the result of an equal pre-training in place of the first phase."""
        self.model.backbone.load_state_dict(weights[self.keep])
        self.pretrained = epochs

    def phases(self) -> tuple[Phase, ...]:
        """Pre-training, then the method's own phases."""
        return (self.first_phase, *super().phases())

    def begin(self, phase: str) -> None:
        """Make the optimisers of a phase."""
        self.begin_or_end_pretraining(phase)
        if not self.pretraining:
            super().begin(phase)

    def begin_or_end_pretraining(self, phase: str) -> None:
        """Make ERM's optimiser for the first phase, or free its memory for another one."""
        self.pretraining = phase == PRETRAIN
        self.best_backbone, self.pretrained_weights = None, {}
        if self.pretraining:
            self.erm.begin(phase)
            self.best_backbone = copy.deepcopy(self.model.backbone)

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take ERM's step, in later phases the method's own."""
        if context.phase == PRETRAIN:
            return self.erm.step(batch, context)
        return super().step(batch, context)  # type: ignore[safe-super]  # of the next class

    def evaluate(self, batch: GraphBatch, context: Context) -> tuple[ModelOutput, Losses]:
        """Predict by the backbone alone, in later phases by the method's model."""
        if context.phase == PRETRAIN:
            return self.erm.evaluate(batch, context)
        return super().evaluate(batch, context)

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:
        """Remember the epochs of pre-training, and the weights of the best one."""
        if context.phase != PRETRAIN:
            super().finish_epoch(context, valid)
            return
        assert self.best_backbone is not None
        self.erm.finish_epoch(context, valid)
        merit, before = self.model.task.merit, self.pretrained.get("best", {}).get("valid", {})
        self.pretrained["last"] = {"epoch": context.epoch, "valid": valid}
        scores = (merit(valid), valid["loss"], merit(before), before.get("loss"))
        if not before or metrics.better(*scores):
            self.pretrained["best"] = {**self.pretrained["last"]}
            self.best_backbone.load_state_dict(self.model.backbone.state_dict())

    def finish_phase(self, context: Context, measure: Callable[[str], dict[str, Any]]) -> None:
        """After pre-training, measure both epochs on the test set and restore the one to keep."""
        if context.phase != PRETRAIN:
            super().finish_phase(context, measure)
            return
        assert self.best_backbone is not None
        backbone = self.model.backbone
        self.pretrained_weights = {"last": _copy(backbone), "best": _copy(self.best_backbone)}
        other: Epoch = "last" if self.keep == "best" else "best"
        for name in (other, self.keep):
            backbone.load_state_dict(self.pretrained_weights[name])
            self.pretrained[name]["test"] = measure("test")

    def report(self) -> dict[str, Any]:
        """The method's report and the metrics of the backbone alone."""
        pretrained = {"checkpoint": self.keep, **self.pretrained[self.keep]}
        return super().report() | {"pretrained": pretrained}

    def optimisers(self) -> dict[str, Optimizer]:
        """The optimisers of the current phase."""
        return self.erm.optimisers() if self.pretraining else super().optimisers()

    def networks(self) -> dict[str, nn.Module]:
        """The model, and the best backbone so far while it is trained."""
        best = {} if self.best_backbone is None else {"best backbone": self.best_backbone}
        return super().networks() | best

    def extra_state(self) -> dict[str, Any]:
        """Both epochs and, in the first phase, ERM's state."""
        erm = self.erm.extra_state() if self.pretraining else {}
        return super().extra_state() | {"epochs": self.pretrained, "erm": erm}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Restore :meth:`extra_state`."""
        super().load_extra_state(state)
        self.pretrained = state["epochs"]
        if self.pretraining:
            self.erm.load_extra_state(state["erm"])


def _copy(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
