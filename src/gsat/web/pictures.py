"""Pictures of explanations for the pages: graphs, molecules, sentences and images."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import numpy as np
from markupsafe import Markup

from gsat.draw.explanations import describe
from gsat.draw.molecule import MoleculePicture, formula
from gsat.draw.options import DrawingOptions
from gsat.draw.pictures import cropped, picture_of
from gsat.draw.sentence import Sentence
from gsat.draw.shapes import Sheet
from gsat.draw.superpixels import ImagePicture
from gsat.draw.svg import sheet_svg
from gsat.explanation import Explanation, RankedEdge
from gsat.web.library import LoadedRun

LARGE: Final = 150  # nodes; larger graphs are cropped to the explanation and its neighbours
THUMBNAIL: Final = (2.6, 1.8)  # inches
_KINDS: Final = {MoleculePicture: "molecule", Sentence: "sentence", ImagePicture: "image"}


@dataclass(frozen=True)
class Picture:
    """A picture with the values of its legend."""

    svg: Markup
    kind: str  # graph, molecule, sentence or image
    low: float  # score at the lower end of the scale
    high: float
    cropped: int | None  # number of edges in the picture, if some are left out
    edges: int


def draw_picture(
    loaded: LoadedRun,
    key: tuple[Any, ...],
    explanation: Explanation,
    *,
    top: int | None = None,
    truth: bool = True,
    small: bool = False,
) -> Picture:
    """Draw an explanation; layouts are cached under the key."""
    large = int(explanation.num_nodes or 0) > LARGE
    options = DrawingOptions(top=top, truth=truth, crop=large)
    whole = explanation.num_units
    explanation, options, left_out = cropped(explanation, options)
    width, drawn = 4.6 if small else 7.6, []

    def places() -> Any:
        drawn.append(picture_of(explanation, options, width=width))
        scene = drawn[0].scene
        return None if scene is None else scene.at

    # A layout takes longer than the rest of the picture.
    name = ("layout", *key, options.top if left_out else None)
    at = loaded.cached(name, places, 16 * int(explanation.num_nodes or 0) + 200)
    picture = drawn[0] if drawn else picture_of(explanation, options, width=width, at=at)
    kind = _KINDS.get(type(picture), "graph")
    scores = explanation.edge_mask
    low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.0, 0.0)
    if isinstance(picture, MoleculePicture):
        low, high = picture.scale.low, picture.scale.high
    size = THUMBNAIL if small and kind == "molecule" else picture.size
    label = explanation.caption() or "explained graph"
    about = "" if small else describe(explanation)
    sheet = Sheet(size, [picture.part((0.0, 0.0, *size))], title=label, about=about)
    svg = without_styles(sheet_svg(sheet, alone=False))
    svg = svg.replace('class="gsat"', f'class="gsat {kind}" aria-label="{escape(label)}"', 1)
    svg = svg if small or kind == "image" else _with_areas(svg)
    return Picture(Markup(svg), kind, low, high, explanation.num_units if left_out else None, whole)


_EDGE: Final = re.compile(
    r'<path d="([^"]*)"[^>]* data-edge="(\d+)"[^>]*?(?:/>|>(<title>[^<]*</title>)?</path>)'
)


def _with_areas(svg: str) -> str:
    """Add a wide transparent line over each edge, so that the pointer finds it."""
    areas = "".join(
        f'<path class="area" data-edge="{number}" d="{path}" fill="none" stroke="#000" '
        f'stroke-opacity="0" stroke-width="11">{title}</path>'
        for path, number, title in _EDGE.findall(svg)
    )
    place = svg.find('<g class="nodes"')
    place = svg.rindex("</svg>") if place < 0 else place
    return f'{svg[:place]}<g class="areas">{areas}</g>{svg[place:]}'


_STYLE: Final = re.compile(r""" style=(?:'([^']*)'|"([^"]*)")""")


def without_styles(svg: str) -> str:
    """Write styles of an SVG as attributes: the security policy forbids inline styles."""
    return _STYLE.sub(lambda style: _attributes(style[1] or style[2]), svg)


def _attributes(style: str) -> str:
    out = ""
    for part in style.split(";"):
        name, _, value = part.partition(":")
        if value.strip():
            out += f' {name.strip()}="{escape(value.strip().removesuffix("px"))}"'
    return out


def node_names(explanation: Explanation) -> list[str]:
    """Name the nodes; atoms by element and number."""
    names, drawn = explanation.node_names(), formula(explanation)
    if drawn is None:
        return names
    symbols = {
        number: drawn.molecule.GetAtomWithIdx(i).GetSymbol()
        for i, number in enumerate(drawn.numbers)
    }
    return [f"{symbols.get(int(name), 'H')}{name}" for name in names]


def edge_numbers(explanation: Explanation) -> list[int]:
    """Return the number of the first edge of each unit, in the original graph."""
    first = np.unique(explanation.units()[0].numpy(), return_index=True)[1]
    edge_id = explanation.get("edge_id")
    return (first if edge_id is None else edge_id.numpy()[first]).tolist()


def ranked_edges(explanation: Explanation) -> list[tuple[RankedEdge, int, str, str]]:
    """List the edges by descending score, with their numbers and the names of their nodes."""
    names, numbers = node_names(explanation), edge_numbers(explanation)
    return [
        (edge, numbers[edge.unit], names[edge.source], names[edge.target])
        for edge in explanation.ranked_edges()
    ]


def unit_spreads(explanation: Explanation) -> list[float] | None:
    """Return the uncertainty of each unit's score; None for a single model."""
    spread = explanation.get("edge_spread")
    if spread is None:
        return None
    out = np.zeros(explanation.num_units)
    np.maximum.at(out, explanation.units()[0].numpy(), spread.numpy())
    return out.tolist()
