"""The small ops: each chooses its form (see :mod:`gsat.ops.dispatch`) and calls it.

What an op means is written down in :mod:`gsat.ops.reference`, in plain torch; the compiled forms
are in :mod:`gsat.ops.numba`. In all of them, ``row_id`` names each row for the random draws
(``batch.node_id`` or ``batch.edge_id``), and ``draws=None`` means no dropout. The large ops, whole
layers of networks, are in :mod:`gsat.ops.layers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import Adam

from gsat.graphs.batch import GraphBatch
from gsat.ops import reference
from gsat.ops.dispatch import use_fused, use_numba
from gsat.ops.numba import forms as compiled
from gsat.ops.random import Draws
from gsat.ops.reference import Aggregator, EdgeTerm, ScalarTerm, StatisticsNetwork


def _form(*tensors: Tensor | None) -> Any:
    """Return the module whose form of an op takes these tensors."""
    return compiled if use_numba(*tensors) else reference


def pool(x: Tensor, ptr: Tensor, how: Literal["sum", "mean"] = "sum") -> Tensor:
    """Pool the rows of each segment.

    Args:
        x: Rows to pool, ``[M, h]``.
        ptr: Segment boundaries, ``[B + 1]``; segment i holds rows ``ptr[i]`` to ``ptr[i + 1] - 1``.
        how: ``"sum"`` or ``"mean"``. (default: ``"sum"``)

    Returns:
        One row per segment, ``[B, h]``; zeros for an empty segment.

    Example:
        >>> import torch
        >>> from gsat.ops import pool
        >>> pool(torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([0, 2, 2, 3]))
        tensor([[3.],
                [0.],
                [5.]])
    """
    total = _form(x).segment_sum(x, ptr)
    if how == "sum":
        return total
    return total / ptr.diff().clamp(min=1).to(x.dtype)[:, None]


def segment_topk_mask(scores: Tensor, ptr: Tensor, k: Tensor) -> Tensor:
    """Mark the highest scores of each segment; of equal scores the first are taken.

    Args:
        scores: ``[M]``.
        ptr: Segment boundaries, ``[B + 1]``.
        k: How many to mark in each segment, ``[B]`` long; at most the segment's length.

    Returns:
        ``[M]`` bool.
    """
    scores = scores.detach()
    return _form(scores).segment_topk_mask(scores, ptr, k)


def concrete(logits: Tensor, row_id: Tensor, draws: Draws, temperature: float = 1.0) -> Tensor:
    """Draw from the concrete (relaxed Bernoulli) distribution.

    ``sigmoid((logit + log u - log(1 - u)) / temperature)`` with u uniform in (0, 1).

    Args:
        logits: Logits of the keep-probabilities, ``[M]``.
        row_id: Names of the rows for the draws, ``[M]`` long.
        draws: Source of the randomness.
        temperature: Above 0; small values give samples near 0 and 1. (default: ``1.0``)

    Returns:
        Samples in [0, 1], ``[M]``.

    Example:
        >>> import torch
        >>> from gsat.ops import Draws, concrete
        >>> alpha = concrete(torch.zeros(1000), torch.arange(1000), Draws(0, "example"))
        >>> bool(0.45 < alpha.mean() < 0.55)
        True
    """
    return _form(logits).concrete(logits, row_id, draws, temperature)


def bernoulli_kl(alpha: Tensor, r: float) -> Tensor:
    """Compute the mean of KL(Bernoulli(α) ‖ Bernoulli(r)) over all entries.

    Args:
        alpha: Probabilities in [0, 1], any shape.
        r: The prior probability.

    Returns:
        A scalar; 0 for no entries.

    Example:
        >>> import torch
        >>> from gsat.ops import bernoulli_kl
        >>> round(bernoulli_kl(torch.tensor([1.0, 1.0]), 0.7).item(), 3)
        0.357
    """
    if alpha.numel() == 0:
        return alpha.sum()
    return _form(alpha).bernoulli_kl(alpha, r)


def relu_dropout(
    z: Tensor, row_id: Tensor, drop: float, draws: Draws | None, bias: Tensor | None = None
) -> Tensor:
    """Apply bias, ReLU and dropout.

    Args:
        z: ``[M, d]``.
        row_id: Names of the rows for the draws, ``[M]`` long.
        drop: Probability of dropping an entry.
        draws: Source of the randomness; None for no dropout.
        bias: ``[d]``. (default: ``None``)

    Returns:
        ``[M, d]``.
    """
    if draws is not None and drop != 0.0 and use_numba(z, bias):
        return compiled.relu_dropout(z, row_id, drop, draws, bias)
    return reference.relu_dropout(z, row_id, drop, draws, bias)


def add_dropout(x: Tensor, z: Tensor, row_id: Tensor, drop: float, draws: Draws | None) -> Tensor:
    """Apply a residual connection and dropout: ``dropout(x + z)``.

    Args:
        x: ``[M, d]``.
        z: ``[M, d]``.
        row_id: Names of the rows for the draws, ``[M]`` long.
        drop: Probability of dropping an entry.
        draws: Source of the randomness; None for no dropout.

    Returns:
        ``[M, d]``.
    """
    if draws is not None and drop != 0.0 and use_numba(x, z):
        return compiled.add_dropout(x, z, row_id, drop, draws)
    return reference.add_dropout(x, z, row_id, drop, draws)


def batch_norm_relu(z: Tensor, bias: Tensor, norm: nn.BatchNorm1d) -> Tensor:
    """Compute ``ReLU(norm(z + bias))``, and update the running statistics in training mode.

    Args:
        z: ``[N, h]``.
        bias: Bias of the linear layer that made ``z``, ``[h]``.
        norm: A batch norm with weights and running statistics.

    Returns:
        ``[N, h]``.
    """
    if norm.training and use_numba(z, bias) and len(z) >= 2:
        return compiled.batch_norm_relu(z, bias, norm)
    return reference.batch_norm_relu(z, bias, norm)


def normalise_relu_dropout(
    z: Tensor, ptr: Tensor, row_id: Tensor, drop: float, draws: Draws | None
) -> Tensor:
    """Normalise each segment to mean 0 and variance 1 per channel, then apply ReLU and dropout.

    Args:
        z: ``[M, d]``.
        ptr: Segment boundaries, ``[B + 1]``.
        row_id: Names of the rows for the draws, ``[M]`` long.
        drop: Probability of dropping an entry.
        draws: Source of the randomness; None for no dropout.

    Returns:
        ``[M, d]``.
    """
    return _form(z).normalise_relu_dropout(z, ptr, row_id, drop, draws)


def gather_normalise_relu_dropout(
    a: Tensor, b: Tensor, batch: GraphBatch, drop: float, draws: Draws | None
) -> Tensor:
    """Apply :func:`normalise_relu_dropout` per graph to ``a[src] + b[dst]``, which is never stored.

    Args:
        a: Taken at the source of each edge, ``[N, d]``.
        b: Taken at the destination of each edge, ``[N, d]``.
        batch: The graphs.
        drop: Probability of dropping an entry.
        draws: Source of the randomness; None for no dropout.

    Returns:
        ``[E, d]``.
    """
    return _form(a, b).gather_normalise_relu_dropout(a, b, batch, drop, draws)


def row_normalise_relu_dropout(
    z: Tensor, row_id: Tensor, drop: float, draws: Draws | None
) -> Tensor:
    """Normalise each row to mean 0 and variance 1, then apply ReLU and dropout.

    Args:
        z: ``[M, d]``.
        row_id: Names of the rows for the draws, ``[M]`` long.
        drop: Probability of dropping an entry.
        draws: Source of the randomness; None for no dropout.

    Returns:
        ``[M, d]``.
    """
    return _form(z).row_normalise_relu_dropout(z, row_id, drop, draws)


def scalar_term(attribute: Tensor, encoder: nn.Linear, edge: nn.Linear) -> ScalarTerm:
    """Write ``edge(encoder(a))`` of a scalar edge attribute a as ``a * slope + offset``, exactly.

    Args:
        attribute: ``[E]``.
        encoder: Linear layer with one input.
        edge: Linear layer that follows it.

    Returns:
        The edge term; no product of size E × h × h is needed.
    """
    return _form(encoder.weight, edge.weight).scalar_term(attribute, encoder, edge)


def aggregate(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    term: EdgeTerm = None,
    include_self: bool = False,
) -> Tensor:
    """Sum the weighted messages that arrive at each node.

    The message of edge u → v is ``x_u``, or ``ReLU(x_u + c_uv)`` with an edge term c.

    Args:
        x: Node features, ``[N, h]``.
        batch: The graphs.
        weight: Weight of each edge's message, ``[E]``; None for all ones.
        term: Edge term c: a :class:`ScalarTerm` or ``[E, h]``. (default: ``None``)
        include_self: Whether ``x`` itself is added, as in GIN. (default: ``False``)

    Returns:
        ``[N, h]``; zero (or ``x``) where no edge arrives.
    """
    terms = term if isinstance(term, ScalarTerm) else (term,)
    return _form(x, weight, *terms).aggregate(x, batch, weight, term, include_self)


def multi_aggregate_edges(
    e: Tensor, batch: GraphBatch, weight: Tensor | None, aggregators: Sequence[Aggregator]
) -> Tensor:
    """Aggregate messages ``w_uv * e_uv`` from the edges in several ways.

    Args:
        e: Edge features, ``[E, h]``.
        batch: The graphs.
        weight: Weight of each edge's message, ``[E]``; None for all ones.
        aggregators: Which of mean, min, max, std and sum, in what order.

    Returns:
        ``[N, A, h]``; where no edge arrives 0, and √1e-5 for std.
    """
    return _form(e, weight).multi_aggregate_edges(e, batch, weight, aggregators)


def train_statistics_network(
    network: StatisticsNetwork, adam: Adam, e: Tensor, p: Tensor, orders: Tensor
) -> Tensor:
    """Train an estimator of the mutual information of pairs, one Adam step per permutation.

    Args:
        network: The estimator; its weights change in place.
        adam: The optimiser that ``network.adam()`` made; its state changes in place.
        e: First members of the pairs, ``[B, h]``; they get no gradient.
        p: Second members of the pairs, ``[B, h]``; they get no gradient.
        orders: Permutations of the first members, ``[I, B]`` long.

    Returns:
        The Donsker-Varadhan estimate before each step, ``[I]``.
    """
    form = compiled if use_fused(e, p, network.first.weight) else reference
    return form.train_statistics_network(network, adam, e, p, orders)
