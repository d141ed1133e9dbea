"""ERM: the backbone alone, trained on the prediction loss; it does not explain."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, PositiveInt
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from gsat.core.registry import register_method
from gsat.graphs import GraphBatch
from gsat.methods.base import Context, Losses, Method, MethodSettings
from gsat.models import Backbone, InterpretableModel, ModelOutput
from gsat.ops import Draws


class PlainModel(InterpretableModel):
    """A backbone without attention; the score of every edge is 1."""

    explains = False
    attention_decides = False
    method = "erm"

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone, self.task, self.on, self.r = backbone, backbone.task, "edge", None

    @property
    def bare_backbone(self) -> Backbone:
        """The backbone, for a post-hoc explainer."""
        return self.backbone

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Logits and edge scores of a batch."""
        logits = self.backbone(batch, draws=draws)
        scores = self.edge_scores(batch).to(logits)
        return ModelOutput(logits, scores, scores, scores)

    def answer(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """Predict with weighted messages; see :meth:`InterpretableModel.answer`."""
        return self.backbone(batch, attention=attention)

    def predict_batch(self, batch: GraphBatch) -> Tensor:
        """Predict without edge scores."""
        return self.backbone(batch)

    def edge_scores(self, batch: GraphBatch) -> Tensor:
        """The score of each edge, ``[E]``."""
        return batch.x.new_ones(batch.num_edges)


class ERMSettings(MethodSettings):
    """``[method.erm]``."""

    plateau: PositiveInt | None = Field(
        None,
        description="Halve the learning rate when the validation metric has not risen for more "
        "than this many epochs; absent: it stays.",
    )


@register_method("erm")
class ERMMethod(Method):
    """Empirical risk minimisation; also the first phase of methods that pre-train."""

    title = "ERM"
    summary = "the backbone alone; it does not explain"
    paper = "Vapnik, Principles of Risk Minimization for Learning Theory, NIPS 1991"
    Settings: ClassVar[type[MethodSettings]] = ERMSettings
    Model = PlainModel
    data_parallel = True
    model: PlainModel
    settings: ERMSettings
    schedule: ReduceLROnPlateau | None = None

    def begin(self, phase: str) -> None:
        """Make one Adam, and its schedule if there is one."""
        super().begin(phase)
        if self.settings.plateau is not None:
            self.schedule = ReduceLROnPlateau(
                self.optimiser, "max", factor=0.5, patience=self.settings.plateau
            )

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take one gradient step on the prediction loss."""
        assert batch.y is not None
        logits = context.sync.through(self.model)(batch, context.draws).logits
        loss = context.sync.mean(self.model.task.loss(logits, batch.y), batch.y)
        self.update(loss)
        return {"loss": loss}

    def finish_epoch(self, context: Context, valid: dict[str, Any]) -> None:
        """Lower the learning rate on a plateau."""
        merit = self.model.task.merit(valid)
        if self.schedule is not None and merit is not None:
            self.schedule.step(merit)

    def extra_state(self) -> dict[str, Any]:
        """The state of the schedule; the learning rate itself is the optimiser's."""
        if self.schedule is None:
            return {}
        return {"best": self.schedule.best, "waited": self.schedule.num_bad_epochs}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        """Restore :meth:`extra_state`."""
        if self.schedule is not None:
            self.schedule.best, self.schedule.num_bad_epochs = state["best"], state["waited"]
