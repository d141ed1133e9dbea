"""The large ops: layers of networks, each in one pass where the compiled form takes its tensors.

Otherwise they are made of the small ones in :mod:`gsat.ops.functional`, compiled or not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gsat.graphs.batch import GraphBatch
from gsat.ops import functional, reference
from gsat.ops.dispatch import use_fused
from gsat.ops.numba import forms as compiled
from gsat.ops.random import Draws
from gsat.ops.reference import Aggregator, EdgeTerm, ScalarTerm


def extractor(
    h: Tensor,
    batch: GraphBatch,
    first: Tensor,
    second: Tensor,
    last: Tensor,
    bias: Tensor,
    drop: float = 0.0,
    draws: Draws | None = None,
) -> Tensor:
    """Compute attention logits from node embeddings by three linear layers.

    Args:
        h: Node embeddings, ``[N, k]``.
        batch: The graphs.
        first: Weight of the first layer, ``[c, 2k]`` for edges or ``[c, k]`` for nodes.
        second: Weight of the second layer, ``[m, c]``.
        last: Weight of the last layer, ``[1, m]``.
        bias: Bias of the last layer, ``[1]``.
        drop: Dropout after each hidden layer. (default: ``0.0``)
        draws: Source of the randomness. (default: ``None``, no dropout)

    Returns:
        One logit per edge ``[E]``, or per node ``[N]``.
    """
    arguments = (h, batch, first, second, last, bias, drop, draws)
    if use_fused(h, first, second, last):
        return compiled.extractor(*arguments)
    return reference.extractor(*arguments, ops=functional)


def gin_layer(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    term: EdgeTerm,
    inner: nn.Linear,
    norm: nn.BatchNorm1d,
    outer: nn.Linear,
    extra: Tensor,
) -> Tensor:
    """Compute one layer of GIN without dropout, with something added to the messages.

    Args:
        x: Node features, ``[N, h]``.
        batch: The graphs.
        weight: Weight of each edge's message, ``[E]``; None for all ones.
        term: Edge term: a :class:`ScalarTerm`, ``[E, h]`` or None.
        inner: First linear layer of the MLP.
        norm: Batch norm of the MLP.
        outer: Second linear layer of the MLP.
        extra: Added to x and the sum of the messages, ``[N, h]``.

    Returns:
        ``[N, d]``.
    """
    return reference.gin_layer(
        x, batch, weight, term, inner, norm, outer, extra=extra, ops=functional
    )


def gin_layers(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    terms: Sequence[EdgeTerm],
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d, nn.Linear]],
    drop: float = 0.0,
    draws: Sequence[Draws | None] | None = None,
) -> Tensor:
    """Compute layers of GIN, each with the ReLU and the dropout that follow it.

    ``dropout(ReLU(outer(ReLU(norm(inner(s))))))`` with ``s = aggregate(x, ...) + x``; updates the
    running statistics in training mode.

    Args:
        x: Node features, ``[N, h]``.
        batch: The graphs.
        weight: Weight of each edge's message, ``[E]``; None for all ones.
        terms: Edge term of each layer: a :class:`ScalarTerm`, ``[E, h]`` or None.
        layers: First linear layer, batch norm and second linear layer of each layer's MLP.
        drop: Probability of dropping an entry. (default: ``0.0``)
        draws: Source of the randomness for each layer. (default: ``None``, no dropout)

    Returns:
        ``[N, d]``.
    """
    training = {norm.training for _, norm, _ in layers}
    tensors = [t for term in terms for t in (term if isinstance(term, ScalarTerm) else (term,))]
    if use_fused(x, weight, *tensors, *(inner.weight for inner, _, _ in layers)):
        if training == {True} and len(x) >= 2:
            return compiled.gin_layers(x, batch, weight, terms, layers, drop, draws)
        if training == {False} and draws is None and not torch.is_grad_enabled():
            return compiled.gin_layers_inference(x, batch, weight, terms, layers)
    return reference.gin_layers(x, batch, weight, terms, layers, drop, draws, ops=functional)


def pna_layer(
    x: Tensor,
    messages: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    linear: nn.Linear,
    norm: nn.BatchNorm1d,
    aggregators: Sequence[Aggregator],
    scale: Tensor | None = None,
) -> Tensor:
    """Compute one layer of PNA without dropout from messages that are given.

    Args:
        x: Node embeddings, ``[N, h]``.
        messages: Messages of the edges, before they are weighted, ``[E, parts * h]``.
        batch: The graphs.
        weight: Weight of each edge's message, ``[E]``; None for all ones.
        linear: The linear layer.
        norm: The batch norm that follows it.
        aggregators: The aggregations.
        scale: What scalers multiply the aggregations with, ``[N, S, 1]``. (default: ``None``)

    Returns:
        ``[N, h]``.
    """
    return reference.pna_layer(
        x, messages, batch, weight, linear, norm, aggregators, scale, ops=functional
    )


def pna_layers(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    edge: Tensor | None,
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d]],
    aggregators: Sequence[Aggregator],
    scale: Tensor | None = None,
    drop: float = 0.0,
    draws: Sequence[Draws | None] | None = None,
) -> Tensor:
    """Compute layers of PNA: several aggregations, linear, batch norm, ReLU, residual, dropout.

    Args:
        x: Node embeddings, ``[N, h]``.
        batch: The graphs.
        weight: Weight of each edge's message, ``[E]``; None for all ones.
        edge: Edge attributes, ``[E, h]``, or ``[1, h]`` where all are equal; None for none.
        layers: The linear layer and the batch norm of each layer.
        aggregators: The aggregations.
        scale: What scalers multiply the aggregations with, ``[N, S, 1]``. (default: ``None``)
        drop: Probability of dropping an entry. (default: ``0.0``)
        draws: Source of the randomness for each layer. (default: ``None``, no dropout)

    Returns:
        ``[N, h]``.
    """
    training = {norm.training for _, norm in layers}
    if (
        scale is None
        and len(training) == 1
        and (len(x) >= 2 or True not in training)
        and use_fused(x, weight, edge, *(linear.weight for linear, _ in layers))
    ):
        return compiled.pna_layers(x, batch, weight, edge, layers, aggregators, drop, draws)
    return reference.pna_layers(
        x, batch, weight, edge, layers, aggregators, scale, drop, draws, ops=functional
    )
