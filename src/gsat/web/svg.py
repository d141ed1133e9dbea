"""Pictures for the page: what the drawing library lays out, as SVG whose edges can be pointed at.

A browser gets plain elements with attributes (the page allows no styles of its own in them). Every
line carries ``data-edge``, the number of its (first) edge in the graph that was explained.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsat.draw.paint import (
    CHOSEN,
    FAINT_RIM,
    INK,
    MARKED,
    NODE,
    NODE_RIM,
    SHADED,
    TRUTH,
    TRUTH_HALO,
    TRUTH_RIM,
    edge_styles,
)
from gsat.draw.scene import Scene
from gsat.draw.sentence import Sentence

Floats = NDArray[np.float64]
UNIT: Final = 44.0  # pixels of an edge
SHARPEN: Final = 2.0
ZOOM: Final = 1.7  # of a formula, whose bonds are 26 pixels long
_INCH: Final = 96.0
_STYLE: Final = re.compile(r""" style=(?:'([^']*)'|"([^"]*)")""")


class EdgeName(NamedTuple):
    """What the page knows a line by.

    Attributes:
        number: The number of its first edge.
        text: What a pointer says about it.
    """

    number: int
    text: str


def scene_svg(
    picture: Scene, label: str, *, names: Sequence[EdgeName] = (), texts: Sequence[str] = ()
) -> str:
    """Draw a graph.

    Args:
        picture: The graph, laid out.
        label: What a screen reader says.
        names: What each line is known by, ``U`` names; without, lines can't be pointed at.
            (default: none)
        texts: What a pointer says about each node, ``N`` texts. (default: none)

    Returns:
        An ``<svg>`` element.
    """
    corner, size = picture.box
    high = size[1] * UNIT

    def at(points: Floats) -> Floats:
        moved = (points - corner) * UNIT
        return np.column_stack([moved[:, 0], high - moved[:, 1]])

    radius = picture.radius * UNIT
    thick = float(np.clip(0.6 * radius, 1.0, 6.5))
    rgba, width = edge_styles(picture, thick, SHARPEN)
    out = [_head(size[0] * UNIT, high, label, "graph")]
    if picture.directed:
        out.append(_ARROW)
    if picture.true.any() and picture.shade is None:  # on an image, rims show it
        wide = thick + 0.8 * radius
        lines = [_path(at(picture.lines[i])) for i in np.flatnonzero(picture.true)]
        out.append(
            f'<path class="truth" d="{"".join(lines)}" stroke="{TRUTH_HALO}" '
            f'stroke-width="{wide:.1f}" fill="none" stroke-linecap="round"/>'
        )
    for i in np.argsort(rgba[:, 3], kind="stable").tolist():
        points = at(picture.lines[i])
        if picture.directed:
            points = _cut(points, at(picture.at[picture.ends[i, 1]][None])[0], radius)
        out.append(_edge(i, _path(points), rgba[i], width[i], picture.directed, names))
    if picture.marked is not None:
        x, y = at(picture.at[[picture.marked]])[0]
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{1.6 * radius:.1f}" fill="{MARKED}"/>')
    out += _nodes(picture, at(picture.at) if len(picture.at) else picture.at, radius, texts)
    return "".join([*out, "</svg>"])


