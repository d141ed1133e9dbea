"""Graph Stochastic Attention: one backbone, run twice (Section 4.2 of the paper).

The first run, on the whole graph G, gives node representations h; the extractor g_φ turns them into
a keep-probability p for every edge (or node). While training, attention α ~ Bern(p) is drawn; the
second run, the predictor f_θ on the attended graph G_S, predicts. The loss (Eq. 8) is the
prediction loss plus the information loss of :mod:`gsat.bottleneck`, which pulls every p towards the
prior r. Only edges that the prediction needs get p → 1: they are the explanation.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from gsat.attention import (
    DEFAULTS,
    AttentionLevel,
    AttentionSettings,
    BatchNorm,
    Extractor,
    ExtractorNorm,
    Readout,
    Sampling,
    edge_weights,
    in_context,
    sample,
    strongest_edge,
)
from gsat.core.errors import GSATError
from gsat.core.settings import validated
from gsat.graphs import GraphBatch
from gsat.models import Backbone, InterpretableModel, ModelOutput, load_weights
from gsat.models.saved import load_model
from gsat.ops import Draws

if TYPE_CHECKING:
    from gsat.models.wrapping.pyg_model import PyGModel


MOST_SNAPSHOTS = 1000  # of a model


class GSAT(InterpretableModel):
    """A backbone made interpretable by stochastic attention.

    Args:
        backbone: The network f_θ, shared by both runs.
        attention: What has a keep-probability, ``"edge"`` or ``"node"``. (default: ``"edge"``)
        extractor_dropout: Dropout inside the extractor g_φ. (default: ``0.5``)
        temperature: Temperature of the concrete samples. (default: ``1.0``)
        sampling: ``"concrete"``, ``"straight-through"``, or ``"none"`` for attention without noise.
            (default: ``"concrete"``)
        samples: Draws of the attention per training step, over which logits are averaged.
            (default: ``None``, one)
        refine: Refinement passes when explaining; see :meth:`refined`. (default: ``None``, none)
        batch_norm: Statistics of batch norm: ``"separate"`` ones for the two runs, or these
            ``"recalibrated"`` after training. (default: ``None``, shared)
        extractor_norm: What the extractor normalises together: the rows of a ``"graph"``, each
            ``"row"`` by itself, or ``"none"``. (default: ``None``, ``"graph"``)
        readout: Which node embeddings are pooled: ``"all"``, or ``"attended"`` ones, multiplied by
            the attention of the node (with attention to edges, by its strongest edge).
            (default: ``None``, ``"all"``)
        context: Weight of the scores around a node or edge in its own score when explaining; see
            :func:`gsat.attention.in_context`. (default: ``None``, 0)
        seed: Decides the extractor's initial weights. (default: ``0``)

    Attributes:
        extractor: The network g_φ.
        task: What the model predicts.
        on: What has attention, ``"edge"`` or ``"node"``.
        r: The prior that the model was trained with; None before training.
        snapshots: The model after other epochs, whose mean score is the explanation; None for
            none.

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
    answers = True
    rescores = True

    def __init__(
        self,
        backbone: Backbone,
        attention: AttentionLevel = DEFAULTS.attention,
        *,
        extractor_dropout: float = DEFAULTS.extractor_dropout,
        temperature: float = DEFAULTS.temperature,
        sampling: Sampling = DEFAULTS.sampling,
        samples: int | None = None,
        refine: int | None = None,
        batch_norm: BatchNorm | None = None,
        extractor_norm: ExtractorNorm | None = None,
        readout: Readout | None = None,
        context: float | None = None,
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
                "samples": samples,
                "refine": refine,
                "batch_norm": batch_norm,
                "extractor_norm": extractor_norm,
                "readout": readout,
                "context": context,
            },
            owner="GSAT",
        )
        self.backbone = backbone
        self.extractor = Extractor(
            backbone.hidden, attention, extractor_dropout, extractor_norm, seed
        )
        self.task, self.on = backbone.task, attention
        self.temperature, self.sampling, self.samples = temperature, sampling, samples
        self.refine, self.batch_norm = refine, batch_norm
        self.readout, self.context = readout, context
        self.snapshots: nn.ModuleList | None = None
        self.r = None
        if batch_norm is not None:  # the same parameters, with running statistics of its own
            shared = {id(parameter): parameter for parameter in backbone.parameters()}
            self.attended = copy.deepcopy(backbone, shared)

    def forward(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """Run the backbone twice: for the attention, and with it.

        Args:
            batch: The graphs.
            draws: Source of all randomness of this pass: dropout and sampling. (default: ``None``,
                evaluation: no dropout, and α = p)

        Returns:
            Logits of the prediction, edge weights, attention and keep-probabilities.
        """
        output = self._attend(batch, draws)
        return output if draws else self._explained(output, batch)

    def _attend(self, batch: GraphBatch, draws: Draws | None = None) -> ModelOutput:
        """The output of the two runs, without refinement passes and snapshots."""
        at = draws.child if draws else lambda *_: None
        h = self.backbone.embed(batch, draws=at("first run"))  # [N, k], on the whole graph G
        logits = self.extractor(h, batch, at("extractor"))  # [E] or [N]
        probability = torch.sigmoid(logits)  # p
        if draws and self.samples:
            return self._mean_of_samples(logits, batch, draws)
        alpha = self._sample(logits, batch, draws) if draws else probability  # α ~ Bern(p)
        weight = edge_weights(alpha, batch, self._on)  # [E], A_S = α ⊙ A
        return ModelOutput(
            logits=self._predict(batch, weight, alpha, at("second run")),
            edge_weight=weight,
            attention=alpha,
            probability=probability,
        )

    def predict_batch(self, batch: GraphBatch) -> Tensor:
        """Predict without refinement passes and snapshots, which only explanations need."""
        return self._attend(batch).logits

    def answer(self, batch: GraphBatch, attention: Tensor, mask: Tensor | None = None) -> Tensor:
        """Predict under given attention; see :meth:`InterpretableModel.answer`.

        Args:
            batch: The graphs.
            attention: α, ``[E]`` or ``[N]``.
            mask: Multiplies the weights of the edges, ``[E]``. (default: all ones)

        Returns:
            Logits ``[B, num_logits]``, or at node level ``[M, num_logits]``.
        """
        weight = edge_weights(attention, batch, self._on)
        return self._predict(batch, weight if mask is None else weight * mask, attention, None)

    def rescore(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """Explain the attended graph; see :meth:`InterpretableModel.rescore`."""
        return self._score(batch, edge_weights(attention, batch, self._on))[0]

    def _predict(
        self, batch: GraphBatch, weight: Tensor, alpha: Tensor | None, draws: Draws | None
    ) -> Tensor:
        """Logits of the second run, f_θ on the attended graph G_S.

        A node without any kept edge is not part of G_S. With ``readout="attended"`` it is not
        pooled either, so that the prediction cannot bypass the attention.

        Args:
            batch: The graphs.
            weight: w, the weight of each edge's message, ``[E]``.
            alpha: α, ``[E]`` or ``[N]``; None where there are only edge weights.
            draws: Source of the dropout; None for no dropout.
        """
        if self.readout != "attended" or self.task.level == "node":  # a target node always stays
            return self.predictor(batch, attention=weight, draws=draws)
        of_nodes = alpha if self._on == "node" else None
        kept = strongest_edge(weight, batch) if of_nodes is None else of_nodes
        return self.predictor(batch, attention=weight, draws=draws, node_weight=kept)

    @property
    def predictor(self) -> Backbone:
        """The network f_θ of the second run: the backbone, or its twin in batch norm."""
        attended: Backbone = self._modules.get("attended", self.backbone)  # type: ignore[assignment]
        return attended

    def _mean_of_samples(self, logits: Tensor, batch: GraphBatch, draws: Draws) -> ModelOutput:
        """The output with logits averaged over several samples of the attention."""
        predicted, alphas = [], []
        for number in range(self.samples or 1):
            own = draws.child("sample", number)
            alphas.append(self._sample(logits, batch, own))
            weight = edge_weights(alphas[-1], batch, self._on)
            predicted.append(self._predict(batch, weight, alphas[-1], own.child("second run")))
        mean = torch.stack(predicted).mean(dim=0)
        alpha, p = torch.cat(alphas), torch.sigmoid(logits)  # [T·E] or [T·N], and [E] or [N]
        return ModelOutput(mean, edge_weights(p, batch, self._on), alpha, p)

    def _explained(self, output: ModelOutput, batch: GraphBatch) -> ModelOutput:
        """The output with refined scores, or with their mean over snapshots."""
        if self.snapshots is not None:
            kept = [part for part in self.snapshots if isinstance(part, GSAT)]
            found = [part._refine(*part._score(batch), batch, self.refine) for part in kept]
            all_p, all_weights = (torch.stack(part) for part in zip(*found, strict=True))
            p, weight = all_p.mean(dim=0), all_weights.mean(dim=0)
            scores = [self._with_context(*part, batch) for part in found]
            of_units = [own if self.on == "node" else own_weight for own, own_weight in scores]
            output = output._replace(member_scores=torch.stack(of_units))
        else:
            p, weight = output.probability, output.edge_weight
            p, weight = self._refine(p, weight, batch, self.refine)
        p, weight = self._with_context(p, weight, batch)
        return output._replace(probability=p, edge_weight=weight)

    def _with_context(self, p: Tensor, weight: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Keep-probabilities and edge weights with a share of the scores around them."""
        if not self.context:
            return p, weight
        p = in_context(p, batch, self.context, self._on)
        return p, edge_weights(p, batch, self._on)

    def _score(self, batch: GraphBatch, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Keep-probabilities and edge weights, of the whole graph or of the attended one."""
        network = self.backbone if weight is None else self.predictor
        p = torch.sigmoid(self.extractor(network.embed(batch, attention=weight), batch))
        return p, edge_weights(p, batch, self._on)

    def _refine(
        self, p: Tensor, weight: Tensor, batch: GraphBatch, times: int | None
    ) -> tuple[Tensor, Tensor]:
        for _ in range(times or 0):
            p, weight = self._score(batch, weight)
        return p, weight

    def refined(self, passes: int) -> Self:
        """Return the same model that refines its explanations.

        In a refinement pass, the graph is embedded with its own edge weights, and the extractor
        scores these embeddings.
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
            >>> model.refined(1).refine, model.refine
            (1, None)
        """
        given = validated(AttentionSettings, {"refine": passes}, owner="GSAT")
        view = copy.copy(self)
        view.refine = given.refine
        return view

    def take_snapshots(self, weights: Sequence[Mapping[str, Tensor]]) -> None:
        """Explain by the mean score of the model after several epochs from now on.

        Predictions stay those of this model.

        Args:
            weights: The model's state dict after each of these epochs; none to use none.
        """
        self.add_snapshots(len(weights))
        for snapshot, state in zip(self.snapshots or (), weights, strict=True):
            load_weights(snapshot, state)

    def add_snapshots(self, count: int) -> None:
        """Make room for snapshots: copies of the model, whose weights do not train.

        Args:
            count: How many; 0 to remove those there are.

        Raises:
            GSATError: If that is no number of snapshots.
        """
        if not isinstance(count, int) or not 0 <= count <= MOST_SNAPSHOTS:
            raise GSATError(f"a model has 0 to {MOST_SNAPSHOTS} snapshots, not {count!r}")
        self.snapshots = None
        if count:
            copies = [copy.deepcopy(self).eval().requires_grad_(False) for _ in range(count)]
            self.snapshots = nn.ModuleList(copies)

    def recalibrate(self, batches: Iterable[GraphBatch]) -> None:
        """Compute the running statistics of batch norm anew: their mean over batches.

        Args:
            batches: Graphs of the training set; neither dropout nor sampling is used.
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
    def remedies(self) -> tuple[str, ...]:
        """Settings it is not trained with that may make its explanations more faithful."""
        unused = {
            "readout=attended": self.readout != "attended" and self.task.level == "graph",
            "extractor_norm=row": self.extractor.norm != "row",
            "snapshots=10": self.snapshots is None,
            "members=3": True,
        }
        return tuple(setting for setting, helps in unused.items() if helps)

    @property
    def config(self) -> dict[str, Any]:
        """Plain values from which :meth:`from_config` builds the same model."""
        return {
            "backbone": self.backbone.description,
            "attention": self.on,
            "extractor_dropout": self.extractor.dropout,
            "temperature": self.temperature,
            "sampling": self.sampling,
            **{name: value for name, value in self._options.items() if value is not None},
            "r": self.r,
        }

    @property
    def _options(self) -> dict[str, Any]:
        """Settings that most models do not have."""
        count = None if self.snapshots is None else len(self.snapshots)
        return {
            "samples": self.samples,
            "refine": self.refine,
            "batch_norm": self.batch_norm,
            "extractor_norm": self.extractor.norm,
            "readout": self.readout,
            "context": self.context,
            "snapshots": count,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Make the model that :attr:`config` describes, with fresh weights.

        Args:
            config: Plain values, as :attr:`config` holds them.

        Returns:
            The model.
        """
        after = ("r", "snapshots")
        made = super().from_config({k: value for k, value in config.items() if k not in after})
        made.r = config["r"]
        made.add_snapshots(config.get("snapshots", 0))
        return made

    def as_pyg(self, label: int | None = None) -> PyGModel:
        """Return a view of the model that ``torch_geometric.explain`` can call.

        Args:
            label: Which label of a multi-label model is explained. (default: ``None``)

        Returns:
            The view; see :class:`gsat.PyGModel`.
        """
        from gsat.models.wrapping.pyg_model import PyGModel

        return PyGModel(self, label)
