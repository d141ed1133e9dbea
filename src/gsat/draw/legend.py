"""The legend of a picture: what lines and colours mean, with numbers, in rows at its foot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from gsat.draw.scales import DASHES, SPREADS, THICK, line_opacity, line_widths, scale_colours
from gsat.draw.shapes import Areas, Circles, Floats, Layer, Part, Strokes, Texts, text_width

Kind = Literal[
    "scale", "chosen", "other", "truth", "node", "heat", "formula", "dashes", "image", "outline"
]
# Inches.
ROW: Final = 0.24
_GAP: Final = 0.24  # between entries
_NEAR: Final = 0.07  # between a sample and its words
_STEPS: Final = 5  # samples of a scale
_FONT: Final = 8.5
_SAMPLES: Final = {"scale": 0.9, "heat": 0.9, "formula": 0.9, "node": 0.14, "dashes": 0.42}


@dataclass(frozen=True)
class Entry:
    """A sample with the words before and after it."""

    kind: Kind
    before: str = ""
    after: str = ""
    full: float = 1.0  # opacity of the strongest mark
    sharpen: float = 1.0  # contrast of a scale of lines
    level: int = 0  # of dashes

    @property
    def sample(self) -> float:
        """Width of the sample in inches."""
        return _SAMPLES.get(self.kind, 0.3)

    @property
    def width(self) -> float:
        """Width of the entry in inches."""
        return self.sample + sum(
            text_width(text, _FONT) + _NEAR for text in (self.before, self.after) if text
        )


def spread_entries() -> list[Entry]:
    """Return what dashes mean."""
    low, high = SPREADS
    texts = (f"uncertain by < {low:g}", f"{low:g} to {high:g}", f"> {high:g}")
    return [Entry("dashes", after=text, level=level) for level, text in enumerate(texts)]


def legend_rows(entries: Sequence[Entry], width: float) -> list[list[Entry]]:
    """Break entries into rows that are not wider than ``width`` inches, without duplicates."""
    rows: list[list[Entry]] = []
    used = 0.0
    for entry in dict.fromkeys(entries):
        if rows and used + _GAP + entry.width <= width:
            rows[-1].append(entry)
            used += _GAP + entry.width
        else:
            rows.append([entry])
            used = entry.width
    return rows


def legend_height(entries: Sequence[Entry], width: float) -> float:
    """Return the height of the legend in inches, with a margin."""
    return ROW * len(legend_rows(entries, width - 0.2)) + 0.1


def legend_part(entries: Sequence[Entry], width: float) -> list[Part]:
    """Make the legend of a sheet that is ``width`` inches wide; none without entries."""
    rows = legend_rows(entries, width - 0.2)
    if not rows:
        return []
    high = legend_height(entries, width)
    layers: list[Layer] = []
    for place, row in enumerate(rows):
        y = high - ROW * (place + 0.5)
        x = (width - sum(e.width for e in row) - _GAP * (len(row) - 1)) / 2
        for entry in row:
            start = x
            if entry.before:
                layers.append(_words(entry.before, x, y))
                x += text_width(entry.before, _FONT) + _NEAR
            layers.append(_sample(entry, x, y))
            if entry.after:
                layers.append(_words(entry.after, x + entry.sample + _NEAR, y))
            x = start + entry.width + _GAP
    box = (0.0, 0.0, width, high)
    return [Part("legend", box, box, layers)]


def _words(text: str, x: float, y: float) -> Texts:
    return Texts("words", np.array([[x, y - 0.35 * _FONT / 72]]), [text], _FONT, anchor="start")


def _sample(entry: Entry, x: float, y: float) -> Layer:
    right, full = x + entry.sample, entry.full
    if entry.kind == "heat":
        return Areas("sample", _boxes(x, right, y, 24), "heat", full * np.linspace(0, 1, 24))
    if entry.kind == "formula":
        return Areas("sample", _boxes(x, right, y, 24), scale_colours(24), full)
    if entry.kind == "image":
        return Areas("sample", _boxes(x, right, y, 4), "ink", full * np.linspace(0, 0.75, 4))
    if entry.kind == "node":
        return Circles("sample", np.array([[x + 0.07, y]]), 0.06, "marked")
    if entry.kind == "scale":
        share = np.linspace(0, 1, _STEPS) ** entry.sharpen
        step, gap = entry.sample / _STEPS, 0.05
        paths = [_line(x + i * step, x + (i + 1) * step - gap, y) for i in range(_STEPS)]
        opacities, widths = full * line_opacity(share), line_widths(share, THICK)
        return Strokes("sample", paths, "ink", opacities, widths, round=False)
    colour, opacity, width, dash = {
        "chosen": ("chosen", 1.0, THICK, ()),
        "other": ("ink", 0.25, 1.0, ()),
        "truth": ("halo", 1.0, 8.0, ()),
        "outline": ("truth", 1.0, 1.6, ()),
        "dashes": ("ink", 0.85, 2.2, DASHES[entry.level]),
    }[entry.kind]
    inset = 0.04 if entry.kind == "truth" else 0.0
    dashes, path = [dash] if dash else (), _line(x + inset, right - inset, y)
    return Strokes("sample", [path], colour, opacity, width, dashes, round=not dash)


def _line(left: float, right: float, y: float) -> Floats:
    return np.array([[left, y], [right, y]])


def _boxes(left: float, right: float, y: float, count: int) -> list[Floats]:
    """Cut a bar into boxes."""
    wide, low, high = (right - left) / count, y - 0.05, y + 0.05
    starts = [left + i * wide for i in range(count)]
    return [np.array([[x, low], [x + wide, low], [x + wide, high], [x, high]]) for x in starts]
