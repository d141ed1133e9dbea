"""The legend of a picture: what lines and colours mean, with numbers, in rows at its foot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from gsat.draw.marks import DASHES, SPREADS, THICK, line_opacity, line_widths
from gsat.draw.molecule import hexadecimal, mixed
from gsat.draw.sheet import Areas, Circles, Floats, Layer, Part, Strokes, Texts, text_width

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
    """A sample with the words before and after it.

    Attributes:
        kind: What is drawn.
        before: Words at its left.
        after: Words at its right.
        options: Of a scale of lines ``sharpen`` and ``fade``, of colours ``full``, of dashes
            ``level``.
    """

    kind: Kind
    before: str = ""
    after: str = ""
    options: tuple[tuple[str, float], ...] = ()

    @property
    def sample(self) -> float:
        """Width of the sample in inches."""
        return _SAMPLES.get(self.kind, 0.3)

    @property
    def width(self) -> float:
        """Width of the whole in inches."""
        return self.sample + sum(
            text_width(text, _FONT) + _NEAR for text in (self.before, self.after) if text
        )


def legend_rows(entries: Sequence[Entry], width: float) -> list[list[Entry]]:
    """Break entries into rows that are not wider than ``width`` inches; equal ones are one."""
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
            layers += _drawn(entry, x, y)
            x += entry.width + _GAP
    box = (0.0, 0.0, width, high)
    return [Part("legend", box, box, layers)]


def _drawn(entry: Entry, x: float, y: float) -> list[Layer]:
    """Draw one entry from its left end and the middle of its row."""
    out: list[Layer] = []

    def write(text: str) -> None:
        nonlocal x
        at = np.array([[x, y - 0.35 * _FONT / 72]])
        out.append(Texts("words", at, [text], np.array([_FONT]), ["ink"], "start"))
        x += text_width(text, _FONT) + _NEAR

    if entry.before:
        write(entry.before)
    out.append(_sample(entry, x, y))
    x += entry.sample + _NEAR
    if entry.after:
        write(entry.after)
    return out


def _sample(entry: Entry, x: float, y: float) -> Layer:
    left, right = x, x + entry.sample
    options: dict[str, Any] = dict(entry.options)
    if entry.kind in ("heat", "formula"):
        share = np.linspace(0, 1, 24)
        wide = entry.sample / len(share)
        boxes = [_box(left + i * wide, y - 0.05, wide, 0.1) for i in range(len(share))]
        if entry.kind == "heat":
            return Areas("sample", boxes, ["heat"] * len(share), options["full"] * share)
        colours = [hexadecimal(mixed(part)) for part in share.tolist()]
        return Areas("sample", boxes, colours, np.full(len(share), options["full"]))
    if entry.kind == "image":
        shades = np.array([0.0, 0.25, 0.5, 0.75]) * options["full"]
        wide = entry.sample / 4
        boxes = [_box(left + i * wide, y - 0.05, wide, 0.1) for i in range(4)]
        return Areas("sample", boxes, ["ink"] * 4, shades)
    if entry.kind == "node":
        middle, radius = np.array([[x + 0.07, y]]), np.array([0.06])
        return Circles("sample", middle, radius, ["marked"], np.ones(1), ["none"], np.zeros(1))
    if entry.kind == "scale":
        share = np.linspace(0, 1, _STEPS) ** options["sharpen"]
        step, gap = entry.sample / _STEPS, 0.05
        paths = [_line(left + i * step, left + (i + 1) * step - gap, y) for i in range(_STEPS)]
        return Strokes(
            "sample",
            paths,
            ["ink"] * _STEPS,
            options.get("fade", 1.0) * line_opacity(share),
            line_widths(share, THICK),
            round=False,
        )
    colour, opacity, width, dash = {
        "chosen": ("chosen", 1.0, THICK, ()),
        "other": ("ink", 0.25, 1.0, ()),
        "truth": ("halo", 1.0, 8.0, ()),
        "outline": ("truth", 1.0, 1.6, ()),
        "dashes": ("ink", 0.85, 2.2, DASHES[int(options.get("level", 0))]),
    }[entry.kind]
    inset = 0.04 if entry.kind == "truth" else 0.0
    return Strokes(
        "sample",
        [_line(left + inset, right - inset, y)],
        [colour],
        np.array([opacity]),
        np.array([width]),
        dashes=[dash] if dash else (),
        round=not dash,
    )


def spread_entries() -> list[Entry]:
    """Return what dashes mean."""
    low, high = SPREADS
    texts = (f"uncertain by < {low:g}", f"{low:g} to {high:g}", f"> {high:g}")
    return [
        Entry("dashes", after=text, options=(("level", float(level)),))
        for level, text in enumerate(texts)
    ]


def _line(left: float, right: float, y: float) -> Floats:
    return np.array([[left, y], [right, y]])


def _box(left: float, bottom: float, wide: float, high: float) -> Floats:
    right, top = left + wide, bottom + high
    return np.array([[left, bottom], [right, bottom], [right, top], [left, top]])
