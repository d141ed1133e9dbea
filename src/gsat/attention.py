"""Stochastic attention: a keep-probability per edge or node, a sample of it, a weight per edge."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from gsat.graphs import GraphBatch
from gsat.models.weights import seeded
from gsat.ops import (
    Draws,
    concrete,
    extractor,
)
from gsat.settings import Settings, validated

On = Literal["edge", "node"]
Sampling = Literal["concrete", "straight-through", "none"]


class AttentionSettings(Settings):
    """The settings of stochastic attention."""

    attention: On = Field("edge", description="What has a keep-probability.")
    extractor_dropout: float = Field(0.5, ge=0, lt=1, description="Dropout in the extractor.")
    sampling: Sampling = Field(
        "concrete", description="How attention is sampled; 'none' is the paper's NoStoch."
    )
    temperature: float = Field(1.0, gt=0, description="Temperature of the samples.")


DEFAULTS = AttentionSettings.model_validate({})


class Extractor(nn.Module):
    """The network g: node embeddings to one attention logit per edge or per node.

    Three linear layers, 2h → 4h → h → 1 on concat(h_u, h_v) for edges and h → 2h → h → 1 for
    nodes; after the two hidden ones, normalisation per graph, ReLU and dropout.

    Args:
        hidden: h, the width of the embeddings. on: what gets attention, ``edge`` or ``node``.
        dropout: after each hidden layer. seed: decides the initial weights.
    """

    def __init__(
        self,
        hidden: int,
        on: On = DEFAULTS.attention,
        dropout: float = DEFAULTS.extractor_dropout,
        seed: int = 0,
    ) -> None:
        super().__init__()
        given = {"attention": on, "extractor_dropout": dropout}
        validated(AttentionSettings, given, owner="the extractor")
        width = 2 * hidden if on == "edge" else hidden
        self.hidden, self.on, self.dropout = hidden, on, dropout
        with seeded(seed, "extractor"):
            self.first = nn.Linear(width, 2 * width)
            self.second = nn.Linear(2 * width, hidden)
            self.last = nn.Linear(hidden, 1)

    def forward(self, h: Tensor, batch: GraphBatch, draws: Draws | None = None) -> Tensor:
        """Node embeddings [N, h] to logits [E] or [N]."""
        return extractor(
            h, batch, self.first.weight, self.second.weight, self.last.weight, self.last.bias,
            self.dropout, draws,
        )  # fmt: skip


def sample(
    logits: Tensor,
    rows: Tensor,
    draws: Draws,
    temperature: float = 1.0,
    how: Sampling = "concrete",
) -> Tensor:
    """Draw α from the keep-probabilities sigmoid(logits).

    ``concrete``: the relaxed Bernoulli sigmoid((logit + log u − log(1 − u)) / temperature).
    ``straight-through``: the same rounded to 0 or 1, with the gradient of the relaxed value.
    ``none``: α = p, no noise.

    Args:
        logits: [M]. rows: [M], row names for the draws.
    """
    if how == "none":
        return torch.sigmoid(logits)
    soft = concrete(logits, rows, draws, temperature)
    if how == "concrete":
        return soft
    # Written so that the value is exactly 0 or 1: soft − soft.detach() is exactly 0.
    return (soft > 0.5).to(soft.dtype) + (soft - soft.detach())


def average_directions(attention: Tensor, batch: GraphBatch) -> Tensor:
    """w_uv = w_vu = (α_uv + α_vu) / 2 on undirected graphs, w = α on directed ones; [E] to [E]."""
    return _PairMean.apply(attention, batch.pair)


class _PairMean(torch.autograd.Function):
    # An edge's pair is the edge's pair's pair: backward is forward, not a scatter.
    @staticmethod
    def forward(ctx: Any, attention: Tensor, pair: Tensor) -> Tensor:
        ctx.save_for_backward(pair)
        return (attention + attention[pair]) / 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (pair,) = ctx.saved_tensors
        return (grad + grad[pair]) / 2, None


def lift(attention: Tensor, batch: GraphBatch) -> Tensor:
    """Node attention [N] to edge weights w_uv = α_u · α_v [E]."""
    return attention[batch.src] * attention[batch.dst]


def edge_weights(attention: Tensor, batch: GraphBatch, on: On) -> Tensor:
    """The weight of each edge's message [E], from attention to edges [E] or nodes [N]."""
    return average_directions(attention, batch) if on == "edge" else lift(attention, batch)
