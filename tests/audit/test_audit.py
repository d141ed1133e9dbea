"""The audit on models whose explanations are known to be right, or to say nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import gsat
from gsat.attention import AttentionLevel, edge_weights
from gsat.audit import perturbations
from gsat.audit.audit import Audit, audit_model, chosen_graphs
from gsat.audit.measures import Comparison, bypass, skill
from gsat.audit.perturbations import ScoredBatch, attend, cut
from gsat.audit.settings import AuditSettings
from gsat.audit.stability import hamming_distance, score_graphs, stability
from gsat.audit.verdict import judge
from gsat.core.errors import DataError, GSATError
from gsat.graphs import GraphBatch, GraphStore, from_pyg
from gsat.methods import METHODS
from gsat.methods.erm import PlainModel
from gsat.models import Backbone, BackboneSettings, InterpretableModel, ModelOutput
from gsat.ops import Draws
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
        if self.how == "random":
            ids = torch.minimum(batch.edge_id, batch.edge_id[batch.pair])
            return Draws(0, "scores").uniform(ids)
        return torch.full_like(true, 0.7)


def marked_graph(rng: np.random.Generator, triangles: int) -> Data:
    """A ring of 12 plain nodes, joined to a path or a triangle of marked ones."""
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


def test_the_true_explanation_passes(marked: GraphStore) -> None:
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
    assert audit.verdict.outcome == "passed"
    assert not audit.verdict.against


@pytest.mark.parametrize("scores", ["others", "equal", "random"])
def test_scores_without_meaning_fail(marked: GraphStore, scores: str) -> None:
    audit = audit_model(Scored(scores), marked, settings=FAST)
    assert audit.verdict.outcome == "failed"
    assert audit.verdict.remedy is None  # the scores of such a model are not trained
    if scores == "others":
        assert audit.measures["outside_agreement"] == 1.0
    if scores == "equal":
        assert audit.measures["spread"] == 0.0
        assert audit.verdict.against


# -- models whose predictions use attention, or do not ---------------------------------------------


class Handmade(InterpretableModel):
    """Detects triangles of marked nodes, with a known use of its attention.

    The four features of a node: it is marked; the label of the graph is 1 (at one plain node); it
    is the left, or the right, of two other plain nodes.

    - ``"perfect"`` attends to marked nodes and counts attended edges between them.
    - ``"bypass"`` has the same attention, and reads the label from the features.
    - ``"leak"`` attends to the left or the right node, by the label, and reads which.
    - ``"constant"`` has the same attention everywhere, and counts edges between marked nodes.
    """

    answers = True
    rescores = True
    remedies = ("readout=attended", "snapshots=10")

    def __init__(self, kind: str, on: AttentionLevel = "edge") -> None:
        super().__init__()
        self.kind, self.on, self.r, self.task = kind, on, 0.5, Task("binary")
        self.backbone = EdgeCounter(4, self.task)

    def forward(self, batch: GraphBatch) -> ModelOutput:
        whole = torch.ones(batch.num_nodes if self.on == "node" else batch.num_edges)
        alpha = self.rescore(batch, whole)
        return ModelOutput(
            self.answer(batch, alpha), edge_weights(alpha, batch, self.on), alpha, alpha
        )

    def rescore(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        weight = edge_weights(attention, batch, self.on)
        marked, _, left, right = batch.x.T
        triangle = self._count(batch, weight) > 2.5
        chosen = torch.where(triangle[batch.node_graph], right, left)
        high = {"leak": chosen, "constant": torch.full_like(marked, 0.5)}.get(self.kind, marked)
        nodes = 0.1 + 0.8 * high
        if self.on == "node":
            return nodes
        ends = torch.stack([nodes[batch.src], nodes[batch.dst]])
        return ends.amax(dim=0) if self.kind == "leak" else ends.amin(dim=0)

    def answer(self, batch: GraphBatch, attention: Tensor) -> Tensor:
        weight = edge_weights(attention, batch, self.on)
        _, label, left, right = batch.x.T
        if self.kind == "bypass":
            logit = batch.x.new_full((batch.num_graphs,), -4.0)
            logit = logit.index_add(0, batch.node_graph, 8 * label)
        elif self.kind == "leak":
            side = right - left
            side = (side[batch.src] + side[batch.dst]) * weight
            logit = batch.x.new_zeros(batch.num_graphs).index_add(0, batch.edge_graph, side)
        else:
            high = 0.5 if self.kind == "constant" else 0.9
            high = high if self.on == "edge" else high**2
            logit = 8 * (self._count(batch, weight) / high - 2.5)
        return logit[:, None]

    def _count(self, batch: GraphBatch, weight: Tensor) -> Tensor:
        """The total weight of the edges between marked nodes, ``[B]``."""
        both = batch.x[batch.src, 0] * batch.x[batch.dst, 0] * weight / 2
        return weight.new_zeros(batch.num_graphs).index_add(0, batch.edge_graph, both)


@pytest.fixture(scope="module")
def labelled() -> GraphStore:
    """Marked graphs whose features have the label, and two nodes opposite on the ring."""
    rng = np.random.default_rng(0)
    listed = [marked_graph(rng, i % 2) for i in range(40)]
    for number, graph in enumerate(listed):
        more = torch.zeros(15, 3)
        more[3, 0], more[0, 1], more[6, 2] = number % 2, 1, 1
        graph.x = torch.cat([graph.x, more], dim=1)
    return from_pyg(listed)


@pytest.mark.parametrize("on", ["edge", "node"])
def test_a_perfect_model_passes(labelled: GraphStore, on: AttentionLevel) -> None:
    audit = audit_model(Handmade("perfect", on), labelled, settings=FAST)
    assert audit.unit == on
    assert audit.measures["own_agreement"] == audit.measures["metric"] == 1.0
    assert audit.measures["zero_agreement"] == audit.measures["chance"] == 0.5
    assert audit.measures["bypass"] == 0.0
    assert audit.measures["est_rejected"] == 0.0
    assert audit.measures["rest_levelled"] == audit.measures["rest_redrawn"] == 1.0
    size = 3 / 15 if on == "node" else np.mean([2 / 15, 3 / 16])
    assert audit.measures["size"] == pytest.approx(size, abs=0.01)
    assert (audit.verdict.outcome, audit.verdict.remedy) == ("passed", None)
    assert not audit.verdict.against


@pytest.mark.parametrize("on", ["edge", "node"])
def test_a_model_that_bypasses_its_attention_fails(
    labelled: GraphStore, on: AttentionLevel
) -> None:
    audit = audit_model(Handmade("bypass", on), labelled, settings=FAST)
    assert audit.measures["metric"] == audit.measures["zero_metric"] == 1.0
    assert audit.measures["bypass"] == audit.measures["prior_agreement"] == 1.0
    assert (audit.verdict.outcome, audit.verdict.remedy) == ("failed", "readout=attended")
    assert "100%" in audit.verdict.line
    used = replace(audit, remedies=("snapshots=10",))  # its read-out is attended already
    assert (used.verdict.outcome, used.verdict.remedy) == ("failed", None)


@pytest.mark.parametrize("on", ["edge", "node"])
def test_a_label_that_leaks_into_attention_is_evidence_against(
    labelled: GraphStore, on: AttentionLevel
) -> None:
    audit = audit_model(Handmade("leak", on), labelled, settings=FAST)
    assert audit.measures["metric"] == 1.0
    # Without the triangle, the attention is elsewhere, and so is the prediction.
    assert audit.measures["est_rejected"] > 0.2  # type: ignore[operator]
    assert audit.measures["again_correlation"] < 0.7  # type: ignore[operator]
    assert audit.verdict.against


@pytest.mark.parametrize("on", ["edge", "node"])
def test_constant_attention_fails(labelled: GraphStore, on: AttentionLevel) -> None:
    audit = audit_model(Handmade("constant", on), labelled, settings=FAST)
    assert audit.measures["metric"] == audit.measures["prior_agreement"] == 1.0
    assert audit.measures["spread"] == pytest.approx(0.0, abs=1e-6)
    assert (audit.verdict.outcome, audit.verdict.remedy) == ("failed", "readout=attended")


def test_a_quick_audit_agrees_with_a_long_one(labelled: GraphStore) -> None:
    for kind in ("perfect", "bypass", "constant"):
        quick, long = (
            audit_model(Handmade(kind), labelled, settings=settings)
            for settings in (AuditSettings.quick(), AuditSettings.model_validate({}))
        )
        assert quick.verdict.outcome == long.verdict.outcome
        assert quick.curves == {"shares": []}
        exact = {"metric", "skill", "chance", "bypass", "prior_agreement", "inside_agreement"}
        assert {k: quick.measures[k] for k in exact} == {k: long.measures[k] for k in exact}


def test_a_quick_audit_takes_few_forward_passes(labelled: GraphStore) -> None:
    class Counted(Handmade):
        passes = 0

        def answer(self, batch: GraphBatch, attention: Tensor) -> Tensor:
            self.passes += 1
            return super().answer(batch, attention)

    model = Counted("perfect")
    audit_model(model, labelled, settings=AuditSettings.quick())
    assert model.passes <= 24  # an evaluation has two: the extractor's, and the prediction


# -- hard explanations -----------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["undirected edge", "directed edge", "node"])
def scored(request: pytest.FixtureRequest) -> ScoredBatch:
    if request.param == "undirected edge":
        store = gsat.load_dataset("ba2motifs", graphs=20).store
    else:
        store = gsat.load_dataset("spmotif-0.5", train_per_class=6).store
    batch = store.select(range(12)).batch()
    unit: AttentionLevel = "node" if request.param == "node" else "edge"
    size = batch.num_nodes if unit == "node" else batch.num_edges
    return ScoredBatch.of(batch, torch.rand(size, generator=torch.manual_seed(0)), unit)


def by_graph(scored: ScoredBatch, mask: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores and choice of each graph, each undirected edge once."""
    ptr = np.concatenate([[0], scored.counts.cumsum(0).numpy()])
    scores, kept = scored.scores[scored.once].numpy(), mask[scored.once].numpy()
    return [(scores[a:b], kept[a:b]) for a, b in pairwise(ptr)]


