"""What models return: the output for a batch, and predictions."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class ModelOutput(NamedTuple):
    """The output of a model for a batch of B graphs.

    Attributes:
        logits: ``[B, num_logits]``, or at node level ``[M, num_logits]`` for the M targets.
        edge_weight: The score of each edge, ``[E]``; its message is multiplied by it (and by the
            data's own weight, if it has one).
        attention: The α the weights were made from, ``[E]`` or ``[N]``; a sample in training, p
            otherwise.
        probability: p, the same shape.
        edge_spread: Standard deviation of the scores over the members of an ensemble, ``[E]``.
        answer_spread: Standard deviation of the probabilities over the members, ``[B, C]``, or of
            the numbers in a regression.
        member_scores: The scores by each of K ensemble members or snapshots, ``[K, E]`` or
            ``[K, N]``.
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
        probabilities: One column per class or label, ``[G, C]``; no columns in a regression.
        labels: The predicted classes ``[G]`` or labels ``[G, T]``; in a regression, the numbers.
    """

    logits: Tensor
    probabilities: Tensor
    labels: Tensor
