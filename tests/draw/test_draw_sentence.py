"""A sentence is drawn as it is read."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex

from gsat.draw import draw_explanation
from gsat.draw.options import DrawingOptions
from gsat.draw.sentence import sentence as lay_out
from gsat.draw.shapes import light
from pictures import labels, legend, part

CHOSEN, HEAT = light("chosen"), light("heat")

WORDS = ["a", "gorgeous", ",", "witty", ",", "seductive", "movie"]
HEADS = [(6, 0), (6, 1), (1, 2), (1, 3), (3, 4), (3, 5)]
SCORES = [0.2, 0.95, 0.3, 0.6, 0.25, 0.4]


@pytest.fixture
def spoken(explain):
    """The sentence, or one of n words that hang on each other at random."""

    def make(words=0, **more):
        if not words:
            return explain(HEADS, SCORES, words="\0".join(WORDS), **more)
        tree = nx.random_labeled_tree(words, seed=3)
        scores = np.random.default_rng(0).random(words - 1).tolist()
        return explain(
            list(tree.edges), scores, words="\0".join(map("word{}".format, range(words)))
        )

    return make


def sentence(explanation, top, width):
    return lay_out(explanation, DrawingOptions(top=top), width)


def test_wrapped_words_keep_their_order_and_lie_on_the_page(spoken):
    figure = draw_explanation(spoken(60))
    at = [text.get_position() for text in figure.axes[0].texts]
    rows = sorted({y for _, y in at}, reverse=True)
    assert len(rows) > 3
    assert at == sorted(at, key=lambda p: (-p[1], p[0]))
    renderer = figure.canvas.get_renderer()
    extents = [text.get_window_extent(renderer) for text in figure.axes[0].texts]
    for extent in extents:
        assert extent.x0 >= 0
        assert extent.x1 <= figure.bbox.x1
    for left, right in itertools.pairwise(extents):
        assert left.x1 < right.x0 or left.y0 > right.y1  # beside it, or in the next row


def test_the_text_lies_in_its_box(spoken):
    figure = draw_explanation(spoken())
    renderer = figure.canvas.get_renderer()
    for text, box in zip(figure.axes[0].texts, part(figure, "word").get_paths(), strict=True):
        word = text.get_window_extent(renderer)
        around = box.get_extents(figure.axes[0].transData)
        assert around.x0 <= word.x0
        assert word.x1 <= around.x1
        assert around.y0 - 1 <= word.y0
        assert word.y1 <= around.y1 + 1


def test_a_word_is_shaded_by_its_highest_edge(spoken):
    explanation = spoken()
    graph = nx.Graph()
    graph.add_weighted_edges_from((u, v, s) for (u, v), s in zip(HEADS, SCORES, strict=True))
    highest = [max(d["weight"] for *_, d in graph.edges(n, data=True)) for n in range(7)]
    faces = part(draw_explanation(explanation), "word").get_facecolors()
    assert {to_hex(face[:3]).upper() for face in faces} == {HEAT}
    strong = faces[:, 3]
    order = np.argsort(highest, kind="stable")
    assert (np.diff(strong[order]) >= 0).all()
    assert strong[1] == strong[6] == strong.max()
    assert strong[4] < 0.05


def test_attention_to_words_shades_them_itself(spoken):
    mask = torch.tensor([0.1, 0.2, 0.9, 0.1, 0.1, 0.5, 0.1])[:, None]
    figure = draw_explanation(spoken(node_mask=mask))
    assert part(figure, "word").get_facecolors()[:, 3].argmax() == 2
    assert legend(figure)[-2:] == ["word score 0.10", "0.90"]


def test_an_arc_joins_its_two_words(spoken):
    explanation = spoken()
    text = sentence(explanation, None, 7.0)
    assert len(text.scene.lines) == len(HEADS)
    for (u, v), arc in zip(text.scene.ends.tolist(), text.scene.lines, strict=True):
        left, right = sorted((u, v))
        assert abs(arc[0, 0] - text.scene.at[left, 0]) <= text.boxes[left, 0] / 2
        assert abs(arc[-1, 0] - text.scene.at[right, 0]) <= text.boxes[right, 0] / 2
        assert arc[:, 1].max() > arc[0, 1]
        assert arc[0, 1] == pytest.approx(arc[-1, 1])
        assert np.isfinite(arc).all()


def test_an_arc_lies_over_those_it_spans(spoken):
    text = sentence(spoken(), None, 7.0)
    rise = {
        tuple(sorted(ends)): arc[:, 1].max()
        for ends, arc in zip(text.scene.ends.tolist(), text.scene.lines, strict=True)
    }
    assert rise[0, 6] > rise[1, 6] > rise[1, 3] > rise[1, 2]


def test_an_edge_between_rows_leaves_at_the_right_and_enters_at_the_left(spoken):
    text = sentence(spoken(60), None, 7.0)
    row = text.scene.at[:, 1]
    crossing = 0
    for ends, arc in zip(text.scene.ends.tolist(), text.scene.lines, strict=True):
        first, last = min(ends), max(ends)
        cut = np.flatnonzero(np.isnan(arc[:, 0]))
        assert len(cut) == (row[first] != row[last])
        if len(cut):
            crossing += 1
            out, back = arc[: cut[0]], arc[cut[0] + 1 :]
            assert out[-1, 0] > text.scene.at[:, 0].max()
            assert back[0, 0] < text.scene.at[:, 0].min()
            assert out[0, 1] > row[first] > back[-1, 1] > row[last]
        # Inside the page.
        assert np.nanmin(arc) >= 0
        assert np.nanmax(arc[:, 0]) <= text.size[0]
        assert np.nanmax(arc[:, 1]) <= text.size[1]
    assert crossing > 5


def test_strength_is_in_the_arcs_and_the_budget_in_blue(spoken):
    alphas = part(draw_explanation(spoken()), "edges").get_colors()[:, 3]
    assert alphas[-1] == 1
    assert (np.diff(alphas) >= 0).all()
    figure = draw_explanation(spoken(), top=2)
    colours = [to_hex(c[:3]).upper() for c in part(figure, "edges").get_colors()]
    assert colours.count(CHOSEN) == 2
    rims = [to_hex(rim).upper() == CHOSEN for rim in part(figure, "word").get_edgecolors()]
    assert [i for i, chosen in enumerate(rims) if chosen] == [1, 3, 6]


def test_a_part_of_a_sentence_keeps_its_words(spoken):
    assert labels(draw_explanation(spoken().top(1))) == ["gorgeous", "movie"]


def test_no_word_stands_out_where_no_edge_does(explain):
    figure = draw_explanation(explain([(0, 1), (1, 2)], [0.5, 0.5], words="not\0at\0all"))
    assert "no explanation found" in figure.axes[0].get_title()
    assert set(part(figure, "word").get_facecolors()[:, 3]) == {0.0}
    assert len(figure.axes) == 1  # no legend


@pytest.mark.parametrize("words", ["film", "", "好", "$x$", "w" * 200])
def test_odd_words(explain, words, tmp_path):
    explanation = explain([], [], nodes=1, words=words)
    figure = draw_explanation(explanation, tmp_path / "s.svg")
    assert labels(figure) == [words]
    assert figure.get_figwidth() >= 3.8


def test_a_loop_is_a_ring_over_its_word(explain):
    text = sentence(explain([(0, 0), (0, 1)], [0.9, 0.1], words="a\0b"), None, 7.0)
    loop = text.scene.lines[0]
    assert np.ptp(loop[:, 0]) > 0.05
    assert np.isfinite(loop).all()


def test_without_words_or_with_directions_a_graph_is_drawn(house, explain):
    assert sentence(house(), None, 7.0) is None
    explanation = explain([(0, 1), (1, 2)], [0.1, 0.9], undirected=False, words="a\0b\0c")
    assert part(draw_explanation(explanation), "heads") is not None
