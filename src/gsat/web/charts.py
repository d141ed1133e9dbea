"""Charts of the page as SVG: curves over epochs, predicted against true. Colours are the page's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final

import numpy as np
from numpy.typing import NDArray

WIDE, HIGH = 340, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 12, 30
_MOST_POINTS: Final = 2000
Place = Callable[[float], float]


def line_chart(
    title: str, lines: Mapping[str, Sequence[float | None]], *, selected: int | None = None
) -> str:
    """Draw curves over epochs."""
    count = max((len(values) for values in lines.values()), default=0)
    known = [v for values in lines.values() for v in values if v is not None and math.isfinite(v)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    ticks = nice_ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])

    def x(epoch: float) -> float:
        return _LEFT + (WIDE - _LEFT - _RIGHT) * epoch / max(count - 1, 1)

    def y(value: float) -> float:
        return HIGH - _BOTTOM - (HIGH - _TOP - _BOTTOM) * (value - low) / ((high - low) or 1)

    last = ", ".join(
        f"{name} {_last(values):.3f}"
        for name, values in lines.items()
        if any(v is not None for v in values)
    )
    out = [_head(f"{title} over {count} epochs; at the end: {last}")]
    out += [
        f'<path class="grid" d="M{_LEFT} {y(t):.1f}H{WIDE - _RIGHT}"/>'
        f'<text class="tick" x="{_LEFT - 6}" y="{y(t) + 4:.1f}" text-anchor="end">{t:g}</text>'
        for t in ticks
    ]
    whole = [t for t in nice_ticks(0, max(count - 1, 1)) if t == int(t) and t <= max(count - 1, 1)]
    out += [
        f'<text class="tick" x="{x(t):.1f}" y="{HIGH - 10}" text-anchor="middle">{int(t)}</text>'
        for t in whole
    ]
    if selected is not None and selected < count:
        out.append(
            f'<path class="chosen-epoch" d="M{x(selected):.1f} {_TOP}V{HIGH - _BOTTOM}">'
            f"<title>epoch {selected} was selected</title></path>"
        )
    for name, values in lines.items():
        out.append(f'<path class="line line-{escape(name)}" d="{_curve(values, x, y)}"/>')
    return "".join([*out, "</svg>"])


def scatter(true: NDArray[np.float64], predicted: NDArray[np.float64]) -> str:
    """Draw predicted against true numbers, with the diagonal."""
    known = np.isfinite(true) & np.isfinite(predicted)
    true, predicted = true[known], predicted[known]
    step = max(1, len(true) // _MOST_POINTS)
    true, predicted = true[::step], predicted[::step]
    both = np.concatenate([true, predicted]) if len(true) else np.array([0.0, 1.0])
    ticks = nice_ticks(float(both.min()), float(both.max()))
    low, high = min(both.min(), ticks[0]), max(both.max(), ticks[-1])
    side = HIGH + 90

    def at(value: float) -> float:
        return (side - _LEFT - _BOTTOM) * (value - low) / ((high - low) or 1)

    out = [_head(f"predicted against true numbers of {len(true)} graphs", side, side)]
    for t in ticks:
        y = side - _BOTTOM - at(t)
        out.append(
            f'<path class="grid" d="M{_LEFT} {y:.1f}H{side - 12}"/>'
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{t:g}</text>'
            f'<text class="tick" x="{_LEFT + at(t):.1f}" y="{side - 12}" '
            f'text-anchor="middle">{t:g}</text>'
        )
    end = at(high)
    out.append(
        f'<path class="diagonal" d="M{_LEFT} {side - _BOTTOM}L{_LEFT + end:.1f} '
        f'{side - _BOTTOM - end:.1f}"/>'
    )
    for a, b in zip(true.tolist(), predicted.tolist(), strict=True):
        out.append(
            f'<circle class="point" cx="{_LEFT + at(a):.1f}" cy="{side - _BOTTOM - at(b):.1f}" '
            f'r="2.6"/>'
        )
    return "".join([*out, "</svg>"])


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Choose round numbers that cover a range."""
    span = (high - low) or abs(high) or 1.0
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    return [round(step * number, digits) for number in range(first, max(last, first + 1) + 1)]


def _curve(values: Sequence[float | None], x: Place, y: Place) -> str:
    out, drawing = "", False
    for epoch, value in enumerate(values):
        if value is None or not math.isfinite(value):
            drawing = False
            continue
        out += f"{'L' if drawing else 'M'}{x(epoch):.1f} {y(value):.1f}"
        drawing = True
    return out


def _last(values: Sequence[float | None]) -> float:
    return next((value for value in reversed(values) if value is not None), math.nan)


def _head(label: str, wide: int = WIDE, high: int = HIGH) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {wide} {high}" '
        f'role="img" aria-label="{escape(label)}"><title>{escape(label)}</title>'
    )
