"""A sentence as a picture: words in rows, shaded by importance, with the edges as arcs above.

An edge between words of different rows leaves its first row at the right and enters its last row at
the left. Lengths are in inches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from gsat.draw.legend import Entry
from gsat.draw.options import DrawingOptions
from gsat.draw.scene import Numbers, Scene, scene
from gsat.draw.shapes import Areas, Floats, Layer, Part, Strokes, Texts, text_width

if TYPE_CHECKING:
    from gsat.explanation import Explanation

_GAP: Final = 0.05  # between words, and around the text of one
_STEP: Final = 0.15  # between arcs that lie over each other
_HIGHEST: Final = 1.1  # of a row's arcs
_POINTS: Final = 20  # of half an arc
_TURN: Final = 0.45  # length within which an arc that continues in another row has risen
_MARGIN: Final = 0.12
_ROUND: Final = 0.03  # radius of the corners of a box
_CORNER: Final = 5  # points of each
_SHADE: Final = 0.6  # opacity of the highest score: letters stay readable on it


@dataclass(frozen=True)
class Sentence:
    """N words in rows."""

    words: list[str]
    scene: Scene  # nodes are the centres of the words; lines are arcs, cut by NaN between rows
    size: tuple[float, float]
    boxes: Floats  # width and height of each word's box [N, 2]
    weight: Floats | None  # importance of the words in [0, 1] [N]; None if none stands out
    font: float

    def part(self, box: tuple[float, float, float, float], **text: Any) -> Part:
        """Place the sentence at the top of a part of a sheet; ``text`` as for graphs."""
        left, low = (box[2] - self.size[0]) / 2, box[3] - self.size[1]
        return Part("sentence", box, (-left, -low, box[2], box[3]), self._layers(), **text)

    def _layers(self) -> list[Layer]:
        scene, out = self.scene, list[Layer]()
        if len(scene.ends):
            colours, opacity, width = scene.line_styles(2.2)
            opacity, width = np.maximum(opacity, 0.12), np.maximum(width, 0.5)
            out.append(scene.strokes(np.argsort(opacity, kind="stable"), (colours, opacity, width)))
        if scene.true_nodes.any():
            half = self.boxes[scene.true_nodes] / 2 * (0.9, 1.0)
            lines = [
                np.array([[x - wide, y - high], [x + wide, y - high]])
                for (x, y), (wide, high) in zip(scene.at[scene.true_nodes], half, strict=True)
            ]
            out.append(Strokes("truth", lines, "truth", widths=1.6))
        weight = 0.0 if self.weight is None else self.weight**scene.options.sharpen
        rim = "ink" if scene.doubted else "chosen"
        rims = [rim if chosen else "none" for chosen in scene.chosen_nodes]
        tags, shade = scene.node_tags(scene.node_score), _SHADE * weight * scene.fade
        outlines = [_rounded(*row) for row in zip(scene.at, self.boxes, strict=True)]
        out.append(Areas("word", outlines, "heat", shade, rims, 1.1, tags))
        base = scene.at - np.array([0, 0.3 * self.font / 72])
        fitted = self.boxes[:, 0] - 2 * _GAP
        out.append(Texts("words", base, self.words, self.font, fitted=fitted))
        return out

    def entries(self, scores_of: str = "") -> list[Entry]:
        """Return the legend; ``scores_of`` names the method where there are several."""
        scene, out = self.scene, self.scene.line_entries(scores_of)
        if self.weight is not None and len(scene.ends):
            full = _SHADE * scene.fade
            if scene.node_score is None:
                out.append(Entry("heat", after="word, by its highest edge", full=full))
            else:
                low, high = float(scene.node_score.min()), float(scene.node_score.max())
                out.append(Entry("heat", f"word score {low:.2f}", f"{high:.2f}", full))
        if scene.true_nodes.any():
            out.append(Entry("outline", after="ground truth"))
        return out + scene.spread_entries()


def sentence(
    explanation: Explanation, options: DrawingOptions, width: float, font: float = 11.0
) -> Sentence | None:
    """Lay out the words of an explanation.

    A word is as important as its own score or, where the model scores edges, as its highest edge,
    on the scale of the picture.
    """
    words = explanation.node_words()
    if not words or not explanation.undirected or explanation.marked is not None:
        return None
    picture = scene(explanation, options, at=np.zeros((len(words), 2)))
    boxes = _boxes(words, font)
    row, middle, wide = _wrap(boxes[:, 0], width - 2 * _MARGIN)
    spans = _spans(picture.ends, row)
    arcs, rise = _arcs(spans, middle, boxes[:, 0], wide, int(row.max()) + 1)
    high = boxes[0, 1]
    heights = rise + high + 0.12
    base = heights.sum() - np.cumsum(heights) + 0.06  # the lower edge of each row's boxes
    at = np.column_stack([middle + _MARGIN, base[row] + high / 2])
    lines = [np.empty((0, 2))] * len(picture.ends)
    for (line, on, _, _), arc in zip(spans, arcs, strict=True):
        moved = arc + np.array([_MARGIN, base[on] + high + 0.02])
        lines[line] = np.vstack([lines[line], np.full((1, 2), np.nan), moved])
    lines = [line[1:] for line in lines]
    return Sentence(
        words=words,
        scene=replace(picture, at=at.round(4), lines=lines),
        size=(wide + 2 * _MARGIN, float(heights.sum()) + 0.06),
        boxes=boxes,
        weight=_weight(picture),
        font=font,
    )


def _rounded(centre: Floats, size: Floats) -> Floats:
    """Return the outline of a box with round corners, ``[k, 2]``."""
    turn = np.add.outer(np.pi / 2 * np.arange(4), np.linspace(0, np.pi / 2, _CORNER)).reshape(-1)
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    side = np.repeat([[1, 1], [-1, 1], [-1, -1], [1, -1]], _CORNER, axis=0)
    return np.asarray(centre + side * (size / 2 - _ROUND) + _ROUND * circle, np.float64)


def _boxes(words: Sequence[str], font: float) -> Floats:
    """Measure the words: the width of each and one height for all, ``[N, 2]``."""
    high = 1.55 * font / 72
    return np.array([(max(text_width(w, font), 0.04) + 2 * _GAP, high) for w in words])


def _wrap(wide: Floats, width: float) -> tuple[Numbers, Floats, float]:
    """Break words into rows."""
    row = np.zeros(len(wide), dtype=np.int64)
    middle = np.zeros(len(wide))
    on, x, longest = 0, 0.0, 0.0
    for i, w in enumerate(wide.tolist()):
        if x > 0 and x + w > width:
            on, x = on + 1, 0.0
        row[i], middle[i] = on, x + w / 2
        longest = max(longest, x + w)
        x += w + _GAP
    return row, middle, longest


Arc = tuple[int, int, int | None, int | None]  # line, row, word at the left and at the right


def _spans(ends: Numbers, row: Numbers) -> list[Arc]:
    """Split edges into arcs: one within a row, or two where the ends are in different rows."""
    out: list[Arc] = []
    for line, pair in enumerate(np.sort(ends, axis=1).tolist()):
        u, v = pair
        if row[u] == row[v]:
            out.append((line, int(row[u]), u, v))
        else:
            out += [(line, int(row[u]), u, None), (line, int(row[v]), None, v)]
    return out


def _arcs(
    spans: list[Arc], middle: Floats, wide: Floats, width: float, rows: int
) -> tuple[list[Floats], Floats]:
    """Draw arcs; short ones lie under those that span them."""
    # To the left and to the right an arc starts beside the middle, so that two do not touch.
    aside = np.minimum(0.05, wide / 6)
    span = [
        (
            -_MARGIN / 2 if u is None else middle[u] + aside[u] * (u != v),
            width + _MARGIN / 2 if v is None else middle[v] - aside[v] * (u != v),
        )
        for _, _, u, v in spans
    ]
    level = np.zeros(len(spans))
    order = sorted(range(len(spans)), key=lambda i: (span[i][1] - span[i][0], i))
    for rank, i in enumerate(order):
        under = [
            level[j]
            for j in order[:rank]
            if spans[j][1] == spans[i][1]
            and min(span[i][1], span[j][1]) > max(span[i][0], span[j][0])
        ]
        level[i] = 1 + max(under, default=0.0)
    rise = np.zeros(rows)
    for arc, high in zip(spans, level, strict=True):
        rise[arc[1]] = max(rise[arc[1]], high)
    step = np.minimum(_STEP, _HIGHEST / np.maximum(rise, 1))
    arcs = []
    for (_, on, u, v), (left, right), high in zip(spans, span, level, strict=True):
        if u == v:  # a loop: a small ring over its word
            left, right = left - 0.06, right + 0.06
        arcs.append(_arc(left, right, high * step[on], u is None, v is None))
    return arcs, rise * step + 0.05


def _arc(left: float, right: float, high: float, from_before: bool, continues: bool) -> Floats:
    """Make an arch, ``[k, 2]``; cut at a margin, it is half of one and a straight line to there."""
    reach = (right - left) / 2 if not (from_before or continues) else min(right - left, _TURN)
    turn = np.linspace(np.pi / 2, 0, _POINTS)
    down = np.column_stack([reach * np.cos(turn), high * np.sin(turn) ** 0.8])
    up = down[::-1] * np.array([-1.0, 1.0])
    if continues:
        return np.vstack([up + np.array([left + reach, 0]), [[right, high]]])
    down += np.array([right - reach, 0])
    return np.vstack(
        [[[left, high]] if from_before else up[:-1] + np.array([left + reach, 0]), down]
    )


def _weight(picture: Scene) -> Floats | None:
    """Return the importance of each word, ``[N]``; see :func:`sentence`."""
    if picture.strength is None:
        return None
    if picture.node_score is not None:
        return picture.node_strength()
    weight = np.zeros(len(picture.at))
    np.maximum.at(weight, picture.ends.reshape(-1), np.repeat(picture.strength, 2))
    return weight
