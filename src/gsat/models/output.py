"""What models return: the output for a batch, and predictions."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class ModelOutput(NamedTuple):
    """The output of a model for a batch.

    Attributes:
        logits: ``[B, num_logits]``, or at node level ``[M, num_logits]`` for the M targets.
        edge_weight: The score of each edge, ``[E]``; its message is multiplied with it (and with
            the data's own weight, if it has one).
        attention: The α the weights were made from, ``[E]`` or ``[N]``; sampled in training, p
            otherwise.
        probability: p, the same shape.
        edge_spread: Standard deviation of the scores over the members of an ensemble, ``[E]``; None
            for a single model. (default: ``None``)
        answer_spread: That of the probabilities, ``[B, C]``, or of the numbers in a regression.
            (default: ``None``)
        member_scores: The scores by each of K ensemble members or snapshots, ``[K, E]`` or, where
            the model attends to nodes, ``[K, N]``; None for a single model. (default: ``None``)
    """

    logits: Tensor
    edge_weight: Tensor
    attention: Tensor
    probability: Tensor
    edge_spread: Tensor | None = None
    answer_spread: Tensor | None = None
    member_scores: Tensor | None = None


class Predictions(NamedTuple):
    """Predictions for G graphs, or at node level for G nodes.

    Attributes:
        logits: ``[G, num_logits]``.
        probabilities: ``[G, C]``.
        labels: ``[G]`` or ``[G, T]``; in regression the predicted numbers, ``[G]``.
    """

    logits: Tensor
    probabilities: Tensor
    labels: Tensor
