"""A page of examples: the same graphs in all rows."""

from __future__ import annotations

import numpy as np
import pytest

from gsat.core.errors import GSATError
from gsat.draw import ExampleRow, draw_examples


def pictures(figure):
    return [axes for axes in figure.axes if axes.get_gid() != "legend"]


def nodes(axes):
    (drawn,) = [c for c in axes.collections if c.get_gid() == "nodes"]
    return np.asarray(drawn.get_offsets())


def alphas(axes):
    (drawn,) = [c for c in axes.collections if c.get_gid() == "edges"]
    return drawn.get_colors()[:, 3]


def written(figure):
    return [text.get_text() for text in figure.texts]


@pytest.fixture
def other(house):
    """The same graph, explained otherwise."""

    def make():
        explanation = house()
        explanation.edge_mask = 1 - explanation.edge_mask
        return explanation

    return make


def test_a_graph_has_the_same_places_in_all_rows(house, other, explain, tmp_path):
    ring = [(i, (i + 1) % 6) for i in range(6)]
    cycles = [explain(ring, list(scores)) for scores in (np.linspace(0, 1, 6), [0.9] * 6)]
    rows = [ExampleRow("GSAT", [house(), cycles[0]]), ExampleRow("GraphMask", [other(), cycles[1]])]
    figure = draw_examples(rows, tmp_path / "page.png")
    a, b, c, d = pictures(figure)
    assert (nodes(a) == nodes(c)).all()
    assert (nodes(b) == nodes(d)).all()
    assert a.get_xlim() == c.get_xlim()
    assert alphas(a).tolist() != alphas(c).tolist()
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    assert not any(axes.texts for axes in pictures(figure))  # no numbers of nodes


def test_rows_and_columns_are_named(house, other):
    rows = [
        ExampleRow("truth", [house(), house()]),
        ExampleRow("GSAT", [house(), other()], captions=["AUC 1.00", "AUC 0.00"]),
    ]
    figure = draw_examples(rows, titles=["a house", "$again"])
    assert written(figure) == ["truth", "GSAT", "AUC 1.00", "AUC 0.00"]
    assert [axes.get_title() for axes in pictures(figure)] == ["a house", "$again", "", ""]
    place = {text.get_text(): text.get_position() for text in figure.texts}
    boxes = [axes.get_position() for axes in pictures(figure)]
    assert place["truth"][0] < boxes[0].x0
    assert boxes[0].y0 < place["truth"][1] < boxes[0].y1
    assert boxes[2].x0 < place["AUC 1.00"][0] < boxes[2].x1
    assert place["AUC 1.00"][1] < boxes[2].y0
    assert len(figure.axes) == 4 + 1  # one legend


def test_a_page_can_be_narrower_than_its_graphs(house):
    figure = draw_examples(
        [ExampleRow("a", [house()] * 5), ExampleRow("b", [house()] * 5)], columns=2
    )
    assert len(pictures(figure)) == 10
    boxes = [axes.get_position() for axes in pictures(figure)]
    assert len({round(box.x0, 4) for box in boxes}) == 2
    assert len({round(box.y0, 4) for box in boxes}) == 6
    assert written(figure) == ["a", "b"] * 3
    assert min(box.y0 for box in boxes) > 0
    assert max(box.x1 for box in boxes) <= 1.0001


def test_sentences_stand_on_a_page(explain):
    long = explain([(i, i + 1) for i in range(29)], list(np.linspace(0, 1, 29)),
                   words="\0".join(["gorgeous"] * 30))  # fmt: skip
    short = explain([(0, 1)], [0.9], words="a\0film")
    figure = draw_examples([ExampleRow("GSAT", [long, short])])
    assert [len(axes.texts) for axes in pictures(figure)] == [30, 2]
    renderer = figure.canvas.get_renderer()
    for axes in pictures(figure):
        box = axes.get_window_extent(renderer)
        for text in axes.texts:
            extent = text.get_window_extent(renderer)
            assert box.x0 <= extent.x0
            assert extent.x1 <= box.x1
            assert box.y0 <= extent.y0 + 1
            assert extent.y1 <= box.y1 + 1


def test_odd_graphs(explain, tmp_path):
    odd = [
        explain([], [], nodes=1),
        explain([], [], nodes=0),
        explain([(0, 1), (1, 2)], [0.7, 0.7]),
    ]
    figure = draw_examples(
        [ExampleRow("GSAT", odd), ExampleRow("again", odd)], tmp_path / "odd.svg"
    )
    assert len(pictures(figure)) == 6


@pytest.mark.parametrize(
    ("rows", "options", "value"),
    [
        ([], {}, "no example"),
        ([("a", [])], {}, "no example"),
        ([("a", ["house"]), ("b", ["house"] * 2)], {}, "row 'b' has 2 graphs, row 'a' 1"),
        ([("a", ["house"]), ("b", ["edge"])], {}, "row 'b'"),
        ([("a", ["house"], ["x", "y"])], {}, "2 captions for 1"),
        ([("a", ["house"])], {"titles": ["x", "y"]}, "2 titles came for 1"),
        ([("a", ["house"])], {"columns": 0}, "0"),
    ],
)
def test_pages_that_cannot_be_drawn(house, explain, rows, options, value):
    graphs = {"house": house(), "edge": explain([(0, 4)], [0.1])}
    listed = [ExampleRow(name, [graphs[g] for g in own], *more) for name, own, *more in rows]
    with pytest.raises(GSATError, match=value):
        draw_examples(listed, **options)
