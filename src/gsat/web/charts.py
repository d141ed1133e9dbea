"""Learning curves and scatter plots as SVG; the style sheet of the pages colours them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

WIDTH, HEIGHT = 340, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 30
_MAX_POINTS: Final = 2000
Log = Sequence[Mapping[str, Any]]
Lines = dict[str, list[float | None]]
Curves = list[tuple[str, Lines]]


def curve_values(log: Log) -> dict[str, Any]:
    """Gather the values of each metric over the epochs."""
    curves: dict[str, Lines] = {}
    for part in ("train", "valid"):
        names = dict.fromkeys(name for line in log for name in line[part])
        curves[part] = {name: [line[part].get(name) for line in log] for name in names}
    return {
        "epochs": len(log),
        "phases": [line["phase"] for line in log],
        "selected": next((i for i, line in enumerate(log) if line.get("selected")), None),
        "curves": curves,
    }


def shown_curves(log: Log) -> Curves:
    """Choose the curves of a page: the loss, then each metric that has values."""
    curves = curve_values(log)["curves"]
    train, valid = curves["train"], curves["valid"]
    loss = train.get("total", train.get("loss", []))
    charts = [("loss", {"train": loss, "valid": valid.get("loss", [])})]
    charts += [
        (title, {"train": train.get(name, []), "valid": valid.get(name, [])})
        for name, title in METRIC_TITLES.items()
    ]
    defined = [
        (title, {part: line for part, line in lines.items() if any(v is not None for v in line)})
        for title, lines in charts
    ]
    return [(title, lines) for title, lines in defined if lines]


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


def mean_curves(logs: Sequence[Log]) -> Curves:
    """Average the curves of several runs, each epoch over the runs that have reached it."""
    gathered: dict[str, dict[str, list[list[float | None]]]] = {}
    for log in logs:
        for title, lines in shown_curves(log):
            for part, values in lines.items():
                gathered.setdefault(title, {}).setdefault(part, []).append(values)
    return [
        (
            title,
            {
                part: [_mean(epoch) for epoch in zip_longest(*lines)]
                for part, lines in parts.items()
            },
        )
        for title, parts in gathered.items()
    ]


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
    every = [value for points in defined.values() for _, value in points]
    low, high = (min(every), max(every)) if every else (0.0, 1.0)
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    last_epoch = max(count - 1, 1)

    def x(epoch: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * epoch / last_epoch

    def y(value: float) -> float:
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (value - low) / ((high - low) or 1)

    last = ", ".join(f"{name} {points[-1][1]:.3f}" for name, points in defined.items() if points)
    out = [_head(f"{title} over {count} epochs; at the end: {last}")]
    for tick in ticks:
        out.append(f'<path class="grid" d="M{_LEFT} {y(tick):.1f}H{WIDTH - _RIGHT}"/>')
        out.append(_text(_LEFT - 6, y(tick) + 4, "end", f"{tick:g}"))
    for tick in _ticks(0, last_epoch):
        if tick == int(tick) and tick <= last_epoch:
            out.append(_text(x(tick), HEIGHT - 10, "middle", f"{int(tick)}"))
    if selected is not None and selected < count:
        out.append(
            f'<path class="chosen-epoch" d="M{x(selected):.1f} {_TOP}V{HEIGHT - _BOTTOM}">'
            f"<title>selected epoch: {selected}</title></path>"
        )
    for name, points in defined.items():
        path, before = "", -2
        for epoch, value in points:  # a gap in the values is a gap in the line
            path += f"{'L' if epoch == before + 1 else 'M'}{x(epoch):.1f} {y(value):.1f}"
            before = epoch
        out.append(f'<path class="line line-{escape(name)}" d="{path}"/>')
    return "".join([*out, "</svg>"])


def scatter(true: NDArray[np.float64], predicted: NDArray[np.float64]) -> str:
    """Draw predicted against true numbers, with the diagonal."""
    known = np.isfinite(true) & np.isfinite(predicted)
    true, predicted = true[known], predicted[known]
    step = max(1, len(true) // _MAX_POINTS)
    true, predicted = true[::step], predicted[::step]
    both = np.concatenate([true, predicted]) if len(true) else np.array([0.0, 1.0])
    ticks = _ticks(float(both.min()), float(both.max()))
    low, high = min(both.min(), ticks[0]), max(both.max(), ticks[-1])
    side = HEIGHT + 90
    length = side - _LEFT - _BOTTOM

    def x(value: float) -> float:
        return float(_LEFT + length * (value - low) / ((high - low) or 1))

    def y(value: float) -> float:
        return side - _BOTTOM + _LEFT - x(value)

    out = [_head(f"predicted against true numbers of {len(true)} graphs", side, side)]
    for tick in ticks:
        out.append(f'<path class="grid" d="M{_LEFT} {y(tick):.1f}H{side - 12}"/>')
        out.append(_text(_LEFT - 6, y(tick) + 4, "end", f"{tick:g}"))
        out.append(_text(x(tick), side - 12, "middle", f"{tick:g}"))
    out.append(f'<path class="diagonal" d="M{_LEFT} {y(low):.1f}L{x(high):.1f} {y(high):.1f}"/>')
    for a, b in zip(true.tolist(), predicted.tolist(), strict=True):
        out.append(f'<circle class="point" cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.6"/>')
    return "".join([*out, "</svg>"])


def _ticks(low: float, high: float) -> list[float]:
    """Choose round numbers that cover a range."""
    from matplotlib.ticker import MaxNLocator

    high = high if high > low else low + (abs(low) or 1.0)
    return [float(tick) for tick in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)]


def _text(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _head(label: str, width: int = WIDTH, height: int = HEIGHT) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(label)}"><title>{escape(label)}</title>'
    )
