"""A picture as a list of shapes, which :mod:`svg` writes and :mod:`figure` draws.

A sheet has parts, a part has layers, a layer has shapes of one kind. Sheets and boxes are measured
in inches, lines and letters in points, positions in the units of the part. A colour is a name of
:data:`PALETTE` or hexadecimal. A single colour, opacity, size or width holds for all shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Colours = str | Sequence[str]
Sizes = float | Floats
LINE: Final = 0.19  # height of a line of a title


class Shade(NamedTuple):
    """A colour on light and on dark paper."""

    light: str
    dark: str


# Colour-blind readers and black-and-white prints can tell them apart: their lightness differs.
PALETTE: Final = {
    "paper": Shade("#FFFFFF", "#15191E"),
    "ink": Shade("#1B2530", "#E6EAEE"),
    "soft": Shade("#55606C", "#A7B1BC"),
    "chosen": Shade("#0067A5", "#5CB3EC"),
    "halo": Shade("#FAD4E4", "#5C2440"),
    "truth": Shade("#A02763", "#F284B4"),
    "node": Shade("#FFFFFF", "#15191E"),
    "rim": Shade("#6B7785", "#8D98A4"),
    "faint": Shade("#B4BCC5", "#4A545F"),
    "marked": Shade("#E8A200", "#E8A200"),
    "heat": Shade("#EC791B", "#F58A2E"),
    "note": Shade("#8A4B00", "#F0B860"),
}


def light(colour: str) -> str:
    """Return a colour of the palette as it is on light paper, and any other colour unchanged."""
    return PALETTE[colour].light if colour in PALETTE else colour


INK: Final = light("ink")


class Tag(NamedTuple):
    """Tooltip and ``data-`` attributes of a shape in an SVG."""

    title: str = ""
    data: Mapping[str, str] = {}


@dataclass(frozen=True)
class Strokes:
    """Lines."""

    name: str
    paths: Sequence[Floats]  # [k, 2] each, interrupted where a row is NaN
    colours: Colours
    opacity: Sizes = 1.0
    widths: Sizes = 1.0
    dashes: Sequence[tuple[float, ...]] = ()  # lengths of dash and gap in line widths
    round: bool = True  # ends of lines
    tags: Sequence[Tag] = ()


@dataclass(frozen=True)
class Areas:
    """Filled polygons, with or without rims."""

    name: str
    outlines: Sequence[Floats]  # [k, 2] each
    colours: Colours
    opacity: Sizes = 1.0
    rims: Colours = "none"
    rim_widths: Sizes = 0.0
    tags: Sequence[Tag] = ()


@dataclass(frozen=True)
class Circles:
    """Circles with or without rims."""

    name: str
    at: Floats  # centres [n, 2]
    radius: Sizes
    colours: Colours
    opacity: Sizes = 1.0
    rims: Colours = "none"
    rim_widths: Sizes = 0.0
    tags: Sequence[Tag] = ()


@dataclass(frozen=True)
class Texts:
    """Words."""

    name: str
    at: Floats  # ends or middles of their baselines [n, 2]
    words: Sequence[str]
    size: Sizes
    colours: Colours = "ink"
    anchor: Literal["start", "middle", "end"] = "middle"
    fitted: Floats | None = None  # widths [n] to keep in any font
    angle: float = 0.0


@dataclass(frozen=True)
class Inset:
    """A picture by another library that fills its part."""

    name: str
    svg: Callable[[tuple[int, int]], str]  # from a size in pixels
    png: Callable[[tuple[int, int], float], bytes]  # from a size in pixels, and the zoom in it


Layer = Strokes | Areas | Circles | Texts | Inset


@dataclass(frozen=True)
class Part:
    """A rectangle of a sheet with layers, the first at the bottom."""

    name: str
    box: tuple[float, float, float, float]  # left, bottom, width, height on the sheet
    limits: tuple[float, float, float, float]  # the same in the units of the part
    layers: Sequence[Layer]
    title: Sequence[str] = ()  # lines above it
    note: Sequence[str] = ()  # lines below the title, in another colour
    font: float = 9.5  # of the title


@dataclass(frozen=True)
class Sheet:
    """A whole picture."""

    size: tuple[float, float]
    parts: Sequence[Part]
    texts: Sequence[Texts] = ()  # beside the parts, in inches
    title: str = ""
    about: str = ""  # a description for readers who can't see it

    @property
    def dark(self) -> bool:
        """Whether it may be shown on dark paper; pictures by other libraries may not."""
        return not any(isinstance(layer, Inset) for part in self.parts for layer in part.layers)


def each(value: Any, count: int) -> list[Any]:
    """List the values of shapes; a single one is repeated."""
    if isinstance(value, str | float | int):
        return [value] * count
    return value.tolist() if isinstance(value, np.ndarray) else list(value)


@lru_cache(maxsize=1 << 14)
def text_width(text: str, font: float) -> float:
    """Measure a text in inches, as matplotlib's own font writes it."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    wide, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=font), False)
    return float(wide) / 72