def test_units_are_nodes_or_undirected_edges(scored: ScoredBatch) -> None:
    batch = scored.batch
    if scored.unit == "node":
        assert scored.counts.tolist() == batch.node_ptr.diff().tolist()
    else:
        directions = torch.where(batch.undirected, 2, 1)
        assert scored.counts.tolist() == (batch.edge_ptr.diff() // directions).tolist()
    mean = scored.mean(scored.scores, among=scored.split())
    for number, (scores, kept) in enumerate(by_graph(scored, scored.split())):
        here = mean[scored.graph == number]
        assert here.numpy() == pytest.approx(scores[kept].mean(), rel=1e-5)


def test_both_directions_go_together(scored: ScoredBatch) -> None:
    pair = scored.twin
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
    order = torch.rand(len(scored.scores), generator=torch.manual_seed(1))
    order = order + order[scored.twin]
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
        masked = attend(model, batch, keep)
        removed = cut(erm, batch, whole, keep)
    torch.testing.assert_close(masked, removed, rtol=1e-4, atol=1e-5)


def test_an_audit_does_not_depend_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gsat.load_dataset("ba2motifs", graphs=40)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=2))
    whole = audit_model(model, data.store, settings=FAST)
    monkeypatch.setattr(perturbations, "BATCH", 7)
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
    assert chosen_graphs(from_pyg([lone, path]), unit="node").index.tolist() == [0, 1]
    with pytest.raises(DataError):
        chosen_graphs(from_pyg([lone]))


