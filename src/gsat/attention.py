"""Stochastic attention: the extractor g_φ and the attended graph G_S (Section 4.2 of the paper).

The extractor reads node representations h and gives every edge (or node) a keep-probability
p = sigmoid(logit). While training, attention α is drawn from Bern(p), relaxed so that gradients
reach p; the predictor then sees the graph with A_S = α ⊙ A, that is, with each message multiplied
by the weight of its edge:

    h        [N, k]        from the backbone, on the whole graph
    logits   [E] or [N]    Extractor
    α        [E] or [N]    sample
    w        [E]           edge_weights
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from gsat.core.settings import Settings, validated
from gsat.graphs import GraphBatch
from gsat.models.weights import seeded
from gsat.ops import (
    Draws,
    concrete,
    extractor,
    relu_dropout,
    row_normalise_relu_dropout,
)

AttentionLevel = Literal["edge", "node"]
Sampling = Literal["concrete", "straight-through", "none"]
BatchNorm = Literal["separate", "recalibrated"]
ExtractorNorm = Literal["graph", "row", "none"]
Readout = Literal["all", "attended"]


class AttentionSettings(Settings):
    """The settings of stochastic attention."""

    attention: AttentionLevel = Field("edge", description="What has a keep-probability.")
    extractor_dropout: float = Field(0.5, ge=0, lt=1, description="Dropout in the extractor.")
    sampling: Sampling = Field(
        "concrete", description="How attention is sampled; 'none' is the paper's NoStoch."
    )
    temperature: float = Field(1.0, gt=0, description="Temperature of the samples.")
    samples: PositiveInt | None = Field(
        None,
        description="Draws of the attention per step, over which the logits are averaged; absent: "
        "one.",
    )
    refine: NonNegativeInt | None = Field(
        None,
        description="Refinement passes when explaining: the graph is embedded again with its own "
        "edge weights, and scored again; absent: none.",
    )
    extractor_norm: ExtractorNorm | None = Field(
        None,
        description="What the extractor normalises together: the rows of a 'graph' (the paper), "
        "each 'row' by itself, or 'none'; absent: 'graph'.",
    )
    readout: Readout | None = Field(
        None,
        description="Which node embeddings are pooled: 'all' with full weight (the paper), or "
        "'attended', each multiplied by the node's attention; absent: 'all'.",
    )
    context: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Weight of the mean score of its neighbours in the score of a node (or of the "
        "edges at its ends in that of an edge) when explaining; absent: 0.",
    )
    batch_norm: BatchNorm | None = Field(
        None,
        description="Statistics of batch norm: 'separate' for the run on the whole graph and the "
        "run on the attended one, or 'recalibrated', these computed anew on the training set after "
        "training; absent: shared.",
    )


DEFAULTS = AttentionSettings.model_validate({})


class Extractor(nn.Module):
    """The network g_φ: node embeddings to one attention logit per edge or per node.

    Three linear layers, 2k → 4k → k → 1 on concat(h_u, h_v) for edges, or k → 2k → k → 1 on h_v for
    nodes. After each of the two hidden layers follow normalisation, ReLU and dropout.

    The paper normalises each channel over all rows of a graph. Then one unusual node changes the
    attention of every other node, so that a label can leak into the attention of irrelevant nodes.
    With ``norm="row"`` each row is normalised by itself, as in a layer norm without weights.

    Args:
        hidden: k, the width of the embeddings.
        on: What has attention, ``"edge"`` or ``"node"``. (default: ``"edge"``)
        dropout: Dropout after each hidden layer. (default: ``0.5``)
        norm: ``"graph"``, ``"row"`` or ``"none"``. (default: ``None``, ``"graph"``)
        seed: Decides the initial weights. (default: ``0``)
    """

    def __init__(
        self,
        hidden: int,
        on: AttentionLevel = DEFAULTS.attention,
        dropout: float = DEFAULTS.extractor_dropout,
        norm: ExtractorNorm | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        given = {"attention": on, "extractor_dropout": dropout, "extractor_norm": norm}
        validated(AttentionSettings, given, owner="the extractor")
        width = 2 * hidden if on == "edge" else hidden
        self.hidden, self.on, self.dropout, self.norm = hidden, on, dropout, norm
        with seeded(seed, "extractor"):
            self.first = nn.Linear(width, 2 * width)
            self.second = nn.Linear(2 * width, hidden)
            self.last = nn.Linear(hidden, 1)

    def forward(self, h: Tensor, batch: GraphBatch, draws: Draws | None = None) -> Tensor:
        """Compute the attention logits.

        Args:
            h: Node embeddings, ``[N, k]``.
            batch: The graphs.
            draws: Source of the dropout. (default: ``None``, no dropout)

        Returns:
            Logits of the keep-probabilities, ``[E]`` or ``[N]``.
        """
        if self.norm in ("row", "none"):
            return self._row_by_row(h, batch, draws)
        # The biases of the first two layers cancel in the normalisation that follows them.
        return extractor(
            h, batch, self.first.weight, self.second.weight, self.last.weight, self.last.bias,
            self.dropout, draws,
        )  # fmt: skip

    def _row_by_row(self, h: Tensor, batch: GraphBatch, draws: Draws | None) -> Tensor:
        """The logits of an extractor in which no row sees another one."""
        if self.on == "edge":
            row_id = batch.edge_id
            source, target = self.first.weight.split(self.hidden, dim=1)
            z = (h @ source.T)[batch.src] + torch.addmm(self.first.bias, h, target.T)[batch.dst]
        else:
            row_id, z = batch.node_id, self.first(h)
        one, two = (draws.child(0), draws.child(1)) if draws else (None, None)
        activate = row_normalise_relu_dropout if self.norm == "row" else relu_dropout
        y = activate(z, row_id, self.dropout, one)  # [E or N, c]
        y = activate(self.second(y), row_id, self.dropout, two)  # [E or N, m]
        return self.last(y)[:, 0]


def sample(
    logits: Tensor,
    row_id: Tensor,
    draws: Draws,
    temperature: float = DEFAULTS.temperature,
    how: Sampling = DEFAULTS.sampling,
) -> Tensor:
    """Draw attention α ~ Bern(p) for p = sigmoid(logits), in a way that has a gradient.

    Args:
        logits: Logits of the keep-probabilities, ``[M]``.
        row_id: Names of the edges or nodes for the draws, ``[M]`` long.
        draws: Source of the randomness.
        temperature: Of the relaxation, above 0. (default: ``1.0``)
        how: ``"concrete"`` (the Gumbel-softmax trick for two outcomes), ``"straight-through"`` (the
            same rounded to 0 or 1, with the gradient of the unrounded value) or ``"none"`` (α = p,
            the paper's ablation NoStoch). (default: ``"concrete"``)

    Returns:
        α, ``[M]``.

    Example:
        >>> import torch
        >>> from gsat.attention import sample
        >>> from gsat.ops import Draws
        >>> logits = torch.tensor([-20.0, 0.0, 20.0])
        >>> sample(logits, torch.arange(3), Draws(0), how="none").round(decimals=4)
        tensor([0.0000, 0.5000, 1.0000])
        >>> sample(logits, torch.arange(3), Draws(0), how="straight-through")[[0, 2]]
        tensor([0., 1.])
    """
    if how == "none":
        return torch.sigmoid(logits)
    soft = concrete(logits, row_id, draws, temperature)
    if how == "concrete":
        return soft
    # Written so that the value is exactly 0 or 1: soft − soft.detach() is exactly 0.
    return (soft > 0.5).to(soft.dtype) + (soft - soft.detach())


def average_directions(attention: Tensor, batch: GraphBatch) -> Tensor:
    """Average the attention of both directions of an edge.

    w_uv = w_vu = (α_uv + α_vu) / 2 on undirected graphs; w = α on directed ones.

    Args:
        attention: α, ``[E]``.
        batch: The graphs.

    Returns:
        w, ``[E]``.
    """
    return _PairMean.apply(attention, batch.pair)


class _PairMean(torch.autograd.Function):
    """(α + α[pair]) / 2. The pair of an edge's pair is the edge: backward is forward again."""

    @staticmethod
    def forward(ctx: Any, attention: Tensor, pair: Tensor) -> Tensor:
        ctx.save_for_backward(pair)
        return (attention + attention[pair]) / 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (pair,) = ctx.saved_tensors
        return (grad + grad[pair]) / 2, None


def strongest_edge(weight: Tensor, batch: GraphBatch) -> Tensor:
    """Return the largest weight among the edges at each node.

    Args:
        weight: w, ``[E]``.
        batch: The graphs.

    Returns:
        ``[N]``; 1 for a node without edges.
    """
    ends = [batch.dst] if bool(batch.undirected.all()) else [batch.src, batch.dst]
    return weight.new_ones(batch.num_nodes).scatter_reduce(
        0, torch.cat(ends), weight.repeat(len(ends)), "amax", include_self=False
    )


def in_context(score: Tensor, batch: GraphBatch, context: float, on: AttentionLevel) -> Tensor:
    """Add a share of the scores around it to the score of each node or edge.

    (s + c · m) / (1 + c), where m is the mean score of the neighbours u of a node v (edges u → v),
    or the mean over both ends of an edge of the mean score of the edges there. The embedding of a
    node holds the features of its neighbours, so that the model need not attend to them as well.

    Args:
        score: s, ``[N]`` or ``[E]``.
        batch: The graphs.
        context: c.
        on: What has a score, ``"edge"`` or ``"node"``.

    Returns:
        In the shape of ``score``; the score itself for a node without neighbours.
    """
    zeros = score.new_zeros(batch.num_nodes)
    if on == "node":
        degree = batch.dst_ptr.diff()
        total = zeros.index_add(0, batch.dst, score[batch.src])
        mean = torch.where(degree > 0, total / degree.clamp(min=1), score)
    else:
        ends = torch.cat([batch.src, batch.dst])
        total = zeros.index_add(0, ends, score.repeat(2))
        at_nodes = total / torch.bincount(ends, minlength=batch.num_nodes).clamp(min=1)
        mean = (at_nodes[batch.src] + at_nodes[batch.dst]) / 2
    return (score + context * mean) / (1 + context)


def lift(attention: Tensor, batch: GraphBatch) -> Tensor:
    """Lift attention from nodes to edges: w_uv = α_u · α_v.

    Args:
        attention: α, ``[N]``.
        batch: The graphs.

    Returns:
        w, ``[E]``.
    """
    return attention[batch.src] * attention[batch.dst]


def edge_weights(attention: Tensor, batch: GraphBatch, on: AttentionLevel) -> Tensor:
    """Compute the weight of each edge's message from the attention.

    Args:
        attention: α, ``[E]`` or ``[N]``.
        batch: The graphs.
        on: What has attention, ``"edge"`` or ``"node"``.

    Returns:
        w, ``[E]``: what A_S = α ⊙ A means for messages.
    """
    return average_directions(attention, batch) if on == "edge" else lift(attention, batch)
