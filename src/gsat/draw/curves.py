"""Curves with bands: a metric over epochs, or over a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import GSATError
from gsat.core.writing import check_suffix, write_output
from gsat.draw.figure import PICTURES, new_figure, render
from gsat.draw.shapes import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Scale = Literal["linear", "log"]

# Okabe and Ito's colours, which colour-blind people can distinguish; line styles help in print.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINE_STYLES: Final = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)))
MARKS: Final = "osD^vPX"
FEW: Final = 20  # points up to this many are marked

_WIDE, _HIGH = 2.8, 2.1  # of a panel, in inches
_LEGEND = 0.36


@dataclass(frozen=True)
class Line:
    """One curve with a band around it."""

    name: str  # in the legend
    x: Sequence[float]  # n values
    mean: Sequence[float | None]  # n values; None or NaN leaves a gap
    band: Sequence[float | None] = ()  # half-widths of the band, n values or none


@dataclass(frozen=True)
class Panel:
    """One pair of axes and its lines."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    y_range: tuple[float, float] | None = None  # None: everything


def draw_curves(
    panels: Sequence[Panel], path: str | Path | None = None, *, columns: int = 4
) -> Figure:
    """Draw panels row by row, with one legend: a name has the same colour in all panels."""
    if path is not None:
        check_suffix(path, PICTURES)
    if not panels:
        raise GSATError("there is no panel to draw: curves need at least one")
    if columns < 1:
        raise GSATError(f"a page of curves needs at least 1 column, not {columns}")
    for panel in panels:
        _check(panel)
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
    line_styles = {
        name: {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": LINE_STYLES[number % len(LINE_STYLES)],
            "marker": MARKS[number % len(MARKS)],
        }
        for number, name in enumerate(names)
    }
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    beside = min(len(names), 2 * columns)  # names side by side in the legend
    bottom = _LEGEND + 0.2 * (-(-len(names) // beside) - 1) if names else 0.0
    width, height = columns * _WIDE, rows * _HIGH + bottom
    figure = new_figure(width, height)
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        left, low = column * _WIDE + 0.7, height - (row + 1) * _HIGH + 0.46
        axes = figure.add_axes(
            (left / width, low / height, (_WIDE - 0.84) / width, (_HIGH - 0.76) / height)
        )
        _draw(axes, panel, line_styles)
    if names:
        drawn = {line.get_label(): line for axes in figure.axes for line in axes.lines}
        figure.legend(
            handles=[drawn[name] for name in names],
            loc="lower center",
            ncols=beside,
            frameon=False,
            fontsize=8.5,
            labelcolor=INK,
            borderaxespad=0.4,
            handlelength=2.4,
            columnspacing=1.8,
        )
    if path is not None:
        write_output(path, render(figure, check_suffix(path, PICTURES)))
    return figure


def _check(panel: Panel) -> None:
    for line in panel.lines:
        sizes = {len(line.x), len(line.mean), len(line.band) or len(line.mean)}
        if len(sizes) > 1:
            raise GSATError(
                f"line '{line.name}' of '{panel.title}' has {len(line.x)} values of x, "
                f"{len(line.mean)} means and {len(line.band)} bands; give as many of each"
            )
        if panel.x_scale == "log" and any(not x > 0 for x in line.x):
            raise GSATError(
                f"line '{line.name}' of '{panel.title}' has values of x at or below 0, which a log "
                "axis can't show; leave them out or choose a linear axis"
            )


def _draw(axes: Axes, panel: Panel, line_styles: dict[str, dict[str, Any]]) -> None:
    """Draw one panel."""
    axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    lowest = _lowest(panel)
    for line in panel.lines:
        style = line_styles[line.name] | ({} if len(line.x) <= FEW else {"marker": ""})
        x, mean = np.asarray(line.x, dtype=float), _numbers(line.mean)
        if line.band:
            band = _numbers(line.band)
            filled = axes.fill_between(
                x,
                np.maximum(mean - band, lowest),
                mean + band,
                color=style["color"],
                alpha=0.18,
                linewidth=0,
            )
            filled.set_gid(f"band {line.name}")
        (drawn,) = axes.plot(x, mean, linewidth=1.5, markersize=3.8, label=line.name, **style)
        drawn.set_gid(f"line {line.name}")
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)
    axes.set_title(panel.title, fontsize=9.5, color=INK, pad=5, parse_math=False)
    axes.set_xlabel(panel.x_label, fontsize=8.5, color=INK, labelpad=2, parse_math=False)
    axes.set_ylabel(panel.y_label, fontsize=8.5, color=INK, labelpad=3, parse_math=False)
    axes.tick_params(labelsize=7.5, colors=INK, length=2.5, width=0.6)
    axes.minorticks_off()
    for axis in (axes.xaxis, axes.yaxis):
        _label_narrow_log(axis)
    if not any(line.x for line in panel.lines):
        # Numbers on the axes would belong to no line.
        axes.set(xticks=[], yticks=[])
        axes.text(
            0.5, 0.5, "nothing recorded yet", transform=axes.transAxes, ha="center", va="center",
            fontsize=8.5, color="#6B7785",
        )  # fmt: skip
    axes.grid(color="#E4E8EC", linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set(color="#6B7785", linewidth=0.7)


def _label_narrow_log(axis: Axis) -> None:
    """Label values between the powers of ten on a log axis of less than two decades."""
    from matplotlib.ticker import LogLocator

    low, high = axis.get_view_interval()
    if axis.get_scale() == "log" and high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")


def _lowest(panel: Panel) -> float:
    """Return the lower limit of bands: a band down to 0 would fill a log axis."""
    if panel.y_scale == "linear":
        return -np.inf
    means = np.concatenate([_numbers(line.mean) for line in panel.lines] or [np.empty(0)])
    return float(means[means > 0].min(initial=1.0)) / 2


def _numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=float)
