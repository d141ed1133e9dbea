"""Graph Stochastic Attention: one backbone, run twice (Section 4.2 of the paper).

The first run, on the whole graph G, gives node representations h; the extractor g_φ turns them into
a keep-probability p for every edge (or node). While training, attention α ~ Bern(p) is drawn; the
second run, the predictor f_θ on the attended graph G_S, predicts. The loss (Eq. 8) is the
prediction loss plus the information loss of :mod:`gsat.bottleneck`, which pulls every p towards the
prior r. Only edges that the prediction needs get p → 1: they are the explanation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from gsat.attention import (
    DEFAULTS,
    AttentionLevel,
    AttentionSettings,
    Extractor,
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
    from gsat.models.wrapping.pyg_model import PyGModel


class GSAT(InterpretableModel):
    """A backbone made interpretable by stochastic attention.

    Args:
        backbone: The network f_θ, shared by both runs.
        attention: What has a keep-probability, ``"edge"`` or ``"node"``. (default: ``"edge"``)
        extractor_dropout: Dropout inside the extractor g_φ. (default: ``0.5``)
        temperature: Temperature of the concrete samples. (default: ``1.0``)
        sampling: ``"concrete"``, ``"straight-through"``, or ``"none"`` for attention without noise.
            (default: ``"concrete"``)
        seed: Decides the extractor's initial weights. (default: ``0``)

    Attributes:
        extractor: The network g_φ.
        task: What the model predicts.
        on: What has attention, ``"edge"`` or ``"node"``.
        r: The prior that the model was trained with; None before training.

    Raises:
        GSATError: If ``backbone`` is no backbone, or an argument is out of range.

    Example:
        >>> import gsat
        >>> data = gsat.load_dataset("ba2motifs", graphs=20)
        >>> model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8), seed=0)
        >>> explanation = model.explain(data.test[0])
        >>> len(explanation.edge_mask) == data.test[0].num_edges
        True
    """

    method = "gsat"

    def __init__(
        self,
        backbone: Backbone,
        attention: AttentionLevel = DEFAULTS.attention,
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
        """Run the backbone twice: for the attention, and with it.

        Args:
            batch: The graphs.
            draws: Source of all randomness of this pass: dropout and sampling. (default: ``None``,
                evaluation: no dropout, and α = p)

        Returns:
            Logits of the prediction, edge weights, attention and keep-probabilities.
        """
        at = draws.child if draws else lambda *_: None
        h = self.backbone.embed(batch, draws=at("first run"))  # [N, k], on the whole graph G
        logits = self.extractor(h, batch, at("extractor"))  # [E] or [N]
        probability = torch.sigmoid(logits)  # p
        alpha = self._sample(logits, batch, draws) if draws else probability  # α ~ Bern(p)
        weight = edge_weights(alpha, batch, self._on)  # [E], A_S = α ⊙ A
        return ModelOutput(
            logits=self.backbone(batch, attention=weight, draws=at("second run")),
            edge_weight=weight,
            attention=alpha,
            probability=probability,
        )

    def edge_weights(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Compute the weight of each edge from node embeddings, without noise.

        Args:
            h: Node embeddings, ``[N, k]``.
            batch: The graphs.

        Returns:
            ``[E]``, what :meth:`explain` reports of each edge.
        """
        return edge_weights(torch.sigmoid(self.extractor(h, batch)), batch, self._on)

    def _sample(self, logits: Tensor, batch: GraphBatch, draws: Draws) -> Tensor:
        row_id = batch.edge_id if self.on == "edge" else batch.node_id
        return sample(logits, row_id, draws.child("attention"), self.temperature, self.sampling)

    @property
    def _on(self) -> AttentionLevel:
        return self.extractor.on

    @classmethod
    def from_pretrained(
        cls,
        source: Backbone | InterpretableModel | Mapping[str, Tensor] | str | Path,
        attention: AttentionLevel = DEFAULTS.attention,
        *,
        backbone: Backbone | None = None,
        **settings: Any,
    ) -> GSAT:
        """Make a GSAT of a network that is trained already, to be fine-tuned by :func:`gsat.fit`.

        Of a model or a run, nothing but the backbone is taken.

        Args:
            source: A backbone or a trained model (its backbone is used itself, not copied), the
                directory of a run, or a state dict.
            attention: As in the constructor. (default: ``"edge"``)
            backbone: The network that a state dict is loaded into. (default: ``None``)
            **settings: The constructor's other arguments.

        Returns:
            The model, with a fresh extractor.

        Raises:
            GSATError: If ``source`` is none of these, or its weights do not fit.
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
        """Make the model that :attr:`config` describes, with fresh weights.

        Args:
            config: Plain values, as :attr:`config` holds them.

        Returns:
            The model.
        """
        model = super().from_config({key: value for key, value in config.items() if key != "r"})
        model.r = config["r"]
        return model

    def as_pyg(self, label: int | None = None) -> PyGModel:
        """Return a view of the model that ``torch_geometric.explain`` can call.

        Args:
            label: Which label of a multi-label model is explained. (default: ``None``)

        Returns:
            The view; see :class:`gsat.PyGModel`.
        """
        from gsat.models.wrapping.pyg_model import PyGModel

        return PyGModel(self, label)
