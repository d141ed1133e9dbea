"""Sheets as SVG: words stay words, shapes have titles and ``data-`` attributes.

Colours are presentation attributes, so a style sheet of a page can replace them by class; a file on
its own follows the reader's choice of light or dark. Nothing has an id: several pictures can stand
in one page.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

import numpy as np

from gsat.draw.molecule import formula_svg
from gsat.draw.palette import PALETTE, light
from gsat.draw.sheet import (
    LINE,
    Areas,
    Boxes,
    Circles,
    Floats,
    Layer,
    Molecule,
    Part,
    Sheet,
    Strokes,
    Tag,
    Texts,
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
    for layer, angle in sheet.texts:
        out += _texts(layer, _Place(sheet.size[1]), angle)
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
        if isinstance(layer, Molecule):
            size = (round(INCH * wide), round(INCH * high))
            inner = formula_svg(
                layer.formula, layer.scale, size, compact=True, classes=True, **layer.options
            )
            x, y = _number(INCH * left), _number(INCH * (height - bottom - high))
            out.append(inner.replace("<svg ", f'<svg x="{x}" y="{y}" ', 1).strip())
            continue
        out += [f'<g class="{_name(layer.name)}">', *_layer(layer, place), "</g>"]
    return [*out, "</g>"]


def _layer(layer: Layer, place: _Place) -> list[str]:
    if isinstance(layer, Strokes):
        return _strokes(layer, place)
    if isinstance(layer, Areas):
        return [
            _shape(f'path d="{_path(place(outline))}Z" {_style(colour, opacity)}', tag)
            for outline, colour, opacity, tag in zip(
                layer.outlines,
                layer.colours,
                layer.opacity.tolist(),
                _tags(layer.tags, len(layer.outlines)),
                strict=True,
            )
        ]
    if isinstance(layer, Texts):
        return _texts(layer, place)
    assert not isinstance(layer, Molecule)
    return _closed(layer, place)


def _strokes(layer: Strokes, place: _Place) -> list[str]:
    end = ' stroke-linecap="round" stroke-linejoin="round"' if layer.round else ""
    dashes = layer.dashes or [()] * len(layer.paths)
    out = []
    for path, colour, opacity, width, dash, tag in zip(
        layer.paths,
        layer.colours,
        layer.opacity.tolist(),
        layer.widths.tolist(),
        dashes,
        _tags(layer.tags, len(layer.paths)),
        strict=True,
    ):
        gaps = " ".join(_number(width * _POINT * length) for length in dash)
        cut = f' stroke-dasharray="{gaps}"' if dash else ""
        out.append(
            _shape(
                f'path d="{_path(place(path))}" {_style(stroke=colour, opacity=opacity)} '
                f'stroke-width="{_number(width * _POINT)}"{cut}{"" if dash else end}',
                tag,
            )
        )
    return out


def _closed(layer: Circles | Boxes, place: _Place) -> list[str]:
    out = []
    at = place(layer.at)
    tags = _tags(layer.tags, len(at))
    for i, (x, y) in enumerate(at.tolist()):
        rim = layer.rims[i]
        style = _style(layer.colours[i], float(layer.opacity[i]), rim)
        if rim != "none":
            style += f' stroke-width="{_number(layer.rim_widths[i] * _POINT)}"'
        if isinstance(layer, Circles):
            radius = _number(place.length(layer.radius[i]))
            head = f'circle cx="{_number(x)}" cy="{_number(y)}" r="{radius}"'
        else:
            wide, high = (place.length(length) for length in layer.size[i])
            head = (
                f'rect x="{_number(x - wide / 2)}" y="{_number(y - high / 2)}" '
                f'width="{_number(wide)}" height="{_number(high)}" '
                f'rx="{_number(place.length(layer.corner))}"'
            )
        out.append(_shape(f"{head} {style}", tags[i]))
    return out


def _texts(layer: Texts, place: _Place, angle: float = 0.0) -> list[str]:
    out = []
    for i, ((x, y), word) in enumerate(zip(place(layer.at).tolist(), layer.words, strict=True)):
        if not word:
            continue
        turned = f' transform="rotate({-angle:g} {_number(x)} {_number(y)})"' if angle else ""
        if layer.fitted is not None:
            wide = _number(place.length(layer.fitted[i]))
            turned += f' textLength="{wide}" lengthAdjust="spacingAndGlyphs"'
        out.append(
            f'<text x="{_number(x)}" y="{_number(y)}" font-size="{_number(layer.size[i] * _POINT)}"'
            f' text-anchor="{layer.anchor}" {_style(layer.colours[i])}{turned}>{_text(word)}</text>'
        )
    return out


def _shape(head: str, tag: Tag) -> str:
    data = "".join(f' data-{name}="{_text(value)}"' for name, value in tag.data.items())
    if not tag.title:
        return f"<{head}{data}/>"
    return f"<{head}{data}><title>{_text(tag.title)}</title></{head.split(' ', 1)[0]}>"


def _tags(tags: Sequence[Tag], count: int) -> Sequence[Tag]:
    return tags or [Tag()] * count


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
