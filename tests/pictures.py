"""Read pictures back from matplotlib figures."""

from __future__ import annotations


def part(figure, name, axes=0):
    """The drawn collection of a name, or None; with a budget, that of what is within it."""
    found = [c for c in figure.axes[axes].collections if c.get_gid() == name]
    return found[-1] if found else None


def title(figure, axes=0):
    """The title of a graph."""
    return figure.axes[axes].get_title()


def labels(figure, axes=0):
    """The texts on a graph."""
    return [text.get_text() for text in figure.axes[axes].texts]


def legend(figure):
    """The texts of the legend."""
    found = [axes for axes in figure.axes if axes.get_gid() == "legend"]
    return [text.get_text() for axes in found for text in axes.texts]
