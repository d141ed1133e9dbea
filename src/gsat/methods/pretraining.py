"""A first phase in which the backbone is trained alone, for methods that start from there."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from gsat import metrics
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, Phase, TrainingSettings
from gsat.methods.erm import ERMMethod, ERMSettings, Plain
from gsat.models import Backbone, ModelOutput

PRETRAIN = "pretrain"

Epoch = Literal["last", "best"]


class Pretraining:
    """ERM on a backbone; afterwards the backbone has the weights of the epoch that is kept.

    Methods that train the same backbone in the same way train the same network, whichever epoch of
    it they keep: :attr:`identity` says which network it is.

    Args:
        backbone: what is trained. training: how.
        keep: the ``last`` epoch, or the one with the ``best`` validation metric.
        settings: of ERM.

    Attributes:
        epochs: the last epoch so far and the best, with their metrics.
        weights: those of the same two, once the phase is over and until the next one begins.
    """

    def __init__(
        self,
        backbone: Backbone,
        training: TrainingSettings,
        keep: Epoch,
        settings: ERMSettings | None = None,
    ) -> None:
        self.backbone, self.keep = backbone, keep
        self.settings = settings or ERMSettings()
        self.erm = ERMMethod(Plain(backbone), training, self.settings)
        self.best: Backbone | None = None  # with the weights of the best epoch so far
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
        return {"training": self.erm.training.model_dump(), "erm": self.settings.model_dump()}

    def begin(self, phase: str) -> None:
        """Get ready for it, or leave it behind."""
        self.running = phase == PRETRAIN
        self.best, self.weights = None, {}
        if self.running:
            self.erm.begin(phase)
            self.best = copy.deepcopy(self.backbone)

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """ERM's step."""
        return self.erm.step(batch, context)

    def evaluate(
        self, batch: GraphBatch, context: Context
    ) -> tuple[ModelOutput, dict[str, Tensor]]:
        """The backbone's answers."""
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
        """See how good the two epochs are, and go back to the one that is kept."""
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
        """What another method has trained, instead of the whole phase."""
        self.backbone.load_state_dict(weights[self.keep])
        self.epochs = epochs

    def report(self) -> dict[str, Any]:
        """What the backbone alone could do."""
        return {"pretrained": {"checkpoint": self.keep, **self.epochs[self.keep]}}

    def optimisers(self) -> dict[str, Optimizer]:
        """ERM's."""
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


def _copy(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
