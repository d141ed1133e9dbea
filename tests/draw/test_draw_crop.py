"""Large graphs are cropped to the explanation and its neighbours."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from gsat.draw import draw_explanation, explanation_svg
from gsat.draw.options import DrawingOptions
from gsat.draw.pictures import cropped

GRAPH = nx.random_labeled_tree(200, seed=0)


@pytest.fixture
def large(explain):
    """A tree of 200 nodes with random scores."""

    def make(**more):
        scores = np.random.default_rng(0).random(199).tolist()
        return explain(list(GRAPH.edges), scores, **more)

    return make


@pytest.mark.parametrize("hops", [1, 2])
def test_what_is_left_are_the_best_edges_and_their_neighbours(large, hops):
    explanation = large()
    ends = {n for edge in explanation.ranked_edges()[:5] for n in (edge.source, edge.target)}
    wanted = set()
    for node in ends:
        wanted |= set(nx.single_source_shortest_path_length(GRAPH, node, cutoff=hops))
    rest = explanation.near(explanation.in_top(5), hops)
    assert set(rest.node_id.tolist()) == wanted
    inside = GRAPH.subgraph(wanted)
    assert rest.num_units == inside.number_of_edges()


def test_a_hub_brings_in_its_best_neighbours_only(explain):
    scores = [0.99, *np.linspace(0.1, 0.9, 59)]
    star = explain([(0, i) for i in range(1, 61)], scores)
    rest = star.near(star.in_top(1), 1, most=6)
    assert rest.node_id.tolist() == [0, 1, *range(55, 61)]


def test_the_picture_says_what_is_left_and_keeps_the_scale(large):
    whole, part = (draw_explanation(large(), top=5, crop=crop) for crop in (False, True))
    titles = part.axes[0].get_title().splitlines()
    shown = sum(len(c.get_offsets()) for c in part.axes[0].collections if c.get_gid() == "nodes")
    assert titles[-1] == f"{shown} of 200 nodes, 1 hop around the explanation"
    assert shown < 60
    first = whole.axes[1].texts[0].get_text()
    assert part.axes[1].texts[0].get_text() == first
    assert first.startswith("top 5 edges")


def test_without_a_budget_it_is_the_upper_half_of_the_scale(explain):
    path = [(i, i + 1) for i in range(50)]
    scores = [0.1] * 50
    scores[10], scores[12], scores[40] = 0.9, 0.6, 0.4
    rest, options, note = cropped(explain(path, scores), DrawingOptions(crop=True))
    assert rest.node_id.tolist() == [9, 10, 11, 12, 13, 14]
    assert options.scale == pytest.approx((0.1, 0.9))
    assert options.top is None
    assert note.startswith("6 of 51 nodes")


def test_numbers_and_uncertainty_follow(large):
    explanation = large()
    spread = torch.linspace(0, 0.4, explanation.num_edges)
    svg = explanation_svg(explanation, crop=1, top=3, spread=spread)
    for edge in explanation.ranked_edges()[:3]:
        number = int((explanation.units()[0] == edge.unit).nonzero()[0, 0])
        known = float(spread[explanation.units()[0] == edge.unit].max())
        assert f'data-edge="{number}"' in svg
        assert f'data-spread="{known:.4f}"' in svg


def test_nothing_is_said_where_nothing_is_left_out(house, explain):
    assert "nodes," not in draw_explanation(house(), crop=2).axes[0].get_title()
    flat = explain([(0, 1), (1, 2)], [0.5, 0.5])
    assert draw_explanation(flat, crop=1).axes[0].get_title().count("nodes") == 0
