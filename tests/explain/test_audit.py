"""The audit on models whose explanations are known to be right, or to say nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import gsat
from gsat.errors import DataError, GSATError
from gsat.explain import audit_passes
from gsat.explain.audit import Audit, audit_model, chosen_graphs
from gsat.explain.audit_compare import Comparison, skill
from gsat.explain.audit_masks import ScoredBatch
from gsat.explain.audit_passes import Predictor
from gsat.explain.audit_settings import AuditSettings
from gsat.explain.audit_stability import hamming_distance, score_graphs, stability
from gsat.explain.audit_verdict import judge
from gsat.graphs import GraphBatch, GraphStore, from_pyg
from gsat.methods import METHODS
from gsat.methods.erm import PlainModel
from gsat.models import Backbone, BackboneSettings
from gsat.tasks import Task

FAST = AuditSettings(est_budget=6, draws=2, orders=1, shares=(0.2, 0.5))


class EdgeCounter(Backbone):
    """Answers 1 if a graph has at least three edges between marked nodes, weighted."""

    Settings = BackboneSettings
    name = "edge-counter"

    def build(self, in_features: int, edge_features: int, categories: Any, settings: Any) -> None:
        self.hidden = 1
        self.unused = nn.Linear(1, 1)

    def embed(
        self, batch: GraphBatch, attention: Tensor | None = None, draws: Any = None
    ) -> Tensor:
        marked = batch.x[:, 0]
        ends = marked[batch.src] * marked[batch.dst]
        weight = ends if attention is None else ends * attention
        return weight.new_zeros(batch.num_nodes).index_add(0, batch.dst, weight)[:, None] / 2

    def read_out(self, embeddings: Tensor, batch: GraphBatch) -> Tensor:
        return 8 * (self.pooled(embeddings, batch) - 2.5)


class Scored(PlainModel):
    """The counter, with the scores that a test wants."""

    explains = True
    method = "random"

    def __init__(self, scores: str) -> None:
        super().__init__(EdgeCounter(1, Task("binary")))
        self.how = scores

    def edge_scores(self, batch: GraphBatch) -> Tensor:
        true = (batch.x[batch.src, 0] * batch.x[batch.dst, 0]).to(torch.float32)
        # A little apart, so that ranks are defined.
        ties = 0.05 * ((batch.src * batch.dst) % 7) / 7
        if self.how == "true":
            return 0.2 + 0.7 * true + ties
        if self.how == "others":
            return 0.9 - 0.7 * true + ties
        return torch.full_like(true, 0.7)


def marked_graph(rng: np.random.Generator, triangles: int) -> Data:
    """A ring of 12 plain nodes, and a path or a triangle of marked ones joined to it."""
    edges = [(i, (i + 1) % 12) for i in range(12)]
    edges += [(12, 13), (13, 14), (int(rng.integers(12)), 12)] + [(12, 14)] * triangles
    one_way = torch.tensor(edges).T
    x = torch.zeros(15, 1)
    x[12:] = 1
    return Data(
        x=x,
        edge_index=torch.cat([one_way, one_way.flip(0)], dim=1),
        y=torch.tensor([[triangles]]).float(),
    )


@pytest.fixture(scope="module")
def marked() -> GraphStore:
    rng = np.random.default_rng(0)
    return from_pyg([marked_graph(rng, i % 2) for i in range(40)])


# -- the verdict on known explanations -------------------------------------------------------------


def test_the_true_explanation_is_believed(marked: GraphStore) -> None:
    audit = audit_model(Scored("true"), marked, settings=FAST)
    measures = audit.measures
    assert (measures["metric"], measures["skill"]) == (1.0, 1.0)
    # The marked edges alone give the answer; without them, every graph is a path less.
    assert measures["inside_agreement"] == measures["rest_redrawn"] == 1.0
    assert measures["outside_agreement"] == 0.5
    assert measures["fid_minus"] == pytest.approx(0.0, abs=1e-6)
    assert measures["fid_plus"] == pytest.approx(0.5, abs=0.02)  # of the triangles, 1 in place of 0
    # Whatever is added, or left out of the ring, changes nothing.
    assert measures["est_rejected"] == 0.0
    assert measures["est_shift"] == pytest.approx(0.0, abs=1e-6)
    assert measures["est_agreement"] == 1.0
    assert measures["est_advantage"] > 0.05  # type: ignore[operator]
    assert measures["size"] == pytest.approx(np.mean([2 / 15, 3 / 16]), abs=0.01)
    assert audit.verdict.believe
    assert audit.verdict.line.startswith("sufficient (100% of the answers stay")
    assert audit.verdict.line.endswith("believe it")


def test_highlighting_everything_else_is_not_believed(marked: GraphStore) -> None:
    audit = audit_model(Scored("others"), marked, settings=FAST)
    assert not audit.verdict.believe
    assert audit.measures["outside_agreement"] == 1.0
    assert "the complement predicts as well" in audit.verdict.line


def test_equal_scores_are_not_believed(marked: GraphStore) -> None:
    audit = audit_model(Scored("equal"), marked, settings=FAST)
    assert not audit.verdict.believe
    assert audit.measures["spread"] == 0.0
    assert any("narrow spread" in note for note in audit.verdict.notes)


def test_a_model_that_guesses_is_not_believed() -> None:
    data = gsat.load_dataset("ba2motifs", graphs=100)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=2))
    audit = audit_model(model, data.test, settings=FAST)
    assert not audit.verdict.believe
    assert "better than guessing" in audit.verdict.line


# -- hard explanations -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scored() -> ScoredBatch:
    store = gsat.load_dataset("spmotif-0.5", train_per_class=6).store
    batch = store.select(range(12)).batch()
    return ScoredBatch.of(batch, torch.rand(batch.num_edges, generator=torch.manual_seed(0)))


def by_graph(scored: ScoredBatch, mask: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores and choice of each graph, each undirected edge once."""
    ptr = np.concatenate([[0], scored.counts.cumsum(0).numpy()])
    scores, kept = scored.scores[scored.once].numpy(), mask[scored.once].numpy()
    return [(scores[a:b], kept[a:b]) for a, b in pairwise(ptr)]