@pytest.mark.parametrize("on", ["edge", "node"])
def test_est_keeps_the_explanation(on: AttentionLevel, monkeypatch: pytest.MonkeyPatch) -> None:
    data = gsat.load_dataset("ba2motifs", graphs=20)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=2), on)
    batch = data.store.batch()
    cuts = []

    def record(
        model: InterpretableModel, batch: GraphBatch, nodes: Tensor, edges: Tensor
    ) -> Tensor:
        cuts.append((nodes, edges))
        return torch.zeros(batch.num_graphs, 1)

    monkeypatch.setattr(perturbations, "cut", record)
    audit_model(model, data.store, settings=FAST, top=0.2)
    with model.evaluating():
        scored = ScoredBatch.explained(batch, model(batch), on)
    chosen = scored.top(0.2)
    assert len(cuts) == FAST.est_budget + FAST.draws
    for nodes, edges in cuts[: FAST.est_budget]:
        ends = nodes[batch.src] & nodes[batch.dst]
        assert not (edges & ~ends).any()
        assert torch.equal(edges, edges[batch.pair])
        if on == "node":
            assert nodes[chosen].all()
            assert torch.equal(edges, ends)
            share = nodes[~chosen].double().mean()
        else:
            assert edges[chosen].all()
            share = edges[~chosen & ends].double().mean()
        assert share == pytest.approx(0.5, abs=0.1)