def sentence_svg(text: Sentence, label: str, names: Sequence[EdgeName] = ()) -> str:
    """Draw a sentence: words in rows, arcs above them.

    Args:
        text: The sentence, laid out.
        label: What a screen reader says.
        names: As in :func:`scene_svg`. (default: none)

    Returns:
        An ``<svg>`` element.
    """
    wide, high = text.size[0] * _INCH, text.size[1] * _INCH
    picture = text.scene
    out = [_head(wide, high, label, "sentence")]
    if len(picture.ends):
        rgba, width = edge_styles(picture, 3.0, SHARPEN)
        rgba[:, 3], width = np.maximum(rgba[:, 3], 0.16), np.maximum(width, 0.7)
        for i in np.argsort(rgba[:, 3], kind="stable").tolist():
            points = picture.lines[i] * _INCH
            pieces = np.split(points, np.flatnonzero(np.isnan(points[:, 0])))
            path = "".join(
                _path(np.column_stack([piece[:, 0], high - piece[:, 1]]))
                for piece in (part[~np.isnan(part[:, 0])] for part in pieces)
                if len(piece) > 1
            )
            out.append(_edge(i, path, rgba[i], width[i], False, names))
    weight = np.zeros(len(text.words)) if text.weight is None else text.weight**SHARPEN
    shade = np.array([int(SHADED[i : i + 2], 16) for i in (1, 3, 5)])
    for i, word in enumerate(text.words):
        (x, y), (box, tall) = picture.at[i] * _INCH, text.boxes[i] * _INCH
        red, green, blue = (255 + weight[i] * (shade - 255)).round().astype(int)
        rim = CHOSEN if picture.chosen_nodes[i] else TRUTH_RIM if picture.true_nodes[i] else "none"
        out.append(
            f'<rect x="{x - box / 2:.1f}" y="{high - y - tall / 2:.1f}" width="{box:.1f}" '
            f'height="{tall:.1f}" rx="3" fill="rgb({red},{green},{blue})" stroke="{rim}"/>'
            f'<text x="{x:.1f}" y="{high - y + 0.34 * text.font * 4 / 3:.1f}" '
            f'font-size="{text.font * 4 / 3:.1f}" text-anchor="middle" fill="{INK}">'
            f"{escape(word)}</text>"
        )
    return "".join([*out, "</svg>"])


def formula_with_links(
    svg: str, label: str, bonds: Mapping[int, EdgeName], true: Sequence[int] = ()
) -> str:
    """Make RDKit's drawing of a molecule fit for the page.

    Args:
        svg: RDKit's drawing, whose elements have classes such as ``bond-3``.
        label: What a screen reader says.
        bonds: What each bond that has a score is known by.
        true: Bonds of the ground truth, which get a halo below everything else. (default: none)

    Returns:
        An ``<svg>`` element.
    """
    opening = svg.index(">") + 1
    size = re.search(r"viewBox='0 0 (\d+) (\d+)'", svg[:opening])
    wide, high = (float(size[1]), float(size[2])) if size else (300.0, 300.0)
    body = svg[opening : svg.rindex("</svg>")]
    ends: dict[int, tuple[str, ...]] = {}
    parts = []
    for element in re.findall(r"<(?:path|ellipse|text|rect)\b.*?(?:/>|</text>)", body, re.DOTALL):
        found = re.search(r"bond-(\d+)", element)
        bond = int(found[1]) if found else None
        if bond is not None and bond not in ends:
            numbers = re.findall(r"-?\d+\.?\d*", re.search(r" d='([^']*)'", element)[1])  # type: ignore[index]
            highlight = "fill:none" not in element
            if len(numbers) >= 4 and not highlight:
                ends[bond] = tuple(numbers[:2] + numbers[-2:])
        element = _STYLE.sub(lambda style: _attributes(style[1] or style[2]), element)
        element = re.sub(r" class='[^']*'", "", element)
        if bond is not None and bond in bonds:
            element = element.replace("<path", f'<path data-edge="{bonds[bond].number}"', 1)
        parts.append(element)
    halo = "".join(
        f'<path d="M{a},{b}L{c},{d}" stroke="{TRUTH}" stroke-width="17" stroke-linecap="round" '
        'opacity="0.55"/>'
        for bond in true
        if bond in ends
        for a, b, c, d in [ends[bond]]
    )
    areas = "".join(
        f'<path class="area" data-edge="{name.number}" d="M{a},{b}L{c},{d}" stroke="#000" '
        f'stroke-opacity="0" stroke-width="14"><title>{escape(name.text)}</title></path>'
        for bond, name in bonds.items()
        if bond in ends
        for a, b, c, d in [ends[bond]]
    )
    head = _head(wide, high, label, "molecule", zoom=ZOOM)
    return f"{head}{halo}{''.join(parts)}{areas}</svg>"


