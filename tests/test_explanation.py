"""Subgraphs of an explanation: what a budget counts, what it takes, how that is numbered."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch_geometric.explain import Explanation as PyGExplanation

import gsat
from gsat.core.errors import GSATError
from gsat.draw import draw_explanation
from gsat.explanation import Explanation, parse_budget


def explain(edges, scores, *, undirected, nodes=None, r=0.5, **more) -> Explanation:
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    out = Explanation(edge_index=index, edge_mask=torch.tensor(scores, dtype=torch.float32))
    out.num_nodes = nodes if nodes is not None else (int(index.max()) + 1 if len(edges) else 1)
    out.undirected = undirected
    out.r = r
    out.probabilities = torch.tensor([0.1, 0.9])
    out.prediction = torch.tensor(1)
    for name, value in more.items():
        out[name] = value
    return out


def square(**more) -> Explanation:
    """Edges 0–1, 1–2, 2–3, 3–0 in both directions, scrambled."""
    edges = [(1, 0), (2, 3), (0, 1), (3, 0), (2, 1), (0, 3), (1, 2), (3, 2)]
    scores = [0.9, 0.2, 0.9, 0.7, 0.4, 0.7, 0.4, 0.2]
    return explain(edges, scores, undirected=True, **more)


def pairs(explanation: Explanation) -> list[tuple[int, int]]:
    """The kept edges by their numbers in the explained graph."""
    number = explanation.node_id.tolist()
    return [(number[u], number[v]) for u, v in explanation.edge_index.T.tolist()]


# -- budgets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "count", "edges"),
    [
        (6, 10, 6),
        ("6", 10, 6),
        (" 6 ", 10, 6),
        (12, 10, 12),
        ("20%", 10, 2),
        ("20 %", 10, 2),
        ("25%", 10, 3),
        ("0.1%", 10, 1),
        ("30%", 10, 3),
        ("7%", 100, 7),
        ("100%", 7, 7),
        ("50%", 0, 0),
    ],
)
def test_budgets(budget, count, edges):
    assert parse_budget(budget, count) == edges


@pytest.mark.parametrize(
    "budget",
    [0, -1, "0", "0%", "101%", "-5%", "%", "", "six", 0.5, "1.5", "nan%", "inf%", None, True],
)
def test_bad_budgets_are_refused(budget):
    with pytest.raises(GSATError, match=r"a budget is a number of edges \(6\) or a share \(20%\)"):
        parse_budget(budget, 10)
    with pytest.raises(GSATError):
        square().top(budget)


# -- units -----------------------------------------------------------------------------------------


def test_both_directions_are_one_unit():
    explanation = square()
    unit, score = explanation.units()
    assert explanation.num_units == len(score) == 4
    for e, (u, v) in enumerate(explanation.edge_index.T.tolist()):
        for f, (a, b) in enumerate(explanation.edge_index.T.tolist()):
            assert (unit[e] == unit[f]) == ({u, v} == {a, b})
    assert torch.equal(score[unit], explanation.edge_mask)


def test_duplicates_and_loops_of_an_undirected_graph():
    edges = [(0, 1), (1, 0), (0, 1), (1, 0), (2, 2), (1, 2), (2, 1)]
    scores = [0.1, 0.3, 0.2, 0.6, 0.5, 0.4, 0.4]
    explanation = explain(edges, scores, undirected=True)
    assert explanation.num_units == 3
    np.testing.assert_allclose(sorted(explanation.units()[1].tolist()), [0.4, 0.5, 0.6], rtol=1e-6)
    assert pairs(explanation.top(1)) == [(0, 1), (1, 0), (0, 1), (1, 0)]
    assert pairs(explanation.top(2)) == [*edges[:4], (2, 2)]


# -- subgraphs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("undirected", [True, False])
def test_top_and_above_equal_brute_force(seed, undirected):
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(2, 9))
    edges = [tuple(map(int, e)) for e in rng.integers(0, nodes, size=(int(rng.integers(1, 20)), 2))]
    scores = {tuple(sorted(e)): float(rng.random()) for e in edges}
    if undirected:
        edges += [(v, u) for u, v in edges if u != v]
        values = [scores[tuple(sorted(e))] for e in edges]
    else:
        values = [float(v) for v in rng.random(len(edges))]
    order = rng.permutation(len(edges))
    edges, values = [edges[i] for i in order], [values[i] for i in order]
    x = torch.rand(nodes, 3)
    explanation = explain(edges, values, undirected=undirected, nodes=nodes, x=x)
    explanation.edge_attr = torch.rand(len(edges), 2)

    def unit(e: int):
        return tuple(sorted(edges[e])) if undirected else e

    ranked = sorted({unit(e): values[e] for e in range(len(edges))}.items(), key=lambda i: -i[1])
    budget = int(rng.integers(1, len(ranked) + 2))
    wanted = {name for name, _ in ranked[:budget]}
    expected = [e for e in range(len(edges)) if unit(e) in wanted]
    threshold = float(rng.random())
    over = [e for e in range(len(edges)) if explanation.edge_mask[e] > threshold]

    assert explanation.in_top(budget).nonzero()[:, 0].tolist() == expected
    for part, kept in ((explanation.top(budget), expected), (explanation.above(threshold), over)):
        assert part.edge_id.tolist() == kept
        assert pairs(part) == [edges[e] for e in kept]
        assert part.node_id.tolist() == sorted({n for e in kept for n in edges[e]})
        assert part.num_nodes == len(part.node_id)
        assert torch.equal(part.edge_mask, explanation.edge_mask[kept])
        assert torch.equal(part.edge_attr, explanation.edge_attr[kept])
        assert torch.equal(part.x, x[part.node_id])
        assert type(part) is Explanation


def test_a_share_is_of_the_undirected_edges():
    assert square().top("50%").num_edges == 4
    assert pairs(square().top("1%")) == [(1, 0), (0, 1)]


def test_ties_are_broken_the_same_way_for_any_edge_order():
    edges = [(0, 1), (1, 2), (2, 3)]
    both = edges + [(v, u) for u, v in edges]
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(6)
        shuffled = [both[i] for i in order]
        part = explain(shuffled, [0.9] * 6, undirected=True).top(1)
        assert set(pairs(part)) == {(0, 1), (1, 0)}


def test_restricted_again_the_numbers_are_those_of_the_explained_graph():
    once = square().top(2)
    assert set(pairs(once)) == {(0, 1), (1, 0), (0, 3), (3, 0)}
    twice = once.top(1)
    assert set(pairs(twice)) == {(0, 1), (1, 0)}
    assert twice.edge_id.tolist() == [0, 2]
    assert pairs(square().top(4).above(0.6)) == pairs(once)


@pytest.mark.parametrize("labels", [3, 6])
def test_probabilities_are_never_taken_for_node_or_edge_values(labels):
    # Three nodes, six edges: PyG tells attributes apart by their length.
    edges = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)]
    explanation = explain(edges, [0.9, 0.9, 0.1, 0.1, 0.2, 0.2], undirected=True)
    explanation.probabilities = torch.linspace(0, 1, labels)
    explanation.logits = torch.linspace(-1, 1, labels)
    explanation.prediction = torch.ones(labels, dtype=torch.long)
    explanation.y = torch.ones(1, labels)
    part = explanation.top(1)
    assert torch.equal(part.probabilities, explanation.probabilities)
    assert torch.equal(part.logits, explanation.logits)
    assert torch.equal(part.prediction, explanation.prediction)
    assert part.y.shape == (1, labels)


def test_the_answer_survives_on_a_single_edge_and_on_nothing():
    explanation = explain([(0, 0)], [0.4], undirected=True, y=torch.tensor([1]))
    for part in (explanation.top(1), explanation.above(0.9)):
        assert part.y.tolist() == [1]
        assert part.confidence == pytest.approx(0.9)
    assert explanation.above(0.9).num_edges == explanation.above(0.9).num_nodes == 0


def test_node_values_follow_when_there_are_as_many_nodes_as_edges():
    # A directed triangle: 3 nodes, 3 edges.
    explanation = explain([(0, 1), (1, 2), (2, 0)], [0.1, 0.9, 0.2], undirected=False)
    explanation.node_mask = torch.tensor([[0.1], [0.2], [0.3]])
    explanation.edge_truth = torch.tensor([0, 1, 0])
    part = explanation.top(1)
    assert part.node_mask[:, 0].tolist() == pytest.approx([0.2, 0.3])
    assert part.edge_truth.tolist() == [1]


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_above_wants_a_probability(probability):
    with pytest.raises(GSATError, match="between 0 and 1"):
        square().above(probability)


# -- found, messages, pictures ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "r", "found"),
    [
        ([0.5, 0.52, 0.49], 0.5, False),
        ([0.5, 0.56, 0.5], 0.5, True),
        ([0.9, 0.9, 0.9], 0.5, True),
        ([0.9, 0.9, 0.9], None, False),
        ([0.9, 0.2, 0.9], None, True),
    ],
)
def test_found(scores, r, found):
    explanation = explain([(0, 1), (1, 2), (2, 3)], scores, undirected=False, r=r)
    assert explanation.found is found
    expected = "3 edges ranked" if found else "no explanation found: all probabilities sit at"
    assert explanation.message.startswith(expected)


def test_a_doubt_takes_the_place_of_the_ranking():
    explanation = explain([(0, 1), (1, 2)], [0.9, 0.2], undirected=False)
    assert explanation.message == "2 edges ranked"
    explanation.support = "audit: passed: sufficient"
    assert explanation.message == "2 edges ranked; audit: passed: sufficient"
    explanation.doubt = "the model is weak"
    assert explanation.message == "no finding: the model is weak"
    assert explanation.top(1).message == "no finding: the model is weak"


def test_a_narrow_spread_is_said():
    explanation = explain([(0, 1), (1, 2)], [0.61, 0.68], undirected=False, r=0.5)
    assert explanation.message == (
        "2 edges ranked, but their scores span only 0.07: hardly any stands out"
    )


def test_a_model_without_training_has_no_findings(tmp_path):
    data = gsat.load_dataset("ba2motifs", graphs=20)
    model = gsat.GSAT(gsat.GIN.for_data(data, hidden=64, layers=2))
    assert model.untrained
    assert model.explain(data.test[0]).message == "no finding: the model has not been trained"
    model.save(tmp_path / "model")
    assert not gsat.load(tmp_path / "model").untrained
    # A training loop of one's own leaves gradients behind.
    model(data.store.batch()).logits.sum().backward()
    assert not model.untrained
    assert "edges ranked" in model.explain(data.test[0]).message


def test_found_looks_at_node_attention_where_there_is_some():
    # On nodes at r = 0.7 the edges sit at 0.49, far from r, and still say nothing.
    explanation = explain([(0, 1), (1, 2)], [0.49, 0.49], undirected=False, r=0.7)
    assert explanation.found
    explanation.node_mask = torch.full((3, 1), 0.7)
    assert not explanation.found


def test_a_graph_without_edges():
    explanation = explain([], [], undirected=True)
    assert not explanation.found
    assert explanation.message == "no explanation found: the graph has no edges"
    assert explanation.num_units == 0
    assert len(explanation.normalised()) == 0
    assert explanation.top(5).num_edges == explanation.top("20%").num_edges == 0
    assert json.loads(json.dumps(explanation.as_dict()))["edges"] == []


def test_normalised_stretches_to_the_graphs_own_range():
    values = square().normalised()
    assert (values.min(), values.max()) == (0, 1)
    assert torch.equal(values.argsort(stable=True), square().edge_mask.argsort(stable=True))
    flat = explain([(0, 1), (1, 2)], [0.3, 0.3], undirected=False)
    assert flat.normalised().tolist() == [0, 0]


# -- for others ------------------------------------------------------------------------------------


def test_it_is_a_pyg_explanation():
    explanation = square(x=torch.ones(4, 2))
    assert isinstance(explanation, PyGExplanation)
    assert explanation.validate()
    assert explanation.get_explanation_subgraph().num_edges == 8


def test_as_dict_is_json():
    explanation = square(
        y=torch.tensor([[1.0, float("nan")]]),
        edge_truth=torch.tensor([1, 0, 1, 0, 0, 0, 0, 0]),
        node_mask=torch.rand(4, 1),
    )
    values = json.loads(json.dumps(explanation.as_dict(), allow_nan=False))
    assert values["prediction"] == 1
    assert values["confidence"] == pytest.approx(0.9)
    assert values["found"] is True
    assert values["y"] == [[1.0, None]]
    assert values["edges"][0] == {"source": 1, "target": 0, "score": pytest.approx(0.9), "truth": 1}
    assert [(e["source"], e["target"]) for e in values["edges"]] == [
        tuple(e) for e in explanation.edge_index.T.tolist()
    ]
    assert len(values["nodes"]) == 4
    part = json.loads(json.dumps(explanation.top(1).as_dict(), allow_nan=False))
    assert part["node_id"] == [0, 1]
    assert part["edge_id"] == [0, 2]


# -- pictures and files ----------------------------------------------------------------------------


def test_an_explanation_draws_and_saves_itself(tmp_path) -> None:
    explanation = square()
    picture = tmp_path / "a.svg"
    assert explanation.save(picture, top=2) == picture
    draw_explanation(explanation, tmp_path / "b.svg", top=2)
    assert picture.read_bytes() == (tmp_path / "b.svg").read_bytes()
    explanation.save(tmp_path / "c.svg", above=0.5)  # two edges, 0.9 and 0.7
    assert picture.read_bytes() == (tmp_path / "c.svg").read_bytes()
    assert explanation.draw(top=2).get_size_inches().min() > 1
    assert explanation._repr_svg_().startswith("<svg ")
    for suffix in ("png", "pdf", "json", "html", "csv"):
        assert explanation.save(tmp_path / f"a.{suffix}").stat().st_size > 20
    with pytest.raises(GSATError, match=r"no edge is above 0\.95; the highest is at 0\.900"):
        explanation.draw(above=0.95)
    with pytest.raises(GSATError, match="give one of them"):
        explanation.save(picture, top=1, above=0.5)


def test_an_explanation_is_shown_in_one_line() -> None:
    shown = repr(square(class_names=["cycle", "house"], y=torch.tensor([0])))
    assert shown == (
        "Explanation(4 nodes, 4 undirected edges: predicted house (0.90), true cycle; "
        "4 edges ranked)"
    )
    assert "no explanation found" in repr(explain([], [], undirected=False))


def test_edges_are_ranked_once_per_pair_with_their_truth() -> None:
    ranked = square(edge_truth=torch.tensor([1, 0, 1, 0, 0, 0, 0, 0])).ranked_edges()
    assert [(e.source, e.target, round(e.score, 3), e.true) for e in ranked] == [
        (1, 0, 0.9, True), (3, 0, 0.7, False), (2, 1, 0.4, False), (2, 3, 0.2, False)
    ]  # fmt: skip
    assert {e.true for e in square().ranked_edges()} == {None}


def test_nodes_are_named_by_their_numbers_in_the_whole_graph_and_their_words() -> None:
    assert square().node_names() == ["0", "1", "2", "3"]
    assert square().top(1).node_names() == ["0", "1"]
    assert square(words="a\0b\0c").above(0.5).node_names() == ["0 a", "1 b", "3 "]
