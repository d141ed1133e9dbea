"""Dots with error bars."""

from __future__ import annotations

import pytest
from paper.dots import Dot, draw_dots

DOTS = [Dot("ours", 1.0, 2.0, 0.5, 0.25, "a"), Dot("theirs", 3.0, 1.0, None, None, "b")]


def test_every_dot_is_where_its_numbers_are() -> None:
    figure = draw_dots([("first", DOTS), ("second", DOTS[:1])], "x", "y")
    first, second = figure.axes
    found = {
        line.get_gid(): (line.get_xdata()[0], line.get_ydata()[0], line.get_markerfacecolor())
        for line in first.lines
        if (line.get_gid() or "").startswith("dot")
    }
    assert found["dot a"][:2] == (1.0, 2.0)
    assert found["dot b"] == (3.0, 1.0, "white")  # no error: hollow
    assert found["dot a"][2] != "white"
    assert first.get_xlim() == first.get_ylim()  # the diagonal is one
    assert [axes.get_title() for axes in (first, second)] == ["first", "second"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ours", "theirs"]


def test_axes_have_at_least_the_requested_span() -> None:
    (axes,) = draw_dots([("", DOTS)], "x", "y", least_span=20.0).axes
    assert axes.get_xlim() == axes.get_ylim() == pytest.approx((2.0 - 10.0, 2.0 + 10.0))
    wide, narrow = (draw_dots([("", DOTS)], "x", "y", least_span=s).axes[0] for s in (0.0, 1.0))
    assert wide.get_xlim() == narrow.get_xlim()
