"""Graph Stochastic Attention: one backbone, run twice.

The first run, on the whole graph, gives node embeddings; the extractor turns them into a
keep-probability per edge (or node). While training, edges are dropped at random with these
probabilities; the second run, on what is left, predicts. The information loss pulls every
probability to r, so only edges that the prediction needs stay certain: they are the explanation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from gsat.attention import (
    DEFAULTS,
    AttentionSettings,
    Extractor,
    On,
    Sampling,
    edge_weights,
    sample,
)
from gsat.errors import GSATError
from gsat.graphs import GraphBatch
from gsat.models import Backbone, InterpretableModel, ModelOutput, load_weights
from gsat.models.saved import load_model
from gsat.ops import Draws
from gsat.settings import validated

if TYPE_CHECKING:
    from gsat.explain.pyg import PyGModel


class GSAT(InterpretableModel):
    """A backbone made interpretable by stochastic attention.

    Args:
        backbone: the network f, shared by both runs.
        attention: what gets a keep-probability, ``edge`` or ``node``.
        extractor_dropout: dropout inside the extractor g.
        temperature: of the concrete samples.
        sampling: ``concrete``, ``straight-through``, or ``none`` for attention without noise.
        seed: decides the extractor's initial weights.
    """

    method = "gsat"

    def __init__(
        self,
        backbone: Backbone,
        attention: On = DEFAULTS.attention,
        *,
        extractor_dropout: float = DEFAULTS.extractor_dropout,
        temperature: float = DEFAULTS.temperature,
        sampling: Sampling = DEFAULTS.sampling,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(backbone, Backbone):
            raise GSATError(
                f"a backbone was needed, not a {type(backbone).__name__}; make one of a PyG "
                "network by gsat.wrap(network, task=data.task)"
            )
        validated(
            AttentionSettings,
            {
                "attention": attention,
                "extractor_dropout": extractor_dropout,
                "temperature": temperature,
                "sampling": sampling,
            },
            owner="GSAT",
        )
        self.backbone = backbone
        self.extractor = Extractor(backbone.hidden, attention, extractor_dropout, seed)
        self.task, self.on = backbone.task, attention
        self.temperature, self.sampling = temperature, sampling
        self.r = None

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Both runs.

        Args:
            draws: the source of all randomness of this pass; None (evaluation) means none.
        """
        at = draws.child if draws else lambda *_: None
        h = self.backbone.embed(batch, draws=at("first run"))
        logits = self.extractor(h, batch, at("extractor"))
        probability = torch.sigmoid(logits)
        alpha = self._sample(logits, batch, draws) if draws else probability
        weight = edge_weights(alpha, batch, self._on)
        return ModelOutput(
            logits=self.backbone(batch, attention=weight, draws=at("second run")),
            edge_weight=weight,
            attention=alpha,
            probability=probability,
        )

    def _sample(self, logits: Tensor, batch: GraphBatch, draws: Draws) -> Tensor:
        rows = batch.edge_id if self.on == "edge" else batch.node_id
        return sample(logits, rows, draws.child("attention"), self.temperature, self.sampling)

    @property
    def _on(self) -> On:
        return self.extractor.on

    @classmethod
    def from_pretrained(
        cls,
        source: Backbone | InterpretableModel | Mapping[str, Tensor] | str | Path,
        attention: On = DEFAULTS.attention,
        *,
        backbone: Backbone | None = None,
        **settings: Any,
    ) -> GSAT:
        """GSAT on a network that is trained already, to be fine-tuned by :func:`gsat.fit`.

        Args:
            source: a backbone or a trained model (its backbone goes into this one as it is, not
                as a copy), the directory of a run, or a state dict.
            attention, settings: as in the constructor; of a model or run nothing but the backbone
                is taken.
            backbone: the network a state dict is loaded into.
        """
        if isinstance(source, Mapping):
            if backbone is None:
                raise GSATError("a state dict needs a network to go into: give backbone=…")
            load_weights(backbone, source)
            return cls(backbone, attention, **settings)
        if backbone is not None:
            raise GSATError("backbone=… is for state dicts; a backbone or a run brings its own")
        if isinstance(source, str | Path):
            source = load_model(source)
        if isinstance(source, InterpretableModel):
            if not source.predicts_by_backbone:
                raise GSATError(
                    f"the backbone of {type(source).__name__} gives no answers by itself; "
                    "fine-tune one that was trained by the method erm"
                )
            source = source.backbone
        if not isinstance(source, Backbone):
            raise GSATError(
                f"a backbone, a model, the directory of a run or a state dict was needed, not a "
                f"{type(source).__name__}; wrap a PyG network by gsat.wrap first"
            )
        return cls(source, attention, **settings)

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {
            "backbone": self.backbone.description,
            "attention": self.on,
            "extractor_dropout": self.extractor.dropout,
            "temperature": self.temperature,
            "sampling": self.sampling,
            "r": self.r,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The model :attr:`config` describes, with fresh weights."""
        model = super().from_config({key: value for key, value in config.items() if key != "r"})
        model.r = config["r"]
        return model

    def as_pyg(self, label: int | None = None) -> PyGModel:
        """The model as ``torch_geometric.explain`` expects one; see :class:`gsat.PyGModel`."""
        from gsat.explain.pyg import PyGModel

        return PyGModel(self, label)