# -- all tasks and methods -------------------------------------------------------------------------


def finite(audit: Audit) -> bool:
    return all(value is None or np.isfinite(value) for value in audit.measures.values())


@pytest.mark.parametrize(
    ("name", "options", "on"),
    [
        ("motif-count", {"graphs": 20}, "edge"),
        ("motif-count", {"graphs": 20, "level": "node"}, "edge"),
        ("motif-count", {"graphs": 20, "level": "node"}, "node"),
        ("tree-cycles", {"motifs": 12}, "edge"),
        ("tree-cycles", {"motifs": 12}, "node"),
        ("spmotif-0.5", {"train_per_class": 6}, "edge"),
        ("rbgv", {"graphs": 20}, "edge"),
    ],
)
def test_every_kind_of_task_is_audited(
    name: str, options: dict[str, Any], on: AttentionLevel
) -> None:
    data = gsat.load_dataset(name, **options)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=2), on)
    audit = audit_model(model, data.test, settings=FAST)
    assert finite(audit)
    assert audit.level == data.task.level
    assert audit.verdict.outcome == "failed"


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
    with pytest.raises(GSATError, match="erm"):
        audit_model(PlainModel(gsat.GIN.for_data(data, hidden=8)), data.test)


@pytest.mark.parametrize(
    "options", [{"top": 0.0}, {"top": 1.0}, {"above": 1.0}, {"top": 0.2, "above": 0.5}]
)
def test_a_wrong_explanation_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(GSATError):
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
    assert compared.chance() == 0.5


def test_the_most_frequent_number_is_the_best_constant() -> None:
    own = torch.randn(60, 1, generator=torch.manual_seed(0)).exp()
    compared = Comparison(Task("regression", 1, "r2"), own)
    guesses = torch.linspace(-2, 20, 4001)
    best = max(compared.same(torch.full((1, 60, 1), float(g))).mean() for g in guesses)
    assert compared.chance() == pytest.approx(best, abs=1 / 60)


def test_bypass_is_agreement_above_chance() -> None:
    assert bypass(0.5, 0.5) == bypass(0.2, 0.5) == 0.0
    assert bypass(1.0, 0.6) == 1.0
    assert bypass(0.8, 0.6) == pytest.approx(0.5)
    assert bypass(1.0, 1.0) is None


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

GOOD: dict[str, float | None] = {
    "metric": 0.8, "skill": 0.9, "rest_redrawn": 0.9, "redrawn_gap": 0.4,
}  # fmt: skip
REMOVED = {
    "bypass": 0.0, "zero_agreement": 0.5, "inside_agreement": 0.97, "removed_gap": 0.45,
    "chance": 0.5,
}  # fmt: skip
WEAK_GAP = {"rest_levelled": 1.0, "levelled_gap": 0.1}


