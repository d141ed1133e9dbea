"""Sheets as SVG: words stay words, shapes have titles and ``data-`` attributes.

Colours are presentation attributes, so the style sheet of a page can replace them by class; a file
on its own follows the reader's choice of light or dark. There are no ids: several pictures can
stand in one page.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Final

import numpy as np

from gsat.draw.shapes import (
    LINE,
    PALETTE,
    Areas,
    Circles,
    Floats,
    Inset,
    Layer,
    Part,
    Sheet,
    Strokes,
    Tag,
    Texts,
    each,
    light,
)

INCH: Final = 100.0  # pixels
_POINT: Final = INCH / 72


def sheet_svg(sheet: Sheet, *, alone: bool = True) -> str:
    """Write a sheet as an SVG document."""
    wide, high = (_number(INCH * length) for length in sheet.size)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="gsat" role="img" width="{wide}" '
        f'height="{high}" viewBox="0 0 {wide} {high}" '
        'font-family="DejaVu Sans, Verdana, sans-serif">',
        f"<title>{_text(sheet.title or 'explained graph')}</title>",
    ]
    if sheet.about:
        out.append(f"<desc>{_text(sheet.about)}</desc>")
    if alone and sheet.dark:
        out.append(f"<style>{_dark()}</style>")
    out.append(f'<rect width="{wide}" height="{high}" {_style("paper")}/>')
    for part in sheet.parts:
        out += _part(part, sheet.size[1])
    for layer in sheet.texts:
        out += _texts(layer, _Place(sheet.size[1]))
    return "\n".join([*out, "</svg>"]) + "\n"


class _Place:
    """From the units of a part to pixels from the upper left corner."""

    def __init__(self, height: float, part: Part | None = None) -> None:
        self.scale, self.corner = np.array([INCH, -INCH]), np.array([0.0, INCH * height])
        if part is not None:
            (left, bottom, wide, high), (x, y, across, up) = part.box, part.limits
            units = np.array([wide / across, high / up])
            self.scale = self.scale * units
            self.corner = np.array([left, height - bottom]) * INCH - self.scale * (x, y)

    def __call__(self, at: Floats) -> Floats:
        return np.asarray(at * self.scale + self.corner, dtype=np.float64)

    def length(self, units: float) -> float:
        return float(units * self.scale[0])


def _part(part: Part, height: float) -> list[str]:
    place = _Place(height, part)
    out = [f'<g class="{_name(part.name)}">']
    left, bottom, wide, high = part.box
    lines = [*((line, "ink") for line in part.title), *((line, "note") for line in part.note)]
    for row, (line, colour) in enumerate(lines):
        # The last line ends where the picture begins.
        up = bottom + high + 0.06 + LINE * (len(lines) - 1 - row)
        out.append(
            f'<text x="{_number(INCH * (left + wide / 2))}" y="{_number(INCH * (height - up))}" '
            f'font-size="{_number(part.font * _POINT)}" text-anchor="middle" '
            f"{_style(colour)}>{_text(line)}</text>"
        )
    for layer in part.layers:
        if isinstance(layer, Inset):
            inner = layer.svg((round(INCH * wide), round(INCH * high)))
            x, y = _number(INCH * left), _number(INCH * (height - bottom - high))
            out.append(inner.replace("<svg ", f'<svg x="{x}" y="{y}" ', 1).strip())
            continue
        out += [f'<g class="{_name(layer.name)}">', *_layer(layer, place), "</g>"]
    return [*out, "</g>"]


def _layer(layer: Layer, place: _Place) -> Iterator[str]:
    if isinstance(layer, Texts):
        yield from _texts(layer, place)
    elif isinstance(layer, Strokes):
        yield from _strokes(layer, place)
    elif isinstance(layer, Areas):
        yield from _filled(layer, [f'path d="{_path(place(o))}Z"' for o in layer.outlines])
    elif isinstance(layer, Circles):
        sizes = each(layer.radius, len(layer.at))
        heads = [
            f'circle cx="{_number(x)}" cy="{_number(y)}" r="{_number(place.length(size))}"'
            for (x, y), size in zip(place(layer.at).tolist(), sizes, strict=True)
        ]
        yield from _filled(layer, heads)


def _strokes(layer: Strokes, place: _Place) -> Iterator[str]:
    end = ' stroke-linecap="round" stroke-linejoin="round"' if layer.round else ""
    count = len(layer.paths)
    values = (each(v, count) for v in (layer.colours, layer.opacity, layer.widths))
    dashes, tags = layer.dashes or [()] * count, layer.tags or [Tag()] * count
    for path, colour, opacity, width, dash, tag in zip(
        layer.paths, *values, dashes, tags, strict=True
    ):
        gaps = " ".join(_number(width * _POINT * length) for length in dash)
        cut = f' stroke-dasharray="{gaps}"' if dash else end
        style = _style(stroke=colour, opacity=opacity)
        head = f'path d="{_path(place(path))}" {style} stroke-width="{_number(width * _POINT)}"'
        yield _shape(f"{head}{cut}", tag)


def _filled(layer: Areas | Circles, heads: list[str]) -> Iterator[str]:
    """Write shapes that have an inside and may have a rim."""
    count = len(heads)
    values = (layer.colours, layer.opacity, layer.rims, layer.rim_widths)
    tags = layer.tags or [Tag()] * count
    for head, colour, opacity, rim, width, tag in zip(
        heads, *(each(v, count) for v in values), tags, strict=True
    ):
        style = _style(colour, opacity, rim)
        if rim != "none":
            style += f' stroke-width="{_number(width * _POINT)}"'
        yield _shape(f"{head} {style}", tag)


def _texts(layer: Texts, place: _Place) -> Iterator[str]:
    count = len(layer.words)
    sizes, colours = each(layer.size, count), each(layer.colours, count)
    rows = zip(place(layer.at).tolist(), layer.words, sizes, colours, strict=True)
    for i, ((x, y), word, size, colour) in enumerate(rows):
        if not word:
            continue
        more = f' transform="rotate({-layer.angle:g} {_number(x)} {_number(y)})"' * bool(
            layer.angle
        )
        if layer.fitted is not None:
            wide = _number(place.length(layer.fitted[i]))
            more += f' textLength="{wide}" lengthAdjust="spacingAndGlyphs"'
        yield (
            f'<text x="{_number(x)}" y="{_number(y)}" font-size="{_number(size * _POINT)}"'
            f' text-anchor="{layer.anchor}" {_style(colour)}{more}>{_text(word)}</text>'
        )


def _shape(head: str, tag: Tag) -> str:
    data = "".join(f' data-{name}="{_text(value)}"' for name, value in tag.data.items())
    if not tag.title:
        return f"<{head}{data}/>"
    return f"<{head}{data}><title>{_text(tag.title)}</title></{head.split(' ', 1)[0]}>"


def _path(points: Floats) -> str:
    out, fresh = [], True
    for x, y in points.tolist():
        if x != x:
            fresh = True
            continue
        out.append(f"{'M' if fresh else 'L'}{_number(x)} {_number(y)}")
        fresh = False
    return "".join(out)


def _style(
    fill: str = "none", fill_opacity: float = 1.0, stroke: str = "none", opacity: float = 1.0
) -> str:
    """Write the colours of a shape, and its classes, by which style sheets can replace them."""
    classes = [f"{kind}-{name}" for kind, name in (("f", fill), ("s", stroke)) if name in PALETTE]
    out = f'class="{" ".join(classes)}" ' if classes else ""
    out += f'fill="{light(fill)}"'
    if fill != "none" and fill_opacity < 1:
        out += f' fill-opacity="{_number(fill_opacity, 3)}"'
    if stroke != "none":
        out += f' stroke="{light(stroke)}"'
        if opacity < 1:
            out += f' stroke-opacity="{_number(opacity, 3)}"'
    return out


def _dark() -> str:
    rules = "".join(
        f".gsat .f-{name}{{fill:{shade.dark}}}.gsat .s-{name}{{stroke:{shade.dark}}}"
        for name, shade in PALETTE.items()
        if shade.dark != shade.light
    )
    return f"@media (prefers-color-scheme:dark){{{rules}}}"


def _name(text: str) -> str:
    return html.escape(text.replace(" ", "-"), quote=True)


def _text(text: str) -> str:
    """Escape a text; control characters, which XML can't hold, become a mark."""
    clean = "".join(c if c >= " " or c in "\t\n" else "�" for c in text)
    return html.escape("".join(c for c in clean if c not in "\ufffe\uffff"), quote=True)


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if value else "0"