def test_both_directions_go_together(scored: ScoredBatch) -> None:
    pair = scored.batch.pair
    assert torch.equal(scored.scores, scored.scores[pair])
    for mask in (scored.top(0.3), scored.split(), scored.above(0.5)):
        assert torch.equal(mask, mask[pair])


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_top_keeps_the_highest_scores_of_each_graph(scored: ScoredBatch, share: float) -> None:
    for scores, kept in by_graph(scored, scored.top(share)):
        assert kept.sum() == int(np.ceil(share * len(scores) - 1e-6))
        assert scores[kept].min() >= scores[~kept].max(initial=0)


def test_the_split_is_that_of_otsu(scored: ScoredBatch) -> None:
    for scores, kept in by_graph(scored, scored.split()):
        ordered = np.sort(scores)[::-1]
        gains = [
            n * (len(ordered) - n) * (ordered[:n].mean() - ordered[n:].mean()) ** 2
            for n in range(1, len(ordered))
        ]
        assert kept.sum() == np.argmax(gains) + 1
        assert scores[kept].min() > scores[~kept].max()


def test_as_many_random_edges_as_another_choice(scored: ScoredBatch) -> None:
    chosen = scored.split()
    order = torch.rand(scored.batch.num_edges, generator=torch.manual_seed(1))
    order = order + order[scored.batch.pair]
    other = scored.as_many(chosen, order)
    sizes = [kept.sum() for _, kept in by_graph(scored, chosen)]
    assert sizes == [kept.sum() for _, kept in by_graph(scored, other)]
    assert not torch.equal(chosen, other)


# -- questions -------------------------------------------------------------------------------------


def test_attention_0_is_an_edge_that_is_not_there() -> None:
    # GIN multiplies messages: masking an edge and removing it are one.
    data = gsat.load_dataset("ba2motifs", graphs=20)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=2)).eval()
    batch = data.store.batch()
    scored = ScoredBatch.of(batch, torch.rand(batch.num_edges, generator=torch.manual_seed(0)))
    keep = scored.top(0.4)
    whole = torch.ones(batch.num_nodes, dtype=torch.bool)
    erm = PlainModel(model.backbone)
    with model.evaluating():
        masked = Predictor(model).attended(batch, keep)
        removed = Predictor(erm).cut(batch, whole, keep)
    torch.testing.assert_close(masked, removed, rtol=1e-4, atol=1e-5)


def test_an_audit_does_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gsat.load_dataset("ba2motifs", graphs=40)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=2))
    whole = audit_model(model, data.store, settings=FAST)
    monkeypatch.setattr(audit_passes, "BATCH", 7)
    parts = audit_model(model, data.store, settings=FAST)
    # Sums in another order: scores that are all but equal may change places.
    assert whole.measures == pytest.approx(parts.measures, abs=1e-3)