def without_styles(svg: str) -> str:
    """Write the styles of an SVG as attributes, which the page allows.

    Args:
        svg: An ``<svg>`` element.
    """
    return _STYLE.sub(lambda style: _attributes(style[1] or style[2]), svg)


def _attributes(style: str) -> str:
    out = ""
    for part in style.split(";"):
        name, _, value = part.partition(":")
        if value.strip():
            out += f' {name.strip()}="{escape(value.strip().removesuffix("px"))}"'
    return out


# The head of an arrow takes the colour of its line.
_ARROW: Final = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
    '<path d="M0 0 8 4 0 8z" fill="context-stroke"/></marker></defs>'
)


def _head(wide: float, high: float, label: str, kind: str, zoom: float = 1.0) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" width="{zoom * wide:.0f}" '
        f'height="{zoom * high:.0f}" viewBox="0 0 {wide:.1f} {high:.1f}" role="img" '
        f'font-family="system-ui, sans-serif" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>"
    )


def _edge(
    line: int, path: str, rgba: Any, width: float, directed: bool, names: Sequence[EdgeName]
) -> str:
    red, green, blue = (255 * rgba[:3]).round().astype(int)
    head = ' marker-end="url(#arrow)"' if directed else ""
    drawn = (
        f'<path d="{path}" fill="none" stroke="rgb({red},{green},{blue})" '
        f'stroke-opacity="{rgba[3]:.3f}" stroke-width="{width:.2f}" stroke-linecap="round"{head}/>'
    )
    if not names:
        return drawn
    name = names[line]
    return (
        f'<g data-edge="{name.number}"><title>{escape(name.text)}</title>{drawn}'
        f'<path class="area" d="{path}" fill="none" stroke="#000" stroke-opacity="0" '
        f'stroke-width="{max(width, 11):.0f}"/></g>'
    )


def _nodes(picture: Scene, at: Floats, radius: float, texts: Sequence[str]) -> list[str]:
    out = []
    for i, (x, y) in enumerate(at.tolist()):
        true, chosen = picture.true_nodes[i], picture.chosen_nodes[i]
        rim = TRUTH_RIM if true else NODE_RIM
        if picture.chosen is not None and not true:
            rim = CHOSEN if chosen else FAINT_RIM
        face = TRUTH if true else NODE
        if picture.shade is not None:
            grey = round(255 * (1 - 0.85 * float(picture.shade[i])))
            face = f"rgb({grey},{grey},{grey})"
        circle = (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{face}" stroke="{rim}" '
            f'stroke-width="{1.8 if chosen or true else 1.1}"'
        )
        circle += f"><title>{escape(texts[i])}</title></circle>" if texts else "/>"
        label = picture.labels[i]
        font = radius * {1: 1.15, 2: 0.95}.get(len(label), 0.7)
        if label and font >= 4:
            circle += (
                f'<text x="{x:.1f}" y="{y + 0.36 * font:.1f}" font-size="{font:.1f}" '
                f'text-anchor="middle" fill="{INK}" pointer-events="none">{escape(label)}</text>'
            )
        out.append(circle)
    return out


def _path(points: Floats) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points.tolist())


def _cut(points: Floats, centre: Floats, radius: float) -> Floats:
    """End a line where its target's circle begins."""
    steps = np.linspace(0, len(points) - 1, max(60, len(points)))
    dense = np.column_stack(
        [np.interp(steps, np.arange(len(points)), points[:, k]) for k in (0, 1)]
    )
    outside = np.flatnonzero(np.linalg.norm(dense - centre, axis=1) >= radius + 1.5)
    end = int(outside[-1]) + 1 if len(outside) else len(dense)
    kept = dense[:end]
    return kept[[0, -1]] if len(points) == 2 and len(kept) > 1 else kept
