"""A method with everything the interface allows: two phases, three optimisers, two networks, an
inner loop, a learning rate that follows validation, and state of its own."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from gsat.graphs import GraphBatch
from gsat.gsat import GSAT
from gsat.methods import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.models import Backbone, ModelOutput
from gsat.models.backbone import seeded


class ToySettings(MethodSettings):
    warm_epochs: int = 3
    inner_steps: int = 2


class Toy(Method):
    """Warm up the backbone, then play the model against a critic of its node embeddings."""

    name = "toy"
    title = "Toy"
    Settings = ToySettings
    Model = GSAT
    model: GSAT

    def __init__(
        self, model: GSAT, settings: ToySettings, training: TrainingSettings, seed: int
    ) -> None:
        self.model, self.settings, self.training = model, settings, training
        with seeded(seed, "critic"):
            self.critic = nn.Linear(model.backbone.hidden, 1)
            self.shadow = nn.Linear(model.backbone.hidden, 1)
        # Tied weights must be saved and restored, too.
        self.shadow.weight = self.critic.weight
        self.average, self.steps, self.lowest = 1.0, 0, math.inf
        self.begun: list[str] = []

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        return cls(GSAT(backbone, seed=seed), settings, training, seed)

    def phases(self) -> tuple[Phase, ...]:
        warm = self.settings.warm_epochs
        return (
            Phase("warm", warm, selectable_from=None),
            Phase("play", self.training.epochs - warm, selectable_from=1),
        )

    def begin(self, phase: str) -> None:
        self.begun.append(phase)
        lr = self.training.lr
        if phase == "warm":
            self._optimisers: dict[str, Optimizer] = {
                "warm": SGD(self.model.backbone.parameters(), lr, momentum=0.9)
            }
        else:
            self._optimisers = {
                "model": Adam(self.model.parameters(), lr, amsgrad=True),
                "critic": SGD(self.critic.parameters(), 10 * lr),
            }

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        assert batch.y is not None
        self.steps += 1
        if context.phase == "warm":
            loss = self.model.task.loss(self.model.backbone(batch, draws=context.draws), batch.y)
            self._update("warm", loss)
            return {"loss": loss}
        gap = self._play_critic(batch, context)
        output = self.model(batch, context.draws)
        loss = self.model.task.loss(output.logits, batch.y)
        # The moving average makes every later step depend on all the earlier ones.
        self.average = 0.9 * self.average + 0.1 * float(loss.detach())
        total = loss / self.average + 0.1 * self.critic(self.model.backbone.embed(batch)).mean()
        self._update("model", total)
        return {"loss": loss, "gap": gap}

    def _play_critic(self, batch: GraphBatch, context: Context) -> Tensor:
        h = self.model.backbone.embed(batch).detach()
        gap = torch.zeros(())
        for inner in range(self.settings.inner_steps):
            noise = context.draws.child("critic", self.steps, inner).uniform(batch.node_id)
            gap = (self.critic(h)[:, 0] - noise).square().mean()
            self._update("critic", gap)
        return gap.detach()

    def _update(self, name: str, loss: Tensor) -> None:
        self._optimisers[name].zero_grad(set_to_none=True)
        loss.backward()
        self._optimisers[name].step()

    def evaluate(
        self, batch: GraphBatch, context: Context
    ) -> tuple[ModelOutput, dict[str, Tensor]]:
        assert batch.y is not None
        output = self.model(batch)
        return output, {"loss": self.model.task.loss(output.logits, batch.y)}

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:
        if context.phase == "warm":
            return
        if valid["loss"] >= self.lowest:
            for group in self._optimisers["model"].param_groups:
                group["lr"] *= 0.5
        self.lowest = min(self.lowest, valid["loss"])

    def optimisers(self) -> dict[str, Optimizer]:
        return self._optimisers

    def networks(self) -> dict[str, nn.Module]:
        return {"model": self.model, "critic": self.critic, "shadow": self.shadow}

    def extra_state(self) -> dict[str, Any]:
        # `lowest` is infinite until the first epoch of the second phase has been validated.
        return {"average": self.average, "steps": self.steps, "lowest": self.lowest}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        self.average, self.steps, self.lowest = state["average"], state["steps"], state["lowest"]


class LastToy(Toy):
    """The same, but the last epoch is reported."""

    name = "toy-last"
    reports = "last"
