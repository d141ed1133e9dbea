"""Graph Stochastic Attention: one backbone and two forward passes (Section 4.2 of the paper).

The first pass embeds the whole graph G. From the node embeddings h, the extractor g_φ computes a
keep-probability p for every edge (or node). Training samples attention α ~ Bern(p). The second
pass, the predictor f_θ, sees the attended graph G_S and predicts. The loss (Eq. 8) is the
prediction loss plus the information loss of :mod:`gsat.bottleneck`, which pulls every p towards the
prior r. Only edges that the prediction needs get p → 1: they are the explanation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from gsat.attention import (
    AttentionLevel,
    AttentionSettings,
    Extractor,
    edge_weights,
    in_context,
    sample,
    strongest_edge,
)
from gsat.core.errors import GSATError
from gsat.core.settings import show_settings, validated
from gsat.graphs import GraphBatch
from gsat.models import Backbone, InterpretableModel, ModelOutput, load_weights
from gsat.models.loading import load_model
from gsat.ops import Draws

MOST_SNAPSHOTS = 1000  # more in a model's description are refused


class GSAT(InterpretableModel):
    """A backbone made interpretable by stochastic attention.

    Args:
        backbone: The network f_θ, shared by both forward passes.
        attention: What has a keep-probability, ``"edge"`` or ``"node"``. (default: ``"edge"``)
        seed: Decides the extractor's initial weights. (default: ``0``)
        **settings: Fields of :class:`gsat.attention.AttentionSettings`, by name.

    Attributes:
        options: All settings of the attention.
        extractor: The network g_φ.
        snapshots: The model after other epochs, whose mean score is the explanation; None for
            none.

    Raises:
        GSATError: If ``backbone`` is not a backbone, or an argument is out of range.

    Example:
        >>> import gsat
        >>> data = gsat.load_dataset("ba2motifs", graphs=20)
        >>> model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8), seed=0)
        >>> explanation = model.explain(data.test[0])
        >>> len(explanation.edge_mask) == data.test[0].num_edges
        True
    """

    method = "gsat"
    options: AttentionSettings
    attended: Backbone

    def __init__(
        self,
        backbone: Backbone,
        attention: AttentionLevel = "edge",
        *,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        super().__init__()
        if not isinstance(backbone, Backbone):
            raise GSATError(
                f"a backbone was needed, not a {type(backbone).__name__}; make one of a PyG "
                "network by gsat.wrap(network, task=data.task)"
            )
        self.options = validated(
            AttentionSettings, {"attention": attention, **settings}, owner="GSAT"
        )
        self.backbone = backbone
        self.extractor = Extractor(
            backbone.hidden,
            attention,
            self.options.extractor_dropout,
            self.options.extractor_norm,
            seed,
        )
        self.task, self.on, self.r = backbone.task, attention, None
        self.snapshots: nn.ModuleList | None = None
        if self.options.batch_norm is not None:
            # A twin with the same parameters, but its own batch norm statistics.
            shared = {id(parameter): parameter for parameter in backbone.parameters()}
            self.attended = copy.deepcopy(backbone, shared)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        show_settings(cls, AttentionSettings)

    # -- the method -------------------------------------------------------------------------------

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Predict and explain a batch.

        Args:
            batch: The graphs.
            draws: Source of dropout and sampling. (default: ``None``, evaluation: no dropout, and
                α = p)

        Returns:
            The logits; the edge weights, attention and keep-probabilities. In evaluation, weights
            and probabilities are those of the explanation: refined, or averaged over snapshots.
        """
        output = self._attend(batch, draws)
        return output if draws else self._explain(output, batch)

    def _attend(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Both forward passes, without refinement passes and snapshots."""
        child = draws.child if draws else lambda *_: None
        h = self.backbone.embed(batch, draws=child("first run"))  # [N, k], on the whole graph G
        logits = self.extractor(h, batch, child("extractor"))  # [E] or [N]
        p = torch.sigmoid(logits)
        if draws is None:  # α = p
            return ModelOutput(self.answer(batch, p), edge_weights(p, batch, self.on), p, p)
        if self.options.samples:
            return self._average_samples(logits, batch, draws)
        alpha = self._sample(logits, batch, draws)  # α ~ Bern(p)
        weight = edge_weights(alpha, batch, self.on)  # [E], A_S = α ⊙ A
        predicted = self._predict(batch, weight, alpha, draws.child("second run"))
        return ModelOutput(predicted, edge_weight=weight, attention=alpha, probability=p)

    def _sample(self, logits: Tensor, batch: GraphBatch, draws: Draws) -> Tensor:
        row_id = batch.edge_id if self.on == "edge" else batch.node_id
        settings, draws = self.options, draws.child("attention")
        return sample(logits, row_id, draws, settings.temperature, settings.sampling)

    def _predict(
        self, batch: GraphBatch, weight: Tensor, alpha: Tensor | None, draws: Draws | None
    ) -> Tensor:
        """The logits of the second pass, f_θ on the attended graph G_S.

        A node without any kept edge is not part of G_S. With ``readout="attended"`` it is not
        pooled either, so the prediction cannot bypass the attention. ``alpha`` is None where there
        are only edge weights ``[E]``.
        """
        if self.options.readout != "attended" or self.task.level == "node":
            return self.predictor(batch, attention=weight, draws=draws)
        if alpha is None or self.on == "edge":
            alpha = strongest_edge(weight, batch)  # [N]
        return self.predictor(batch, attention=weight, draws=draws, node_weight=alpha)

    @property
    def predictor(self) -> Backbone:
        """The network f_θ of the second pass: the backbone, or its twin in batch norm."""
        return self.backbone if self.options.batch_norm is None else self.attended

    def _average_samples(self, logits: Tensor, batch: GraphBatch, draws: Draws) -> ModelOutput:
        """The output with logits averaged over several samples of the attention."""
        predicted, alphas = [], []
        for number in range(self.options.samples or 1):
            one = draws.child("sample", number)
            alphas.append(self._sample(logits, batch, one))
            weight = edge_weights(alphas[-1], batch, self.on)
            predicted.append(self._predict(batch, weight, alphas[-1], one.child("second run")))
        mean = torch.stack(predicted).mean(dim=0)
        alpha, p = torch.cat(alphas), torch.sigmoid(logits)  # [T·E] or [T·N], and [E] or [N]
        return ModelOutput(mean, edge_weights(p, batch, self.on), alpha, p)

    # -- explanations: refinement passes, snapshots, context --------------------------------------

    def _explain(self, output: ModelOutput, batch: GraphBatch) -> ModelOutput:
        """Replace the scores of the prediction by those of the explanation."""
        passes = self.options.refine or 0
        if self.snapshots is None:
            p, weight = self._refine(output.probability, output.edge_weight, batch, passes)
        else:
            models = cast("list[GSAT]", list(self.snapshots))
            each = [model._refine(*model._score(batch), batch, passes) for model in models]
            p, weight = (torch.stack(parts).mean(dim=0) for parts in zip(*each, strict=True))
            shown = [self._in_context(*pair, batch) for pair in each]
            scores = torch.stack([p if self.on == "node" else weight for p, weight in shown])
            output = output._replace(member_scores=scores)
        p, weight = self._in_context(p, weight, batch)
        return output._replace(probability=p, edge_weight=weight)

    def _score(self, batch: GraphBatch, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Keep-probabilities and edge weights of the whole graph, or of an attended one."""
        network = self.backbone if weight is None else self.predictor
        p = torch.sigmoid(self.extractor(network.embed(batch, attention=weight), batch))
        return p, edge_weights(p, batch, self.on)

    def _refine(
        self, p: Tensor, weight: Tensor, batch: GraphBatch, passes: int
    ) -> tuple[Tensor, Tensor]:
        """Score the attended graph, ``passes`` times: each pass attends to the scores before."""
        for _ in range(passes):
            p, weight = self._score(batch, weight)
        return p, weight

    def _in_context(self, p: Tensor, weight: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Mix each score with the scores around it, if the settings say so."""
        if not self.options.context:
            return p, weight
        p = in_context(p, batch, self.options.context, self.on)
        return p, edge_weights(p, batch, self.on)

    def refined(self, passes: int) -> Self:
        """Return the same model with refinement passes when it explains.

        A pass embeds the graph with its own edge weights, and the extractor reads these embeddings.
        Predictions stay as they are.

        Args:
            passes: Number of refinement passes; 0 for none.

        Returns:
            A view of the model: it has the same weights, not a copy of them.

        Raises:
            GSATError: If ``passes`` is negative.

        Example:
            >>> import gsat
            >>> data = gsat.load_dataset("ba2motifs", graphs=20)
            >>> model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8), seed=0)
            >>> model.refined(1).options.refine, model.options.refine
            (1, None)
        """
        view = copy.copy(self)
        view.set_options(refine=passes)
        return view

    def set_options(self, **changes: Any) -> None:
        """Change settings that only matter when explaining, such as ``refine`` and ``context``."""
        changed = {**self.options.model_dump(), **changes}
        self.options = validated(AttentionSettings, changed, owner="GSAT")

    def take_snapshots(self, weights: Sequence[Mapping[str, Tensor]]) -> None:
        """Explain by the mean score of the model after several epochs from now on.

        Predictions stay those of this model.

        Args:
            weights: The model's state dict after each of these epochs; empty to remove snapshots.
        """
        self.add_snapshots(len(weights))
        for snapshot, state in zip(self.snapshots or (), weights, strict=True):
            load_weights(snapshot, state)

    def add_snapshots(self, count: int) -> None:
        """Replace the snapshots by ``count`` copies of the model, whose weights do not train."""
        if not isinstance(count, int) or not 0 <= count <= MOST_SNAPSHOTS:
            raise GSATError(f"a model has 0 to {MOST_SNAPSHOTS} snapshots, not {count!r}")
        self.snapshots = None
        if count:
            copies = [copy.deepcopy(self).eval().requires_grad_(False) for _ in range(count)]
            self.snapshots = nn.ModuleList(copies)

    # -- what callers may ask ---------------------------------------------------------------------

    def answer(self, batch: GraphBatch, attention: Tensor, mask: Tensor | None = None) -> Tensor:
        """Predict under given attention; see :meth:`InterpretableModel.answer`.

        Args:
            batch: The graphs.
            attention: α, ``[E]`` or ``[N]``.
            mask: Factors of the edge weights, ``[E]``. (default: all ones)

        Returns:
            Logits ``[B, num_logits]``, or at node level ``[M, num_logits]``.
        """
        weight = edge_weights(attention, batch, self.on)
        return self._predict(batch, weight if mask is None else weight * mask, attention, None)

    def rescore(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """Explain the attended graph; see :meth:`InterpretableModel.rescore`."""
        return self._score(batch, edge_weights(attention, batch, self.on))[0]

    def predict_batch(self, batch: GraphBatch) -> Tensor:
        """Predict without refinement passes and snapshots, which only explanations need."""
        return self._attend(batch).logits

    def attend(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Compute keep-probabilities ``[E]`` or ``[N]`` from node embeddings, without noise."""
        return torch.sigmoid(self.extractor(h, batch))

    def edge_weights(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Compute edge weights ``[E]`` from node embeddings ``[N, k]``, without noise."""
        return edge_weights(self.attend(h, batch), batch, self.on)

    def recalibrate(self, batches: Iterable[GraphBatch]) -> None:
        """Replace batch norm's running statistics by their mean over batches of the training set.

        Neither dropout nor sampling is used.
        """
        norms = [part for part in self.modules() if isinstance(part, nn.BatchNorm1d)]
        before = [norm.momentum for norm in norms]
        self.train()
        with torch.no_grad():
            for number, batch in enumerate(batches):
                for norm in norms:
                    norm.momentum = 1 / (number + 1)
                p, weight = self._score(batch)
                self._predict(batch, weight, p, None)
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
        self.eval()

    @property
    def remedies(self) -> tuple[str, ...]:
        """Settings it is not trained with that may make its explanations more faithful."""
        unused = {
            "readout=attended": self.options.readout != "attended" and self.task.level == "graph",
            "extractor_norm=row": self.options.extractor_norm != "row",
            "snapshots=10": self.snapshots is None,
            "members=3": True,
        }
        return tuple(setting for setting, helps in unused.items() if helps)

    # -- making one -------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(
        cls,
        source: Backbone | InterpretableModel | Mapping[str, Tensor] | str | Path,
        attention: AttentionLevel = "edge",
        *,
        backbone: Backbone | None = None,
        **settings: Any,
    ) -> GSAT:
        """Make a GSAT of a trained network, to be fine-tuned by :func:`gsat.fit`.

        Only the backbone of a model or a run is used.

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
                    f"the backbone of {type(source).__name__} does not predict by itself; "
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
        snapshots = {} if self.snapshots is None else {"snapshots": len(self.snapshots)}
        settings = {**self.options.model_dump(exclude_none=True), **self.settings}
        return {"backbone": self.backbone.description, **settings, **snapshots, "r": self.r}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Make the model that :attr:`config` describes, with fresh weights."""
        settings = dict(config)
        r, snapshots = settings.pop("r"), settings.pop("snapshots", 0)
        model = super().from_config(settings)
        model.r = r
        model.add_snapshots(snapshots)
        return model


show_settings(GSAT, AttentionSettings)