def test_the_graphs_of_an_audit_are_drawn_by_its_seed() -> None:
    store = gsat.load_dataset("ba2motifs", graphs=100).store
    first = chosen_graphs(store, AuditSettings(graphs=10))
    assert np.array_equal(first.index, chosen_graphs(store, AuditSettings(graphs=10)).index)
    assert not np.array_equal(
        first.index, chosen_graphs(store, AuditSettings(graphs=10, seed=1)).index
    )
    assert len(first) == 10
    assert (np.diff(first.index) > 0).all()
    assert len(chosen_graphs(store)) == 100


def test_graphs_without_two_edges_are_left_out() -> None:
    lone = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    path = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    assert chosen_graphs(from_pyg([lone, path])).index.tolist() == [1]
    with pytest.raises(DataError, match="no graph has two edges"):
        chosen_graphs(from_pyg([lone]))


# -- all tasks and methods -------------------------------------------------------------------------


def finite(audit: Audit) -> bool:
    return all(value is None or np.isfinite(value) for value in audit.measures.values())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("motif-count", {"graphs": 20}),
        ("motif-count", {"graphs": 20, "level": "node"}),
        ("tree-cycles", {"motifs": 12}),
        ("spmotif-0.5", {"train_per_class": 6}),
        ("rbgv", {"graphs": 20}),
    ],
)
def test_every_kind_of_task_is_audited(name: str, options: dict[str, Any]) -> None:
    data = gsat.load_dataset(name, **options)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=2))
    audit = audit_model(model, data.test, settings=FAST)
    assert finite(audit)
    assert audit.level == data.task.level
    assert not audit.verdict.believe


def test_several_labels_are_audited() -> None:
    store = gsat.load_dataset("ba2motifs", graphs=30).store
    y = np.tile(np.array([[0.0, 1.0], [1.0, np.nan]], dtype=np.float32), (15, 1))
    store = GraphStore({**store.arrays, "y": y}, store.meta)
    model = gsat.GSAT(gsat.GIN(10, Task("multilabel", 2, "roc_auc"), hidden=8, layers=1))
    audit = audit_model(model, store, settings=FAST)
    assert finite(audit)
    assert 0 <= audit.measures["inside_agreement"] <= 1  # type: ignore[operator]


@pytest.mark.parametrize("method", ["dir", "ib-subgraph", "gnnexplainer", "pgexplainer", "degree"])
def test_every_method_with_scores_is_audited(method: str) -> None:
    data = gsat.load_dataset("ba2motifs", graphs=20)
    kind = METHODS[method]
    settings = kind.Settings.model_validate({"iterations": 2} if method == "gnnexplainer" else {})
    model = kind.make_model(gsat.GIN.for_data(data, hidden=8, layers=2), settings, seed=0)
    audit = audit_model(model, data.test, settings=FAST)
    assert finite(audit)
    assert audit.measures["est_agreement"] is not None


def test_a_method_without_scores_is_refused() -> None:
    data = gsat.load_dataset("ba2motifs", graphs=20)
    with pytest.raises(GSATError, match="gives no explanations to audit"):
        audit_model(PlainModel(gsat.GIN.for_data(data, hidden=8)), data.test)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"top": 0.0}, "share of the edges between 0 and 1"),
        ({"top": 1.0}, "share of the edges between 0 and 1"),
        ({"above": 1.0}, "score from 0 to below 1"),
        ({"top": 0.2, "above": 0.5}, "give one of them"),
    ],
)
def test_a_wrong_explanation_is_refused(options: dict[str, float], match: str) -> None:
    with pytest.raises(GSATError, match=match):
        audit_model(
            Scored("true"),
            GraphStore.from_arrays(node_ptr=[0], edge_ptr=[0], edge_index=np.zeros((2, 0), int)),
            **options,
        )  # type: ignore[arg-type]


# -- comparisons -----------------------------------------------------------------------------------


def test_answers_of_two_classes_are_compared() -> None:
    own = torch.tensor([[2.0], [-1.0]])
    other = torch.tensor([[[1.0], [0.3]]])
    compared = Comparison(Task("binary"), own)
    p = [torch.sigmoid(t).item() for t in (own[0], own[1], other[0, 0], other[0, 1])]
    assert compared.same(other).tolist() == [[1.0, 0.0]]
    np.testing.assert_allclose(compared.shift(other), [[p[0] - p[2], p[3] - p[1]]], rtol=1e-6)
    np.testing.assert_allclose(compared.drop(other), [[p[0] - p[2], p[3] - p[1]]], rtol=1e-6)
    assert compared.rejected(other).tolist() == [False, True]
    # A sure answer that becomes unsure is rejected, too.
    assert compared.rejected(torch.tensor([[[0.1], [-2.0]]])).tolist() == [True, False]
    assert compared.chance() == 0.5


