"""From scores to widths, opacities and dashes of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gsat.draw.scene import Scene
from gsat.draw.sheet import Floats, Strokes, Tag

THICK: Final = 4.2  # points, of the widest line
FADED: Final = 0.4  # opacity factor of unreliable explanations
SPREADS: Final = (0.1, 0.2)  # from here on a score is uncertain, and very uncertain
DASHES: Final[tuple[tuple[float, ...], ...]] = ((), (2.6, 1.1), (0.9, 0.9))  # in line widths


def line_opacity(strong: Floats, faint: float = 0.16) -> Floats:
    """Return the opacity of lines, from ``faint`` to 1."""
    return faint + (1 - faint) * strong


def line_widths(strong: Floats, thick: float) -> Floats:
    """Return widths of lines in points, the strongest ``thick``; arguments as `line_opacity`."""
    return (0.22 + 0.78 * strong) * thick


def line_styles(
    picture: Scene, thick: float, sharpen: float, faint: float = 0.16
) -> tuple[list[str], Floats, Floats]:
    """Return colours, opacities ``[U]`` and widths ``[U]`` of the lines of a picture."""
    count = len(picture.ends)
    if picture.strength is None:
        opacity, width = np.full(count, 0.5), np.full(count, 0.4 * thick)
    else:
        strong = picture.strength**sharpen
        opacity, width = line_opacity(strong, faint), line_widths(strong, thick)
    colour = np.full(count, "ink", dtype=object)
    if picture.chosen is not None:
        # The chosen stay in order of strength among themselves, and above all others.
        opacity = np.where(picture.chosen, 0.55 + 0.45 * opacity, 0.55 * opacity)
        width = np.where(picture.chosen, np.maximum(width, 0.6 * thick), 0.6 * width)
        colour[picture.chosen] = "ink" if picture.doubted else "chosen"
    if picture.doubted:
        opacity = FADED * opacity
    return colour.tolist(), opacity, width


def edge_strokes(
    picture: Scene,
    order: NDArray[np.int64],
    styles: tuple[list[str], Floats, Floats],
    lines: Sequence[Floats] | None = None,
    round_ends: bool = True,
) -> Strokes:
    """Return the lines of a picture with their tags, and with dashes where they are uncertain."""
    colours, opacity, width = styles
    paths = picture.lines if lines is None else lines
    dash, tags = dashes(picture), edge_tags(picture)
    return Strokes(
        "edges",
        [paths[i] for i in order],
        [colours[i] for i in order],
        opacity[order],
        width[order],
        dashes=[dash[i] for i in order] if dash else (),
        round=round_ends,
        tags=[tags[i] for i in order],
    )


def dashes(picture: Scene) -> list[tuple[float, ...]]:
    """Return the dashes of the lines: none where scores are certain, or it is not known."""
    if picture.spread is None:
        return []
    return [DASHES[level] for level in np.searchsorted(SPREADS, picture.spread, side="right")]


def edge_tags(picture: Scene) -> list[Tag]:
    """Return what a page knows the lines by."""
    joint = "→" if picture.directed else "–"
    out = []
    for line, (u, v) in enumerate(picture.ends.tolist()):
        score = float(picture.score[line])
        title = f"{picture.names[u]} {joint} {picture.names[v]}: {score:.3f}"
        data = {
            "edge": str(picture.edge[line]),
            "source": str(picture.numbers[u]),
            "target": str(picture.numbers[v]),
            "score": f"{score:.4f}",
        }
        if picture.spread is not None:
            title += f" ± {picture.spread[line]:.3f}"
            data["spread"] = f"{picture.spread[line]:.4f}"
        if picture.true[line]:
            title, data["truth"] = f"{title} (ground truth)", "1"
        out.append(Tag(title, data))
    return out


def node_tags(picture: Scene, scores: Floats | None = None) -> list[Tag]:
    """Return what a page knows the nodes by."""
    out = []
    for node, name in enumerate(picture.names):
        number = picture.numbers[node]
        data, title = {"node": str(number)}, name if " " in name else f"node {name}"
        if scores is not None:
            title, data["score"] = f"{title}: {scores[node]:.3f}", f"{scores[node]:.4f}"
        out.append(Tag(title, data))
    return out
