"""One explained molecule as a picture: the prediction, the structural formula, the colour scale."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from gsat.draw.files import new_figure
from gsat.draw.molecule import (
    ColourScale,
    Formula,
    formula_png,
    formula_svg,
    hexadecimal,
    mixed,
    natural_size,
)
from gsat.draw.paint import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Pixels; 100 of them are an inch of a figure.
_LINE: Final = 19
_LEGEND: Final = 40
_NARROWEST, _WIDEST = 340, 900
_BAR: Final = (120, 9)
_ZOOM: Final = 3.0  # pixels of a bitmap per pixel


def picture_svg(
    drawn: Formula, scale: ColourScale, lines: Sequence[str], *, label: str, **options: Any
) -> str:
    """Compose the picture of one molecule as an SVG document.

    Args:
        drawn: The formula.
        scale: Colours of its scores.
        lines: Text above it.
        label: What the colours mean, below it; empty if nothing is coloured.
        options: The options ``aromatic`` and ``numbers`` of
            :func:`gsat.draw.molecule.formula_svg`.

    Returns:
        The text of the file.
    """
    (wide, high), whole, head = _sizes(drawn, lines, label)
    inner = formula_svg(drawn, scale, (wide, high), **options)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole[0]}" height="{whole[1]}" '
        f'viewBox="0 0 {whole[0]} {whole[1]}" font-family="sans-serif" fill="{INK}">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for row, line in enumerate(lines):
        out.append(
            f'<text x="{whole[0] / 2:g}" y="{20 + _LINE * row}" font-size="13" '
            f'text-anchor="middle">{html.escape(line)}</text>'
        )
    left = (whole[0] - wide) / 2
    out.append(inner.replace("<svg ", f'<svg x="{left:g}" y="{head}" ', 1).strip())
    if label:
        out.append(legend_svg(scale, label, whole[0] / 2, whole[1] - 26))
    return "\n".join([*out, "</svg>\n"])


def legend_svg(scale: ColourScale, label: str, middle: float, top: float) -> str:
    """Draw the colour scale with its ends, as a part of an SVG.

    Args:
        scale: The scale.
        label: What it shows.
        middle: Where its middle is, in pixels from the left.
        top: Where its upper edge is.
    """
    wide, high = _BAR
    text = 6.2 * len(label)
    left = middle - (text + wide + 76) / 2 + text + 42
    stops = "".join(
        f'<stop offset="{part / 4:g}" stop-color="{hexadecimal(mixed(part / 4))}"/>'
        for part in range(5)
    )
    base, style = top + high - 0.5, 'font-size="11" fill="#3c4651"'
    label = html.escape(label)
    return (
        f'<defs><linearGradient id="score">{stops}</linearGradient></defs>'
        f'<rect x="{left:g}" y="{top:g}" width="{wide}" height="{high}" fill="url(#score)" '
        f'stroke="#c9ced4" stroke-width="0.5"/>'
        f'<text x="{left - 42:g}" y="{base:g}" {style} text-anchor="end">{label}</text>'
        f'<text x="{left - 6:g}" y="{base:g}" {style} text-anchor="end">{scale.low:.2f}</text>'
        f'<text x="{left + wide + 6:g}" y="{base:g}" {style}>{scale.high:.2f}</text>'
    )


def picture_figure(
    drawn: Formula, scale: ColourScale, lines: Sequence[str], *, label: str, **options: Any
) -> Figure:
    """Compose the picture of one molecule as a matplotlib figure; arguments as `picture_svg`."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.image import imread

    (wide, high), whole, head = _sizes(drawn, lines, label)
    figure = new_figure(whole[0] / 100, whole[1] / 100)

    def box(left: float, top: float, width: float, height: float) -> Any:
        bottom = whole[1] - top - height
        place = (left / whole[0], bottom / whole[1], width / whole[0], height / whole[1])
        return figure.add_axes(place)

    size = (round(wide * _ZOOM), round(high * _ZOOM))
    axes = box((whole[0] - wide) / 2, head, wide, high)
    axes.set_axis_off()
    bitmap = formula_png(drawn, scale, size, zoom=_ZOOM, **options)
    axes.imshow(imread(io.BytesIO(bitmap), format="png"), interpolation="antialiased")
    style: dict[str, Any] = {"color": INK, "parse_math": False, "ha": "center"}
    for row, line in enumerate(lines):
        figure.text(0.5, 1 - (20 + _LINE * row) / whole[1], line, fontsize=9.4, **style)
    if label:
        left, top = (whole[0] - _BAR[0]) / 2 + 35, whole[1] - 26.0
        bar = box(left, top, *_BAR)
        colours = LinearSegmentedColormap.from_list("score", [mixed(part / 4) for part in range(5)])
        bar.imshow([[part / 99 for part in range(100)]], aspect="auto", cmap=colours)
        bar.set_xticks([])
        bar.set_yticks([])
        bar.spines[:].set(color="#c9ced4", linewidth=0.5)
        base = 1 - (top + _BAR[1] - 0.5) / whole[1]
        for x, side, text in (
            (left - 42, "right", label),
            (left - 6, "right", f"{scale.low:.2f}"),
            (left + _BAR[0] + 6, "left", f"{scale.high:.2f}"),
        ):
            figure.text(x / whole[0], base, text, fontsize=8, **{**style, "ha": side})
    return figure


def _sizes(
    drawn: Formula, lines: Sequence[str], label: str
) -> tuple[tuple[int, int], tuple[int, int], int]:
    """Return the size of the formula and of the whole, and the height of the title."""
    wide, high = natural_size(drawn)
    shrink = min(1.0, _WIDEST / wide, _WIDEST / high)
    wide, high = max(round(wide * shrink), 60), max(round(high * shrink), 60)
    head = 12 + _LINE * len(lines)
    whole = (max(wide, _NARROWEST), head + high + (_LEGEND if label else 12))
    return (wide, high), whole, head
