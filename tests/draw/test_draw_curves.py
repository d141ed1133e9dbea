"""Curves show the values they are given."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from gsat.core.errors import GSATError
from gsat.draw import Line, Panel, draw_curves
from gsat.draw.curves import COLOURS


def panel(*lines, **changed):
    return Panel(**{"title": "t", "x_label": "x", "y_label": "y", "lines": lines, **changed})


def line(figure, name, axes=0):
    return next(d for d in figure.axes[axes].lines if d.get_gid() == f"line {name}")


def band(figure, name, axes=0):
    """Places, lower and upper edge of a band."""
    found = [c for c in figure.axes[axes].collections if c.get_gid() == f"band {name}"]
    corners = np.concatenate([path.vertices for path in found[0].get_paths()])
    edges = {}
    for x, y in corners:
        edges.setdefault(x, []).append(y)
    return {x: (min(ys), max(ys)) for x, ys in edges.items()}


def test_lines_and_bands_have_the_values():
    figure = draw_curves([panel(Line("a", [1, 2, 3], [0.5, 0.7, 0.6], [0.1, 0.2, 0.0]))])
    assert line(figure, "a").get_xydata().tolist() == [[1, 0.5], [2, 0.7], [3, 0.6]]
    for x, (low, high) in {1: (0.4, 0.6), 2: (0.5, 0.9), 3: (0.6, 0.6)}.items():
        assert band(figure, "a")[x] == pytest.approx((low, high))


def test_a_name_has_one_colour_in_all_panels_and_one_place_in_the_legend(tmp_path):
    flat = ([1, 2], [0.5, 0.6], [0.1, 0.1])
    panels = [panel(Line("a", *flat), Line("b", *flat)), panel(Line("c", *flat), Line("b", *flat))]
    figure = draw_curves(panels, tmp_path / "c.png")
    assert line(figure, "b").get_color() == line(figure, "b", 1).get_color() == COLOURS[1]
    assert len({line(figure, "a").get_color(), line(figure, "c", 1).get_color(), COLOURS[1]}) == 3
    filled = next(c for c in figure.axes[1].collections if c.get_gid() == "band b")
    assert to_hex(filled.get_facecolor()[0][:3]).upper() == COLOURS[1]
    (box,) = figure.legends
    assert [text.get_text() for text in box.get_texts()] == ["a", "b", "c"]
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_not_defined_is_a_gap(tmp_path):
    values = [0.5, None, float("nan"), 0.6]
    figure = draw_curves([panel(Line("a", range(4), values, [0.1, None, 0.1, 0.1]))])
    drawn = line(figure, "a").get_ydata()
    assert np.isnan(drawn).tolist() == [False, True, True, False]
    low, high = figure.axes[0].get_ylim()
    assert 0 < low < 0.45
    assert 0.65 < high < 1
    draw_curves([panel(Line("a", range(4), [None] * 4, [None] * 4))], tmp_path / "empty.svg")
    assert (tmp_path / "empty.svg").is_file()


def test_labels_scales_and_ranges():
    figure = draw_curves(
        [
            panel(Line("a", [1e-5, 1], [1, 2]), title="$b", x_scale="log", y_range=(0, 3)),
            panel(Line("a", [1, 2], [0.1, 10], [0.5, 1]), y_scale="log"),
        ]
    )
    first, second = figure.axes
    assert (first.get_title(), first.get_xlabel(), first.get_ylabel()) == ("$b", "x", "y")
    assert (first.get_xscale(), first.get_yscale(), second.get_yscale()) == ("log", "linear", "log")
    assert first.get_ylim() == (0, 3)
    # A band that would reach 0 ends within sight on a log axis.
    assert second.get_ylim()[0] > 0.01


def test_panels_stand_in_rows_without_touching():
    names = ("GSAT", "GNNExplainer", "PGExplainer", "GraphMask")
    figure = draw_curves([panel(*(Line(name, [1], [1]) for name in names))] * 5, columns=2)
    boxes = [axes.get_position() for axes in figure.axes]
    assert len({round(box.x0, 4) for box in boxes}) == 2
    assert len({round(box.y0, 4) for box in boxes}) == 3
    assert boxes[0].x1 < boxes[1].x0
    assert boxes[0].y0 > boxes[2].y1
    renderer = figure.canvas.get_renderer()
    page = figure.bbox
    for drawn in (*figure.axes, *figure.legends):
        tight = drawn.get_tightbbox(renderer)
        assert page.x0 <= tight.x0
        assert tight.x1 <= page.x1
        assert page.y0 <= tight.y0
        assert tight.y1 <= page.y1


def test_few_points_are_marked_and_many_are_not():
    figure = draw_curves([panel(Line("a", range(9), range(9)), Line("b", range(99), range(99)))])
    assert line(figure, "a").get_marker() != ""
    assert line(figure, "b").get_marker() == ""


def test_a_log_axis_of_less_than_two_decades_has_figures_between_them() -> None:
    def labels(*values: float) -> list[str]:
        line = Line("a", range(len(values)), values)
        (axes,) = draw_curves([Panel("t", "x", "y", [line], y_scale="log")]).axes
        low, high = axes.get_ylim()
        ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
        return [axes.yaxis.get_major_formatter()(tick) for tick in ticks]

    assert labels(0.15, 1.2) == ["0.2", "0.5", "1"]
    assert all("10^" in label for label in labels(0.01, 100.0))


def test_a_panel_without_lines_says_so() -> None:
    empty = Line("a", [], [])
    for lines in ([], [empty]):
        figure = draw_curves([panel(Line("a", [1, 2], [1, 2])), panel(*lines, x_scale="log")])
        first, second = figure.axes
        assert [text.get_text() for text in second.texts] == ["nothing recorded yet"]
        assert len(second.get_xticks()) == len(second.get_yticks()) == 0
        assert not first.texts


@pytest.mark.parametrize(
    ("panels", "options", "value"),
    [
        ([], {}, "panel"),
        ([panel(Line("a", [1], [1]))], {"columns": 0}, "0"),
        ([panel(Line("a", [1, 2], [1]))], {}, "2 values of x, 1 means and 0 bands"),
        ([panel(Line("a", [1, 2], [1, 2], [1]))], {}, "1 bands"),
        ([panel(Line("a", [0, 2], [1, 2]), x_scale="log")], {}, "'a' of 't'"),
    ],
)
def test_curves_that_cannot_be_drawn(panels, options, value):
    with pytest.raises(GSATError, match=value):
        draw_curves(panels, **options)
