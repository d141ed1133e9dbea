"""A picture as a list of shapes, which :mod:`svg` writes and :mod:`matplotlib_figure` draws.

A sheet has parts, a part has layers, a layer has shapes of one kind. Lengths of sheets and boxes
are in inches, widths of lines and sizes of letters in points, places in the units of the part.
Colours are names of :data:`gsat.draw.palette.PALETTE`, or written out (``"#FFBF63"``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gsat.draw.molecule import ColourScale, Formula

Floats = NDArray[np.float64]
Anchor = Literal["start", "middle", "end"]
LINE: Final = 0.19  # height of a line of a title


class Tag(NamedTuple):
    """What a page knows a shape by.

    Attributes:
        title: What is shown when the pointer rests on it.
        data: Values of ``data-…`` attributes, by the rest of their names.
    """

    title: str = ""
    data: Mapping[str, str] = {}


@dataclass(frozen=True)
class Strokes:
    """Lines: ``n`` paths ``[k, 2]``, cut where a row is NaN.

    Attributes:
        name: Name of the layer.
        paths: The paths.
        colours: A colour for each.
        opacity: From 0 to 1, ``[n]``.
        widths: In points, ``[n]``.
        dashes: Lengths of dash and gap in widths, for each; empty for a solid line.
        round: Whether ends are round.
        tags: One for each, or none at all.
    """

    name: str
    paths: Sequence[Floats]
    colours: Sequence[str]
    opacity: Floats
    widths: Floats
    dashes: Sequence[tuple[float, ...]] = ()
    round: bool = True
    tags: Sequence[Tag] = ()


@dataclass(frozen=True)
class Areas:
    """Filled polygons: ``n`` outlines ``[k, 2]``; fields as in :class:`Strokes`."""

    name: str
    outlines: Sequence[Floats]
    colours: Sequence[str]
    opacity: Floats
    tags: Sequence[Tag] = ()


@dataclass(frozen=True)
class Circles:
    """Circles; fields as in :class:`Strokes`.

    Attributes:
        at: Middles, ``[n, 2]``.
        radius: ``[n]``.
        rims: A colour for each rim; ``"none"`` for none.
        rim_widths: In points, ``[n]``.
    """

    name: str
    at: Floats
    radius: Floats
    colours: Sequence[str]
    opacity: Floats
    rims: Sequence[str]
    rim_widths: Floats
    tags: Sequence[Tag] = ()


@dataclass(frozen=True)
class Boxes:
    """Boxes with round corners; fields as in :class:`Circles`.

    Attributes:
        size: Widths and heights, ``[n, 2]``.
        corner: Radius of the corners.
    """

    name: str
    at: Floats
    size: Floats
    corner: float
    colours: Sequence[str]
    opacity: Floats
    rims: Sequence[str]
    rim_widths: Floats
    tags: Sequence[Tag] = ()


@dataclass(frozen=True)
class Texts:
    """Words; fields as in :class:`Strokes`.

    Attributes:
        at: Where their baselines begin, have their middle or end, ``[n, 2]``.
        words: What is written.
        size: In points, ``[n]``.
        anchor: Which of the three.
        fitted: Widths that the words must keep in whichever font there is, ``[n]``, in the units of
            the part; None where that makes no difference.
    """

    name: str
    at: Floats
    words: Sequence[str]
    size: Floats
    colours: Sequence[str]
    anchor: Anchor = "middle"
    fitted: Floats | None = None


@dataclass(frozen=True)
class Molecule:
    """A structural formula, as large as its part; fields as in :class:`Strokes`.

    Attributes:
        formula: The formula.
        scale: Colours of its scores.
        options: Those of :func:`gsat.draw.molecule.formula_svg`.
    """

    name: str
    formula: Formula
    scale: ColourScale
    options: Mapping[str, Any]


Layer = Strokes | Areas | Circles | Boxes | Texts | Molecule


@dataclass(frozen=True)
class Part:
    """A rectangle of a sheet with layers, the first at the bottom.

    Attributes:
        name: Its name.
        box: Left, bottom, width and height in inches, from the lower left corner of the sheet.
        limits: Left, bottom, width and height of it in units of its own.
        layers: What is drawn in it.
        title: Lines of text over it.
        note: Lines of text under these, in a colour of their own.
        font: Size of the title in points.
    """

    name: str
    box: tuple[float, float, float, float]
    limits: tuple[float, float, float, float]
    layers: Sequence[Layer]
    title: Sequence[str] = ()
    note: Sequence[str] = ()
    font: float = 9.5


@dataclass(frozen=True)
class Sheet:
    """A whole picture.

    Attributes:
        size: Width and height in inches.
        parts: Its parts.
        texts: Words beside the parts, in inches from the lower left corner; the second of each pair
            is the angle by which it is turned.
        title: What it shows, in a few words.
        about: The same at length, for readers who can't see it.
    """

    size: tuple[float, float]
    parts: Sequence[Part]
    texts: Sequence[tuple[Texts, float]] = ()
    title: str = ""
    about: str = ""

    @property
    def dark(self) -> bool:
        """Whether it may be shown on dark paper; formulae have colours of their own."""
        return not any(isinstance(layer, Molecule) for part in self.parts for layer in part.layers)


@lru_cache(maxsize=1 << 14)
def text_width(text: str, font: float) -> float:
    """Measure a text in inches, as matplotlib's own font writes it."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    wide, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=font), False)
    return float(wide) / 72
