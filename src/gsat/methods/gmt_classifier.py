"""The second stage of GMT: a separate classifier, trained on frozen explanations."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from gsat.attention import edge_weights
from gsat.core.errors import GSATError
from gsat.core.registry import METHODS, register_method
from gsat.core.settings import ADDED_LATER
from gsat.graphs import GraphBatch
from gsat.gsat import GSAT
from gsat.methods.base import Context, Losses, Method, MethodSettings, TrainingSettings
from gsat.methods.gsat import load_start
from gsat.models import Backbone, InterpretableModel, ModelOutput
from gsat.models.backbone import backbone_from
from gsat.ops import Draws, segment_topk_mask

Edges = Literal["all", "top"]
_SHARE = 0.5  # default share of the top edges


def _current_edges(name: Any) -> Any:
    """The present name of a choice of edges; "half" is that of earlier versions."""
    return "top" if name == "half" else name


class Reclassified(InterpretableModel):
    """A frozen model that explains, and a classifier of the graph that it attends to."""

    method = "gmt-classifier"

    def __init__(
        self, backbone: Backbone, explainer: GSAT, edges: Edges = "all", share: float = _SHARE
    ) -> None:
        super().__init__()
        self.backbone, self.edges, self.share = backbone, edges, share
        self.explainer = explainer.eval().requires_grad_(False)
        self.task, self.on, self.r = backbone.task, explainer.on, explainer.r

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Explain by the frozen model, and predict by the classifier."""
        with torch.no_grad(), self.explainer.evaluating():
            explained = self.explainer(batch)
        weight = edge_weights(explained.probability, batch, self.on)
        logits = self.backbone(batch, attention=self.attended(weight, batch), draws=draws)
        return explained._replace(logits=logits, attention=explained.probability)

    def answer(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """Predict by the classifier; see :meth:`InterpretableModel.answer`."""
        weight = edge_weights(attention, batch, self.on)
        return self.backbone(batch, attention=self.attended(weight, batch))

    def rescore(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """Explain the attended graph; see :meth:`InterpretableModel.rescore`."""
        return self.explainer.rescore(batch, attention)

    def attended(self, weight: Tensor, batch: GraphBatch) -> Tensor:
        """Compute the edge weights that the classifier sees, ``[E]``."""
        if self.edges == "all":
            return weight
        count = (self.share * batch.edge_ptr.diff().double()).ceil().long()
        return weight * segment_topk_mask(weight, batch.edge_ptr, count)

    def refined(self, passes: int) -> Self:
        """Return the same model with refinement passes, whose result the classifier sees, too."""
        view = copy.copy(self)
        view._modules = {**self._modules, "explainer": self.explainer.refined(passes)}
        return view

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {
            "backbone": self.backbone.description,
            "explainer": {"method": self.explainer.method, **self.explainer.config},
            "edges": self.edges,
            "share": self.share,
            "r": self.r,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Make the model that :attr:`config` describes, with fresh weights."""
        inside = dict(config["explainer"])
        kind = METHODS[inside.pop("method")].Model
        edges = _current_edges(config["edges"])
        share = config.get("share", _SHARE)
        if not issubclass(kind, GSAT) or edges not in ("all", "top") or not 0 < share <= 1:
            raise GSATError("its explainer is not a model of GSAT, or its edges are unknown")
        return cls(backbone_from(config["backbone"]), kind.from_config(inside), edges, share)


class GMTClassifierSettings(MethodSettings):
    """``[method.gmt-classifier]``."""

    start: str = Field("", description="Run whose explanations are used.")
    edges: Annotated[Edges, BeforeValidator(_current_edges)] = Field(
        "all",
        description="What the classifier sees: 'all' edges with their scores, or the 'top' ones of "
        "each graph.",
    )
    share: float = Field(
        _SHARE,
        gt=0,
        le=1,
        json_schema_extra=ADDED_LATER,
        description="Share of each graph's edges that are its top ones.",
    )
    classifier: Literal["new", "trained"] = Field(
        "new",
        description="Whether the classifier starts from new weights or those of the run.",
    )


@register_method("gmt-classifier")
class GMTClassifierMethod(Method):
    """The second stage of GMT: prediction on a frozen explanation."""

    title = "GMT stage 2"
    summary = "a classifier trained on the frozen explanations of a run"
    paper = (
        "Chen et al., How Interpretable Are Interpretable Graph Neural Networks?, ICML 2024 "
        "(arXiv:2406.07955)"
    )
    Settings = GMTClassifierSettings
    Model = Reclassified
    model: Reclassified
    settings: GMTClassifierSettings

    @classmethod
    def create(
        cls, backbone: Backbone, settings: Any, training: TrainingSettings, seed: int
    ) -> Self:
        """Load the run whose explanations are used, and give it a classifier."""
        explainer = load_start(settings.start, backbone, cls.title)
        if settings.classifier == "trained":
            backbone.load_state_dict(explainer.predictor.state_dict())
        model = Reclassified(backbone, explainer, settings.edges, settings.share)
        return cls(model, settings, training, seed)

    def parameters(self) -> Iterable[nn.Parameter]:
        """The weights of the classifier."""
        return self.model.backbone.parameters()

    def step(self, batch: GraphBatch, context: Context) -> Losses:
        """Take one gradient step on the prediction loss."""
        assert batch.y is not None
        loss = self.model.task.loss(self.model(batch, context.draws).logits, batch.y)
        self.update(loss)
        return {"loss": loss}
