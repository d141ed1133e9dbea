"""How far each explanation of a batch can be relied on: measured on its own graph."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.graphs import GraphBatch
from gsat.models.output import ModelOutput
from gsat.ranks import agreement_within, upper_group_within
from gsat.tasks import Task

if TYPE_CHECKING:
    from gsat.models.interpretable import InterpretableModel

# Predicted numbers this near are the same, in standard deviations of the training labels.
SAME_NUMBER: Final = 0.5
# Scores of a graph that span less than this do not single out an explanation.
NARROWEST: Final = 0.05


class Reliability(NamedTuple):
    """How far the explanation of one graph can be relied on; None where a value is undefined.

    Attributes:
        stability: Mean rank correlation between the scores by the members of an ensemble, or by the
            snapshots of a model.
        necessary: Whether the prediction changes when the explanation is taken away.
        sufficient: Whether the prediction stays when everything else is taken away.
    """

    stability: float | None = None
    necessary: bool | None = None
    sufficient: bool | None = None


def assess(model: InterpretableModel, batch: GraphBatch, output: ModelOutput) -> list[Reliability]:
    """Measure how far the explanations of a batch can be relied on.

    The explanation of a graph is the upper of the two groups that the scores of its edges fall into
    (of its nodes, where the model attends to nodes). To take edges away is to give them the
    attention 0: two further forward passes answer with the explanation at 0, and with the rest
    at 0.
    """
    units, graph = _units(model, batch)
    nothing: list[None] = [None] * batch.num_graphs
    stability: list[float | None] = [*nothing]
    if output.member_scores is not None:
        scores = output.member_scores[:, units].numpy(force=True)
        agreement = agreement_within(scores, graph, batch.num_graphs).tolist()
        stability = [None if math.isnan(value) else value for value in agreement]
    necessary: list[bool | None] = [*nothing]
    sufficient: list[bool | None] = [*nothing]
    if model.answers and model.task.level == "graph":
        chosen = hard_explanation(model, batch, output)
        own = output.attention if model.attention_decides else torch.ones_like(output.attention)
        without = model.answer(batch, own.masked_fill(chosen, 0))
        alone = model.answer(batch, own.masked_fill(~chosen, 0))
        clear = _spans(_scores(model, output)[units], graph, batch.num_graphs) >= NARROWEST
        changes = (~same_prediction(model.task, output.logits, without)).tolist()
        stays = same_prediction(model.task, output.logits, alone).tolist()
        necessary = [value if known else None for value, known in zip(changes, clear, strict=True)]
        sufficient = [value if known else None for value, known in zip(stays, clear, strict=True)]
    return [Reliability(*values) for values in zip(stability, necessary, sufficient, strict=True)]


def hard_explanation(model: InterpretableModel, batch: GraphBatch, output: ModelOutput) -> Tensor:
    """Mark what a model's explanation consists of, by the scores alone."""
    units, graph = _units(model, batch)
    scores = _scores(model, output)[units].numpy(force=True)
    upper = upper_group_within(scores, graph, batch.num_graphs)
    chosen = torch.zeros(len(output.attention), dtype=torch.bool, device=units.device)
    chosen[units] = torch.from_numpy(upper).to(units.device)
    return chosen if model.on == "node" else chosen | chosen[batch.pair]


def same_prediction(task: Task, before: Tensor, after: Tensor) -> Tensor:
    """Whether predictions are the same: the class, all labels, or all numbers."""
    if task.kind == "regression":
        return ((after - before).abs() <= SAME_NUMBER).all(dim=1)
    same = task.decide(after) == task.decide(before)
    return same.reshape(len(before), -1).all(dim=1)


def _scores(model: InterpretableModel, output: ModelOutput) -> Tensor:
    """The scores that the explanation consists of, ``[E]`` or ``[N]``."""
    return output.probability if model.on == "node" else output.edge_weight


def _spans(scores: Tensor, graph: NDArray[np.intp], count: int) -> NDArray[np.float64]:
    """The highest minus the lowest score of each graph; minus infinity without any."""
    values = scores.numpy(force=True).astype(np.float64)
    high, low = np.full(count, -np.inf), np.full(count, np.inf)
    np.maximum.at(high, graph, values)
    np.minimum.at(low, graph, values)
    return high - low


def _units(model: InterpretableModel, batch: GraphBatch) -> tuple[Tensor, NDArray[np.intp]]:
    """What has a score of its own: nodes, or one direction of each edge; and the graph of each."""
    if model.on == "node":
        units = torch.arange(batch.num_nodes, device=batch.node_graph.device)
        graph = batch.node_graph
    else:
        edges = torch.arange(batch.num_edges, device=batch.pair.device)
        units = (edges <= batch.pair).nonzero()[:, 0]
        graph = batch.edge_graph[units]
    return units, graph.numpy(force=True).astype(np.intp)
