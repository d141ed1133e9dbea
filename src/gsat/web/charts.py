"""Learning curves and scatter plots as SVG; the style sheet of the pages colours them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import zip_longest
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import RunError
from gsat.metric_names import METRIC_TITLES
from gsat.training.members import member_folders
from gsat.training.run import Run
from gsat.training.run_directory import RunDirectory

WIDE, SQUARE = (340, 210), (300, 284)  # sizes; axes of the second are equally long
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 30
_MAX_POINTS: Final = 2000
Log = Sequence[Mapping[str, Any]]
Lines = dict[str, list[float | None]]


def curve_values(log: Log) -> dict[str, Any]:
    """Gather the values of each metric over the epochs."""
    curves: dict[str, Lines] = {}
    for part in ("train", "valid"):
        names = dict.fromkeys(name for line in log for name in line[part])
        curves[part] = {name: [line[part].get(name) for line in log] for name in names}
    return {
        "epochs": len(log),
        "phases": [line["phase"] for line in log],
        "curves": curves,
    }


def selected_epoch(run: Run) -> int | None:
    """The reported epoch, over all phases; of an unfinished run, the best so far."""
    if run.recipe.members is not None:
        return None
    if run.finished:
        return int(run.result["best_epoch"])
    return max((i for i, line in enumerate(run.log) if line.get("selected")), default=None)


def member_logs(run: Run) -> list[Log]:
    """Read the logs of the members of an ensemble that have begun; empty for other runs."""
    if run.path is None or run.recipe.members is None:
        return []
    logs: list[Log] = []
    for folder in member_folders(RunDirectory(run.path)):
        try:
            logs.append(RunDirectory(folder).read_log())
        except RunError:  # its training has not begun
            continue
    return logs


def mean_curves(logs: Sequence[Log]) -> dict[str, Lines]:
    """Average the loss and each metric over logs, each epoch over the runs that have reached it."""
    curves = [curve_values(log)["curves"] for log in logs]
    titles = {"loss": "loss", **METRIC_TITLES}
    out: dict[str, Lines] = {}
    for name, title in titles.items():
        for part in ("train", "valid"):
            total = "total" if name == "loss" and part == "train" else name
            lines = [one[part].get(total, one[part].get(name, [])) for one in curves]
            mean = [_mean(values) for values in zip_longest(*lines)]
            if any(value is not None for value in mean):
                out.setdefault(title, {})[part] = mean
    return out


def _mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


def line_chart(title: str, lines: Lines, *, selected: int | None = None) -> str:
    """Draw curves over epochs."""
    count = max((len(values) for values in lines.values()), default=0)
    defined = {
        name: [(epoch, v) for epoch, v in enumerate(values) if v is not None and math.isfinite(v)]
        for name, values in lines.items()
    }
    last = ", ".join(f"{name} {points[-1][1]:.3f}" for name, points in defined.items() if points)
    last_epoch = max(count - 1, 1)
    epochs = [tick for tick in _ticks([0, last_epoch]) if tick == int(tick) <= last_epoch]
    ticks = _ticks([value for points in defined.values() for _, value in points])
    chart = _Chart(
        f"{title} over {count} epochs; at the end: {last}",
        WIDE,
        (0, last_epoch),
        (ticks[0], ticks[-1]),
        epochs,
        ticks,
    )
    if selected is not None and selected < count:
        chart.parts.append(
            f'<path class="chosen-epoch" d="M{chart.x(selected):.1f} {_TOP}V{WIDE[1] - _BOTTOM}">'
            f"<title>selected epoch: {selected}</title></path>"
        )
    for name, points in defined.items():
        path, before = "", -2
        for epoch, value in points:  # a gap in the values is a gap in the line
            step = "L" if epoch == before + 1 else "M"
            path += f"{step}{chart.x(epoch):.1f} {chart.y(value):.1f}"
            before = epoch
        chart.parts.append(f'<path class="line line-{escape(name)}" d="{path}"/>')
    return chart.svg()


def scatter(true: NDArray[np.float64], predicted: NDArray[np.float64]) -> str:
    """Draw predicted against true numbers, with the diagonal."""
    known = np.isfinite(true) & np.isfinite(predicted)
    step = max(1, int(known.sum()) // _MAX_POINTS)
    true, predicted = true[known][::step], predicted[known][::step]
    ticks = _ticks([*true, *predicted])
    low, high = ticks[0], ticks[-1]
    label = f"predicted against true numbers of {len(true)} graphs"
    chart = _Chart(label, SQUARE, (low, high), (low, high), ticks, ticks)
    x, y = chart.x, chart.y
    chart.parts.append(
        f'<path class="diagonal" d="M{x(low):.1f} {y(low):.1f}L{x(high):.1f} {y(high):.1f}"/>'
    )
    for a, b in zip(true.tolist(), predicted.tolist(), strict=True):
        chart.parts.append(f'<circle class="point" cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.6"/>')
    return chart.svg()


@dataclass(frozen=True)
class _Chart:
    """Axes with labelled ticks, and the parts drawn between them."""

    label: str
    size: tuple[int, int]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    parts: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        low, high = self.x_range
        return _LEFT + (self.size[0] - _LEFT - _RIGHT) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        (low, high), height = self.y_range, self.size[1]
        return height - _BOTTOM - (height - _TOP - _BOTTOM) * (value - low) / (high - low)

    def svg(self) -> str:
        width, height = self.size
        label = escape(self.label)
        axes = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" '
            f'role="img" aria-label="{label}"><title>{label}</title>'
        ]
        for tick in self.y_ticks:
            y = self.y(tick)
            axes.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{width - _RIGHT}"/>')
            axes.append(_text(_LEFT - 6, y + 4, "end", tick))
        axes += [_text(self.x(tick), height - 10, "middle", tick) for tick in self.x_ticks]
        return "".join([*axes, *self.parts, "</svg>"])


def _ticks(values: Sequence[float]) -> list[float]:
    """Choose round numbers around the range of values, or around 0 to 1 if there are none."""
    from matplotlib.ticker import MaxNLocator

    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    high = high if high > low else low + (abs(low) or 1.0)
    return [float(tick) for tick in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)]


def _text(x: float, y: float, anchor: str, value: float) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{value:g}</text>'
