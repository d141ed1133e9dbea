"""The reliability of each explanation of a batch, measured on its own graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.graphs import GraphBatch
from gsat.models.output import ModelOutput
from gsat.ranks import agreement_within, upper_group_within
from gsat.tasks import Task

# Predicted numbers this near are the same, in standard deviations of the training labels.
SAME_NUMBER: Final = 0.5
# A graph whose scores span less than this has no explanation that stands out.
NARROWEST: Final = 0.05


class Reliability(NamedTuple):
    """The reliability of the explanation of one graph; None where a value is undefined.

    Attributes:
        stability: Mean rank correlation between the scores by the members of an ensemble, or by the
            snapshots of a model.
        necessary: Whether the prediction changes without the explanation.
        sufficient: Whether the explanation alone keeps the prediction.
    """

    stability: float | None = None
    necessary: bool | None = None
    sufficient: bool | None = None


def assess(
    task: Task,
    on: Literal["edge", "node"],
    batch: GraphBatch,
    output: ModelOutput,
    answer: Callable[[Tensor], Tensor] | None,
    attention_decides: bool = True,
) -> list[Reliability]:
    """Measure the reliability of a model's explanations of a batch.

    The explanation of a graph is the upper of the two groups that the scores of its edges (or
    nodes) fall into. Two further forward passes give attention 0 to the explanation, and to
    everything else. ``answer`` predicts under given attention; None if the model can't.
    """
    units, graph = _units(on, batch)
    scores = (output.probability if on == "node" else output.edge_weight)[units].numpy(force=True)
    missing: list[None] = [None] * batch.num_graphs
    stability: list[float | None] = [*missing]
    if output.member_scores is not None:
        by_member = output.member_scores[:, units].numpy(force=True)
        agreement = agreement_within(by_member, graph, batch.num_graphs).tolist()
        stability = [None if math.isnan(value) else value for value in agreement]
    if answer is None or task.level == "node":
        return [Reliability(value) for value in stability]
    explained = torch.zeros(len(output.attention), dtype=torch.bool, device=units.device)
    upper = upper_group_within(scores, graph, batch.num_graphs)
    explained[units] = torch.from_numpy(upper).to(units.device)
    if on == "edge":
        explained |= explained[batch.pair]
    attention = output.attention if attention_decides else torch.ones_like(output.attention)
    without = answer(attention.masked_fill(explained, 0))
    alone = answer(attention.masked_fill(~explained, 0))
    return [
        Reliability(value, *((changes, stays) if span >= NARROWEST else (None, None)))
        for value, changes, stays, span in zip(
            stability,
            (~_same_prediction(task, output.logits, without)).tolist(),
            _same_prediction(task, output.logits, alone).tolist(),
            _spans(scores, graph, batch.num_graphs),
            strict=True,
        )
    ]


def _same_prediction(task: Task, before: Tensor, after: Tensor) -> Tensor:
    """Whether two predictions have the same class, the same labels or close numbers, ``[B]``."""
    if task.kind == "regression":
        return ((after - before).abs() <= SAME_NUMBER).all(dim=1)
    same = task.decide(after) == task.decide(before)
    return same.reshape(len(before), -1).all(dim=1)


def _spans(scores: NDArray[np.float32], graph: NDArray[np.intp], count: int) -> NDArray[np.float64]:
    """The highest minus the lowest score of each graph; minus infinity for a graph without any."""
    high, low = np.full(count, -np.inf), np.full(count, np.inf)
    np.maximum.at(high, graph, scores)
    np.minimum.at(low, graph, scores)
    return high - low


def _units(on: Literal["edge", "node"], batch: GraphBatch) -> tuple[Tensor, NDArray[np.intp]]:
    """The nodes, or one direction of each edge; and the graph of each."""
    if on == "node":
        units = torch.arange(batch.num_nodes, device=batch.node_graph.device)
        graph = batch.node_graph
    else:
        edges = torch.arange(batch.num_edges, device=batch.pair.device)
        units = (edges <= batch.pair).nonzero()[:, 0]
        graph = batch.edge_graph[units]
    return units, graph.numpy(force=True).astype(np.intp)
