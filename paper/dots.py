"""Scatter plots of pairs of numbers, with error bars and a diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gsat.core.errors import GSATError
from gsat.core.writing import check_suffix, write_output
from gsat.draw.curves import COLOURS, MARKS
from gsat.draw.figure import PICTURES, new_figure, render
from gsat.draw.shapes import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIDE, _LEGEND, _PALE = 2.5, 0.55, "#6B7785"  # inches of a panel and of the legend


@dataclass(frozen=True)
class Dot:
    """A pair of numbers; a dot without an error in y is hollow."""

    group: str  # decides the colour; shown in the legend
    x: float
    y: float
    x_error: float | None = None  # half-width of the error bar
    y_error: float | None = None
    name: str = ""  # its id in an SVG file


def draw_dots(
    panels: Sequence[tuple[str, Sequence[Dot]]],
    x_label: str,
    y_label: str,
    path: str | Path | None = None,
    *,
    columns: int = 4,
    least_span: float = 0.0,
) -> Figure:
    """Draw panels of dots, row by row, each with its diagonal, and one legend."""
    suffix = check_suffix(path, PICTURES) if path is not None else ""
    if not any(dots for _, dots in panels):
        raise GSATError("there is no dot to draw: at least one is needed")
    groups = list(dict.fromkeys(dot.group for _, dots in panels for dot in dots))
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width, height = columns * _SIDE, rows * _SIDE + _LEGEND
    figure = new_figure(width, height)
    for number, (title, dots) in enumerate(panels):
        row, column = divmod(number, columns)
        left, low = column * _SIDE + 0.52, height - (row + 1) * _SIDE + 0.46
        side = _SIDE - 0.8
        axes = figure.add_axes((left / width, low / height, side / width, side / height))
        _draw(axes, title, dots, groups, least_span)
        axes.set_xlabel(x_label, fontsize=8.5, color=INK, labelpad=2, parse_math=False)
        if column == 0:
            axes.set_ylabel(y_label, fontsize=8.5, color=INK, labelpad=2, parse_math=False)
    _legend(figure, groups, min(len(groups), 2 * columns))
    if path is not None:
        write_output(path, render(figure, suffix))
    return figure


def _draw(
    axes: Axes, title: str, dots: Sequence[Dot], groups: Sequence[str], least_span: float
) -> None:
    values = [value for dot in dots for value in (dot.x, dot.y)]
    low, high = min(values), max(values)
    margin = max(0.08 * (high - low) + 1e-9, (least_span - (high - low)) / 2)
    limits = low - margin, high + margin
    axes.plot(limits, limits, color=_PALE, linewidth=0.8, zorder=1)
    for dot in dots:
        number = groups.index(dot.group)
        colour = COLOURS[number % len(COLOURS)]
        bars = axes.errorbar(
            dot.x, dot.y, xerr=dot.x_error, yerr=dot.y_error, color=colour, elinewidth=0.7,
            alpha=0.35, fmt="none", zorder=2,
        )  # fmt: skip
        for bar in bars[2]:
            bar.set_clip_on(True)
        face = "white" if dot.y_error is None else colour
        (drawn,) = axes.plot(
            dot.x, dot.y, MARKS[number % len(MARKS)], color=colour, markerfacecolor=face,
            markersize=4.2, markeredgewidth=1.0, zorder=3,
        )  # fmt: skip
        drawn.set_gid(f"dot {dot.name}")
    axes.set(xlim=limits, ylim=limits, aspect="equal")
    axes.locator_params(nbins=5)
    axes.set_xticks([tick for tick in axes.get_yticks() if limits[0] <= tick <= limits[1]])
    axes.set_title(title, fontsize=9.5, color=INK, pad=5, parse_math=False)
    axes.tick_params(labelsize=7.5, colors=INK, length=2.5, width=0.6)
    axes.grid(color="#E4E8EC", linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set(color=_PALE, linewidth=0.7)


def _legend(figure: Figure, groups: Sequence[str], beside: int) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], label=name, linestyle="", marker=MARKS[number % len(MARKS)], markersize=4.5,
               color=COLOURS[number % len(COLOURS)])
        for number, name in enumerate(groups)
    ]  # fmt: skip
    figure.legend(
        handles=handles, loc="lower center", ncols=beside, frameon=False, fontsize=8.5,
        labelcolor=INK, borderaxespad=0.4, handletextpad=0.2, columnspacing=1.4,
    )  # fmt: skip
