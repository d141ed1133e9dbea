"""Stochastic attention (Section 4.2 of the paper): keep-probabilities, samples, edge weights.

h        [N, k]        node embeddings of the whole graph, from the backbone
logits   [E] or [N]    Extractor: one number per edge, or per node; p = sigmoid(logits)
α        [E] or [N]    sample: α ~ Bern(p), relaxed so that gradients reach p
w        [E]           edge_weights: the predictor multiplies each message by its edge's weight
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from gsat.core.settings import Settings
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
ExtractorNorm = Literal["graph", "row", "none"]


class AttentionSettings(Settings):
    """The settings of stochastic attention, and the only place where they are declared."""

    attention: AttentionLevel = Field(
        "edge", description="Whether each 'edge' or each 'node' has a keep-probability."
    )
    extractor_dropout: float = Field(0.5, ge=0, lt=1, description="Dropout in the extractor.")
    sampling: Sampling = Field(
        "concrete", description="How attention is sampled; 'none' is the paper's NoStoch."
    )
    temperature: float = Field(1.0, gt=0, description="Temperature of the samples.")
    samples: PositiveInt | None = Field(
        None,
        le=1000,
        description="Samples of the attention per training step, over which logits are averaged; "
        "absent: one.",
    )
    refine: NonNegativeInt | None = Field(
        None,
        le=20,
        description="Refinement passes when explaining: each embeds the graph with the edge "
        "weights of the pass before and computes new ones; absent: none.",
    )
    extractor_norm: ExtractorNorm | None = Field(
        None,
        description="What the extractor normalises together: the rows of a 'graph' (the paper), "
        "each 'row' by itself, or 'none'; absent: 'graph'.",
    )
    readout: Literal["all", "attended"] | None = Field(
        None,
        description="Which node embeddings are pooled: 'all' with full weight (the paper), or "
        "'attended', each multiplied by the node's attention; absent: 'all'.",
    )
    context: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Weight of the mean score around a node or edge in its own score when "
        "explaining; absent: 0.",
    )
    batch_norm: Literal["separate", "recalibrated"] | None = Field(
        None,
        description="Batch norm statistics: 'separate' for the whole graph and for the attended "
        "one, or 'recalibrated', separate and computed anew on the training set after training; "
        "absent: shared.",
    )


class Extractor(nn.Module):
    """The network g_φ: node embeddings to one attention logit per edge or per node.

    Three linear layers, 2k → 4k → k → 1 on concat(h_u, h_v) for edges, or k → 2k → k → 1 on h_v for
    nodes. Normalisation, ReLU and dropout follow each of the first two.

    The paper normalises each channel over all rows of a graph. Then one unusual node changes the
    attention of every other node, and a label can leak into the attention of irrelevant nodes.
    ``norm="row"`` normalises each row by itself, like a layer norm without weights.
    """

    def __init__(
        self,
        hidden: int,
        on: AttentionLevel = "edge",
        dropout: float = 0.5,
        norm: ExtractorNorm | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        width = 2 * hidden if on == "edge" else hidden
        self.hidden, self.on, self.dropout, self.norm = hidden, on, dropout, norm
        with seeded(seed, "extractor"):
            self.first = nn.Linear(width, 2 * width)
            self.second = nn.Linear(2 * width, hidden)
            self.last = nn.Linear(hidden, 1)

    def forward(self, h: Tensor, batch: GraphBatch, draws: Draws | None = None) -> Tensor:
        """Compute the logits of the keep-probabilities; without ``draws`` there is no dropout."""
        if self.norm in (None, "graph"):
            # One fused operation. The first two biases cancel in the normalisation after them.
            return extractor(
                h, batch, self.first.weight, self.second.weight, self.last.weight, self.last.bias,
                self.dropout, draws,
            )  # fmt: skip
        if self.on == "edge":
            # W concat(h_u, h_v) = W_u h_u + W_v h_v: two products over nodes, not one over edges.
            source, target = self.first.weight.split(self.hidden, dim=1)
            z = (h @ source.T)[batch.src] + torch.addmm(self.first.bias, h, target.T)[batch.dst]
            row_id = batch.edge_id
        else:
            z, row_id = self.first(h), batch.node_id
        one, two = (draws.child(0), draws.child(1)) if draws else (None, None)
        activate = row_normalise_relu_dropout if self.norm == "row" else relu_dropout
        y = activate(z, row_id, self.dropout, one)  # [E, 4k] or [N, 2k]
        y = activate(self.second(y), row_id, self.dropout, two)  # [E, k] or [N, k]
        return self.last(y)[:, 0]  # [E] or [N]


def sample(
    logits: Tensor,
    row_id: Tensor,
    draws: Draws,
    temperature: float = 1.0,
    how: Sampling = "concrete",
) -> Tensor:
    """Sample α ~ Bern(sigmoid(logits)), with a gradient.

    ``"concrete"`` is the Gumbel-softmax trick for two outcomes. ``"straight-through"`` rounds its
    value to 0 or 1 and keeps its gradient. ``"none"`` returns p. ``row_id`` names each edge or node
    in the random draws, so that its sample does not depend on the batch around it.

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
    # soft − soft.detach() is exactly 0, so the value is exactly 0 or 1.
    return (soft > 0.5).to(soft.dtype) + (soft - soft.detach())


def edge_weights(alpha: Tensor, batch: GraphBatch, on: AttentionLevel) -> Tensor:
    """The weight of each message ``[E]``: what A_S = α ⊙ A means for a message-passing network."""
    return average_directions(alpha, batch) if on == "edge" else lift(alpha, batch)


def lift(alpha: Tensor, batch: GraphBatch) -> Tensor:
    """Attention to nodes ``[N]`` as edge weights ``[E]``: w_uv = α_u · α_v."""
    return alpha[batch.src] * alpha[batch.dst]


def average_directions(alpha: Tensor, batch: GraphBatch) -> Tensor:
    """Average both directions of an edge: w_uv = w_vu = (α_uv + α_vu) / 2.

    ``batch.pair`` holds the reverse of each edge; on directed graphs that is the edge itself.
    """
    return _PairMean.apply(alpha, batch.pair)


class _PairMean(torch.autograd.Function):
    """(α + α[pair]) / 2. The pair of an edge's pair is the edge: backward is forward again."""

    @staticmethod
    def forward(ctx: Any, alpha: Tensor, pair: Tensor) -> Tensor:
        ctx.save_for_backward(pair)
        return (alpha + alpha[pair]) / 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (pair,) = ctx.saved_tensors
        return (grad + grad[pair]) / 2, None


def strongest_edge(weight: Tensor, batch: GraphBatch) -> Tensor:
    """The largest edge weight at each node, ``[E]`` to ``[N]``; 1 for a node without edges."""
    ends = [batch.dst] if bool(batch.undirected.all()) else [batch.src, batch.dst]
    return weight.new_ones(batch.num_nodes).scatter_reduce(
        0, torch.cat(ends), weight.repeat(len(ends)), "amax", include_self=False
    )


def in_context(score: Tensor, batch: GraphBatch, context: float, on: AttentionLevel) -> Tensor:
    """Mix the score of each node or edge with the scores around it: (s + c · m) / (1 + c).

    For a node, m is the mean score of its neighbours. For an edge, it is the mean over both ends of
    the mean score of the edges there. The reason: an embedding already holds the features of the
    neighbours, so the model need not attend to them, too.
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
