"""Reliability of single explanations, on a model whose evidence is known and against SciPy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor
from torch_geometric.data import Data

import gsat
from gsat.attention import AttentionLevel, edge_weights
from gsat.graphs import GraphBatch
from gsat.models import GIN, InterpretableModel, ModelOutput
from gsat.tasks import Task

TASKS = [
    Task("binary"),
    Task("multiclass", 3),
    Task("multilabel", 2, metric="roc_auc"),
    Task("regression", 1, metric="r2"),
]


class Evidence(InterpretableModel):
    """Counts attended pieces of evidence, and is sure from half a piece on.

    Graphs are pairs of joined nodes. Both nodes of a pair have two features: whether the pair is
    evidence, and its attention.
    """

    answers = True

    def __init__(self, on: AttentionLevel, task: Task, r: float | None = None) -> None:
        super().__init__()
        self.on, self.task, self.r = on, task, r
        self.backbone = GIN(2, task=task, hidden=8)
        self.asked = 0

    def forward(self, batch: GraphBatch) -> ModelOutput:
        """Predict under the attention that the nodes have."""
        alpha = batch.x[:, 1] if self.on == "node" else batch.x[batch.src, 1]
        weight = edge_weights(alpha, batch, self.on)
        return ModelOutput(self._logits(batch, alpha), weight, alpha, alpha)

    def answer(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        """Predict, and count the call."""
        self.asked += 1
        return self._logits(batch, attention)

    def _logits(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        if self.on == "node":
            graph, evidence = batch.node_graph, batch.x[:, 0]
        else:
            graph, evidence = batch.edge_graph, batch.x[batch.src, 0]
        total = torch.zeros(batch.num_graphs).index_add(0, graph, attention * evidence / 2)
        if self.task.kind == "regression":
            return total[:, None]
        one = 10 * (total - 0.5)[:, None]
        none = torch.full_like(one, -20.0)
        return {
            "binary": one,
            "multiclass": torch.cat([torch.zeros_like(one), one, none], dim=1),
            "multilabel": torch.cat([one, none], dim=1),
        }[self.task.kind]


def pairs(*given: tuple[int, float]) -> Data:
    """A graph of pairs of nodes, each with evidence (0 or 1) and attention."""
    x = torch.tensor([values for values in given for _ in range(2)], dtype=torch.float)
    first = 2 * torch.arange(len(given))
    ends = torch.stack([first, first + 1])
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], dim=1))


GRAPHS = {
    "right": pairs((1, 0.9), (0, 0.1), (0, 0.1), (0, 0.1)),
    "wrong": pairs((1, 0.6), (0, 0.9), (0, 0.9)),
    "redundant": pairs((1, 0.95), (1, 0.55), (0, 0.5), (0, 0.5), (0, 0.5)),
    "absent": pairs((0, 0.9), (0, 0.1), (0, 0.2)),
    "equal": pairs((1, 0.9), (0, 0.9)),
}
# Whether the prediction changes without the explanation, and whether it stays with it alone.
EXPECTED = {
    "right": (True, True),
    "wrong": (False, False),
    "redundant": (False, True),
    "absent": (False, True),
    "equal": (None, None),
}


@pytest.mark.parametrize("on", ["edge", "node"])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_necessity_and_sufficiency_of_planted_evidence(on: AttentionLevel, task: Task) -> None:
    model = Evidence(on, task)
    explained = model.explain(list(GRAPHS.values()))
    actual = {
        name: (one.necessary, one.sufficient) for name, one in zip(GRAPHS, explained, strict=True)
    }
    # Half a standard deviation less is another number.
    changes = {"redundant": (True, False)} if task.kind == "regression" else {}
    assert actual == EXPECTED | changes
    assert model.asked == 2  # for all graphs of a batch together
    assert all(one.stability is None for one in explained)


@pytest.mark.parametrize("on", ["edge", "node"])
def test_equal_scores_have_no_explanation(on: AttentionLevel) -> None:
    explained = Evidence(on, TASKS[0], r=0.2).explain(GRAPHS["equal"])
    assert explained.found
    assert (explained.necessary, explained.sufficient) == (None, None)


def test_reliability_is_undefined_without_answers_and_for_nodes() -> None:
    model = Evidence("edge", TASKS[0])
    model.answers = False  # type: ignore[misc]
    assert model.explain(GRAPHS["right"]).necessary is None
    data = gsat.load_dataset("ba-shapes")
    node_level = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1))
    explained = node_level.explain(data.store[0])
    assert (explained.necessary, explained.of_node(7).sufficient) == (None, None)


def test_fields_of_the_input_are_not_measurements() -> None:
    graph = GRAPHS["equal"].clone()
    graph.necessary, graph.stability = True, 0.3
    explained = Evidence("edge", TASKS[0]).explain(graph)
    assert (explained.necessary, explained.stability) == (None, None)


def test_post_hoc_explanations_are_tested_on_full_attention() -> None:
    class PostHoc(Evidence):
        attention_decides = False

        def forward(self, batch: GraphBatch) -> ModelOutput:
            output = super().forward(batch)
            whole = torch.ones_like(output.attention)
            return output._replace(logits=self._logits(batch, whole))

    wrong = pairs((1, 0.1), (0, 0.9), (0, 0.9))
    explained = PostHoc("edge", TASKS[0]).explain([wrong, GRAPHS["right"]])
    actual = [(one.necessary, one.sufficient) for one in explained]
    assert actual == [(False, False), (True, True)]


@pytest.mark.parametrize("context", [None, 0.5])
@pytest.mark.parametrize("on", ["edge", "node"])
def test_stability_is_the_mean_rank_correlation_of_members_and_snapshots(
    on: AttentionLevel, context: float | None
) -> None:
    data = gsat.load_dataset("ba2motifs", graphs=40)
    members = [
        gsat.GSAT(gsat.GIN.for_data(data, hidden=8, seed=seed), on, context=context, seed=seed)
        for seed in range(3)
    ]
    graphs = [data.test[i] for i in range(4)]
    each = [member.explain(graphs) for member in members]
    single = gsat.GSAT(gsat.GIN.for_data(data, hidden=8), on, context=context)
    single.take_snapshots([member.state_dict() for member in members])
    for model in (gsat.Ensemble(members), single):
        for place, explained in enumerate(model.explain(graphs)):
            once = explained.edge_index[0] < explained.edge_index[1]
            scores = [
                own[place].node_mask[:, 0] if on == "node" else own[place].edge_mask[once]
                for own in each
            ]
            expected = np.mean([spearmanr(a, b).statistic for a, b in combinations(scores, 2)])
            assert explained.stability == pytest.approx(expected, abs=1e-6)