@pytest.mark.parametrize(
    ("measures", "outcome", "remedy"),
    [
        ({}, "passed", None),
        ({"skill": None}, "passed", None),
        ({"skill": 0.2}, "failed", None),
        ({"skill": 0.2, "bypass": 0.9, "zero_agreement": 0.95}, "failed", None),
        ({"redrawn_gap": 0.1}, "failed", "readout=attended"),
        ({"redrawn_gap": 0.1, "rest_redrawn": 0.5}, "failed", "readout=attended"),
        ({"rest_redrawn": 0.6}, "mixed", "extractor_norm=row"),
        # Attention that was trained without noise can't be judged by noise.
        (
            {"rest_redrawn": 0.5, "redrawn_gap": 0, "rest_levelled": 1.0, "levelled_gap": 0.5},
            "passed",
            None,
        ),
        ({"rest_redrawn": 0.5, "redrawn_gap": 0, **WEAK_GAP}, "failed", "readout=attended"),
        # Predictions without attention.
        ({"bypass": 0.5, "zero_agreement": 0.8}, "failed", "readout=attended"),
        ({"bypass": 0.4, "zero_agreement": 0.7}, "mixed", "readout=attended"),
        ({"bypass": 0.2, "zero_agreement": 0.6}, "passed", "readout=attended"),
        ({"bypass": 0.0, "zero_agreement": 0.5}, "passed", None),
        ({"bypass": None, "zero_agreement": 1.0}, "passed", None),
        # Removal counts where attention can't be bypassed, and against the chance of agreement.
        ({**REMOVED, "redrawn_gap": 0.1}, "passed", None),
        (
            {**REMOVED, "redrawn_gap": 0.1, "inside_agreement": 0.8},
            "mixed",
            "extractor_norm=row",
        ),
        ({**REMOVED, "redrawn_gap": 0.1, "removed_gap": 0.2}, "failed", "readout=attended"),
        ({**REMOVED, "redrawn_gap": 0.1, "removed_gap": 0.06, "chance": 0.9}, "passed", None),
        ({**REMOVED, "redrawn_gap": 0.1, "bypass": 0.15}, "failed", "readout=attended"),
        ({**REMOVED, "redrawn_gap": 0.1, "bypass": None}, "failed", "readout=attended"),
        # Other evidence.
        ({"stable_correlation": 0.4}, "mixed", "snapshots=10"),
        ({"stable_correlation": 0.9}, "passed", None),
        ({"untrained_correlation": 0.8}, "mixed", None),
        ({"shuffled_correlation": 0.8}, "mixed", None),
        ({"est_agreement": 0.9, "est_advantage": -0.1}, "mixed", None),
        ({"est_rejected": 0.3}, "passed", None),
        ({"steady": 0.5}, "passed", "snapshots=10"),
        ({"spread": 0.1, "prior_agreement": 0.5}, "passed", None),
        ({"spread": 0.1, "prior_agreement": 0.95}, "mixed", "readout=attended"),
        ({**REMOVED, "spread": 0.1, "prior_agreement": 0.95}, "passed", None),
        ({"spread": 0.01}, "failed", "readout=attended"),
    ],
)
def test_verdicts(measures: dict[str, float | None], outcome: str, remedy: str | None) -> None:
    verdict = judge({**GOOD, **measures}, "accuracy")
    assert (verdict.outcome, verdict.remedy) == (outcome, remedy)
    assert verdict.faithful is (outcome == "passed")
    assert verdict.line.startswith(f"{outcome}: ")
    assert verdict.reasons


@pytest.mark.parametrize(
    "measures",
    [
        {"est_rejected": 0.2},
        {"steady": 0.5},
        {"stable_correlation": 0.3},
        {"spread": 0.1},
        {"untrained_correlation": 0.9},
        {"shuffled_correlation": 0.9},
        {"bypass": 0.2, "zero_agreement": 0.62},
        {"again_correlation": 0.1},
        {"est_agreement": 0.8, "est_advantage": 0.0},
        {"inside_agreement": 0.9, "outside_agreement": 0.95, "chance": 0.5},
    ],
)
@pytest.mark.parametrize("base", [GOOD, {**GOOD, "redrawn_gap": 0.0}, {**GOOD, "skill": 0.0}])
def test_evidence_against_is_always_listed(
    base: dict[str, float | None], measures: dict[str, float]
) -> None:
    verdict = judge({**base, **measures}, "accuracy")
    assert not judge(GOOD, "accuracy").against
    assert set(verdict.reasons) & set(verdict.against) == set()
    number = next(iter(measures.values()))
    if "zero_agreement" in measures:
        number = measures["zero_agreement"]
    shown = " ".join([*verdict.reasons, *verdict.against])
    assert f"{number:.2f}" in shown or f"{number:.0%}" in shown


def test_a_verdict_needs_no_measures() -> None:
    verdict = judge({}, "accuracy")
    assert (verdict.outcome, verdict.against) == ("failed", ())


def test_remedies_in_use_are_not_recommended() -> None:
    measures = {**GOOD, "bypass": 0.9, "zero_agreement": 0.95}
    assert judge(measures, "accuracy", ()).remedy is None
    assert judge(measures, "accuracy", ("snapshots=10",)).remedy is None
    unneeded = {**GOOD, "redrawn_gap": 0.0}
    left = ("extractor_norm=row", "members=3")
    assert judge(unneeded, "accuracy", left).remedy == left[0]


def test_only_attention_that_decides_is_averaged(marked: GraphStore) -> None:
    measures = audit_model(Scored("true"), marked, settings=FAST).measures
    assert not {"levelled_gap", "bypass", "own_agreement"} & measures.keys()
    data = gsat.load_dataset("ba2motifs", graphs=20)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=8, layers=1))
    measures = audit_model(model, data.test, settings=FAST).measures
    assert {"levelled_gap", "bypass", "own_agreement"} <= measures.keys()
