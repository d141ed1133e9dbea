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
from gsat.models import Attended, Backbone

PRETRAIN = "pretrain"


class Pretraining:
    """ERM on a backbone; afterwards the backbone has the weights of the epoch that is kept.

    Args:
        backbone: what is trained. training: how.
        keep: the ``last`` epoch, or the one with the ``best`` validation metric.
        settings: of ERM.
    """

    def __init__(
        self,
        backbone: Backbone,
        training: TrainingSettings,
        keep: Literal["last", "best"],
        settings: ERMSettings | None = None,
    ) -> None:
        self.backbone, self.keep = backbone, keep
        self.erm = ERMMethod(Plain(backbone), training, settings)
        self.best: Backbone | None = None  # the weights of the best epoch so far
        self.kept: dict[str, Any] = {}  # the epoch that is kept, with its metrics
        self.running = True

    @property
    def phase(self) -> Phase:
        """The phase; none of its epochs is reported."""
        epochs = self.erm.training.epochs
        return Phase(PRETRAIN, epochs, selectable_from=None, explains=False)

    def begin(self, phase: str) -> None:
        """Get ready for it, or leave it behind."""
        self.running = phase == PRETRAIN
        self.best = None
        if self.running:
            self.erm.begin(phase)
            if self.keep == "best":
                self.best = copy.deepcopy(self.backbone)

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """ERM's step."""
        return self.erm.step(batch, context)

    def evaluate(self, batch: GraphBatch, context: Context) -> tuple[Attended, dict[str, Tensor]]:
        """The backbone's answers."""
        return self.erm.evaluate(batch, context)

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:
        """Remember the epoch if it is kept so far."""
        if context.phase != PRETRAIN:
            return
        self.erm.finish_epoch(context, valid)
        if self.best is not None:
            merit, before = self.backbone.task.merit, self.kept.get("valid", {})
            scores = (merit(valid), valid["loss"], merit(before), before.get("loss"))
            if self.kept and not metrics.better(*scores):
                return
            self.best.load_state_dict(self.backbone.state_dict())
        self.kept = {"epoch": context.epoch, "valid": valid}

    def finish_phase(self, context: Context, measure: Callable[[str], dict[str, Any]]) -> None:
        """Go back to the epoch that is kept and see how good it is."""
        if context.phase != PRETRAIN:
            return
        if self.best is not None:
            self.backbone.load_state_dict(self.best.state_dict())
        self.kept["test"] = measure("test")

    def report(self) -> dict[str, Any]:
        """What the backbone alone could do."""
        return {"pretrained": {"checkpoint": self.keep, **self.kept}}

    def optimisers(self) -> dict[str, Optimizer]:
        """ERM's."""
        return self.erm.optimisers()

    def networks(self) -> dict[str, nn.Module]:
        """The best backbone so far, while it may be needed."""
        return {} if self.best is None else {"best backbone": self.best}

    def state(self) -> dict[str, Any]:
        """The epoch that is kept, and ERM's state while it is trained, as plain values."""
        return {"pretrained": self.kept, "erm": self.erm.extra_state() if self.running else {}}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state`."""
        self.kept = state["pretrained"]
        if self.running:
            self.erm.load_extra_state(state["erm"])
