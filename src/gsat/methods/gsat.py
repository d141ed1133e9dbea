"""GSAT from scratch: prediction loss plus information loss, one Adam over both networks."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field, PositiveInt
from torch import Tensor
from torch.optim import Adam, Optimizer

from gsat.attention import AttentionLevel, Sampling
from gsat.bottleneck import Schedule, information, sparsity
from gsat.graphs import GraphBatch
from gsat.gsat import GSAT
from gsat.methods.base import Context, Method, MethodSettings, Phase, TrainingSettings
from gsat.models import Backbone, ModelOutput

# The published code never selects an epoch before the twelfth, however early r reaches its final value.
_FIRST_SELECTABLE = 11


class GSATSettings(MethodSettings):
    """``[method.gsat]``.

    Attributes:
        attention: what gets a keep-probability. extractor_dropout: inside the extractor.
        sampling: ``concrete``, ``straight-through`` or ``none`` (the paper's NoStoch).
        temperature: of the samples.
        regulariser: ``information``, ``l1`` (the paper's alternative) or ``none``.
        info_coef: its weight; 0 is the paper's β = 0.
        info_on: whether it is taken on the ``sample`` (published code) or on ``p`` (paper).
        r_start, r_final, r_step, r_interval: r falls from start to final by step every interval.
    """

    attention: AttentionLevel = "edge"
    extractor_dropout: float = Field(0.5, ge=0, lt=1)
    sampling: Sampling = "concrete"
    temperature: float = Field(1.0, gt=0)
    regulariser: Literal["information", "l1", "none"] = "information"
    info_coef: float = Field(1.0, ge=0)
    info_on: Literal["sample", "p"] = "sample"
    r_start: float = Field(0.9, gt=0, lt=1)
    r_final: float = Field(0.7, gt=0, lt=1)
    r_step: float = Field(0.1, gt=0)
    r_interval: PositiveInt = 10

    @property
    def schedule(self) -> Schedule:
        """r over the epochs."""
        return Schedule(self.r_start, self.r_final, self.r_step, self.r_interval)


class GSATMethod(Method):
    """Graph Stochastic Attention, trained from scratch."""

    name = "gsat"
    title = "GSAT"
    summary = "drop edges at random by learnt probabilities, and pay for information"
    paper = (
        "Miao, Liu and Li, Interpretable and Generalizable Graph Learning via Stochastic Attention "
        "Mechanism, ICML 2022 (arXiv:2201.12987)"
    )
    Settings: ClassVar[type[MethodSettings]] = GSATSettings
    shares = True
    model: GSAT
    settings: GSATSettings

    def __init__(self, model: GSAT, settings: GSATSettings, training: TrainingSettings) -> None:
        self.model, self.settings, self.training = model, settings, training
        self.schedule = settings.schedule
        model.r = settings.r_final if settings.regulariser == "information" else None

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """GSAT on a fresh backbone."""
        model = GSAT(
            backbone,
            settings.attention,
            extractor_dropout=settings.extractor_dropout,
            temperature=settings.temperature,
            sampling=settings.sampling,
            seed=seed,
        )
        return cls(model, settings, training)

    def phases(self) -> tuple[Phase, ...]:
        """One phase; the best epoch is chosen once r is final."""
        first = max(_FIRST_SELECTABLE, self.schedule.epochs_to_final)
        return (Phase("train", self.training.epochs, selectable_from=first),)

    def begin(self, phase: str) -> None:
        """One Adam over extractor and backbone."""
        self.optimiser = Adam(
            self.model.parameters(),
            self.training.lr,
            weight_decay=self.training.weight_decay,
            fused=True,  # one pass over all weights instead of some two hundred small ones
        )

    def step(self, batch: GraphBatch, context: Context) -> dict[str, Tensor]:
        """One gradient step on prediction loss + information loss."""
        said = context.sharing.through(self.model)(batch, context.draws)
        parts = self._losses(batch, said, context)
        self.optimiser.zero_grad(set_to_none=True)
        parts["total"].backward()
        self.optimiser.step()
        return parts

    def evaluate(
        self, batch: GraphBatch, context: Context
    ) -> tuple[ModelOutput, dict[str, Tensor]]:
        """Deterministic: α = p, no dropout."""
        said = self.model(batch)
        return said, self._losses(batch, said, context)

    def optimisers(self) -> dict[str, Optimizer]:
        """The one Adam."""
        return {"adam": self.optimiser}

    def _losses(self, batch: GraphBatch, said: ModelOutput, context: Context) -> dict[str, Tensor]:
        assert batch.y is not None
        loss = context.sharing.mean(self.model.task.loss(said.logits, batch.y), batch.y)
        alpha = said.attention if self.settings.info_on == "sample" else said.probability
        if self.settings.regulariser == "information":
            info = information(alpha, self.schedule.r(context.epoch))
        elif self.settings.regulariser == "l1":
            info = sparsity(alpha)
        else:
            info = torch.zeros(())
        info = context.sharing.mean(info, alpha)
        return {"loss": loss, "info": info, "total": loss + self.settings.info_coef * info}