def test_answers_of_three_classes_are_compared() -> None:
    own, other = torch.randn(5, 3, generator=torch.manual_seed(0)), torch.randn(2, 5, 3)
    compared = Comparison(Task("multiclass", 3), own)
    p, q = own.softmax(-1).double(), other.softmax(-1).double()
    np.testing.assert_allclose(compared.shift(other), (p - q).abs().sum(-1) / 2, atol=1e-6)
    decided = own.argmax(-1)
    fall = [[p[i, c] - q[k, i, c] for i, c in enumerate(decided)] for k in range(2)]
    np.testing.assert_allclose(compared.drop(other), fall, atol=1e-6)
    assert (compared.same(other) == (other.argmax(-1) == decided).numpy()).all()


def test_numbers_are_compared_in_standard_deviations() -> None:
    own = torch.tensor([[0.0], [2.0]])  # their deviation is 1
    compared = Comparison(Task("regression", 1, "r2"), own)
    other = torch.tensor([[[0.4], [4.0]]])
    assert compared.same(other).tolist() == [[1.0, 0.0]]
    np.testing.assert_allclose(compared.shift(other), [[0.4, 1.0]], rtol=1e-6)
    assert compared.rejected(other).tolist() == [False, True]
    assert compared.chance() is None


def test_skill_is_zero_for_guessing() -> None:
    labels = torch.tensor([[0.0], [0.0], [0.0], [1.0]])
    task = Task("binary")
    assert skill(task, torch.full((4, 1), -1.0), labels) == (0.75, 0.0)
    assert skill(task, labels - 0.5, labels) == (1.0, 1.0)
    assert skill(task, torch.ones(4, 1), torch.ones(4, 1)) == (1.0, None)
    assert skill(task, torch.ones(4, 1), None) == (None, None)


# -- stability -------------------------------------------------------------------------------------


def test_a_model_agrees_with_itself(marked: GraphStore) -> None:
    own = score_graphs(Scored("true"), marked)
    found = stability([own, own])
    assert found["stable_correlation"] == pytest.approx(1.0)
    assert found["stable_distance"] == 0.0
    other = score_graphs(Scored("others"), marked)
    assert hamming_distance(own, other) == pytest.approx(1.0)
    assert stability([own]) == {"stable_correlation": None, "stable_distance": None}


# -- the verdict -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measures", "believe"),
    [
        ({"skill": 0.9, "rest_redrawn": 0.9, "redrawn_gap": 0.4}, True),
        ({"skill": 0.2, "rest_redrawn": 0.9, "redrawn_gap": 0.4}, False),
        ({"skill": None, "rest_redrawn": 0.9, "redrawn_gap": 0.4}, True),
        ({"skill": 0.9, "rest_redrawn": 0.9, "redrawn_gap": 0.1}, False),
        ({"skill": 0.9, "rest_redrawn": 0.6, "redrawn_gap": 0.4}, False),
        # Attention that was trained without noise can't be judged by noise.
        (
            {"skill": 0.9, "rest_redrawn": 0.5, "redrawn_gap": 0.0, "rest_levelled": 1.0,
             "levelled_gap": 0.5},
            True,
        ),
        (
            {"skill": 0.9, "rest_redrawn": 0.5, "redrawn_gap": 0.0, "rest_levelled": 1.0,
             "levelled_gap": 0.1},
            False,
        ),
    ],
)  # fmt: skip
def test_what_is_believed(measures: dict[str, float | None], believe: bool) -> None:
    verdict = judge({"metric": 0.8, **measures}, "accuracy")
    assert verdict.believe is believe
    assert verdict.line.endswith("believe it" if believe else "do not believe these explanations")
    assert verdict.reasons


def test_only_scores_that_an_answer_depends_on_are_levelled(marked: GraphStore) -> None:
    assert "levelled_gap" not in audit_model(Scored("true"), marked, settings=FAST).measures
    data = gsat.load_dataset("ba2motifs", graphs=20)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1))
    assert "levelled_gap" in audit_model(model, data.test, settings=FAST).measures
