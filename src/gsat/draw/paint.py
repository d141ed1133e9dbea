"""A graph as layers of shapes: halos of the truth, lines, arrowheads, circles, labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from gsat.draw.legend import Entry, spread_entries
from gsat.draw.marks import FADED, THICK, edge_strokes, line_styles, node_tags
from gsat.draw.scene import EQUAL, Bools, Floats, Scene
from gsat.draw.sheet import Areas, Circles, Layer, Part, Strokes, Texts

SMALLEST_FONT: Final = 3.5  # points; smaller labels are left out
# Inches.
NARROWEST, WIDEST = 3.8, 7.0
_LOWEST, _HIGHEST = 1.2, 7.0
_HEAD: Final = (3.0, 9.0)  # points; an arrowhead that has no room for the first is left out


@dataclass(frozen=True)
class GraphPicture:
    """A graph of circles and lines.

    Attributes:
        scene: What to draw.
        sharpen: The power to which scores are raised.
        top: The budget, if there is one.
    """

    scene: Scene
    sharpen: float
    top: int | str | None = None

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit the graph."""
        # An edge is half an inch, or more where crowded nodes would become too small.
        unit = max(0.5, 0.07 / self.scene.radius)
        wide, high = (unit * self.scene.box[1]).tolist()
        return (
            float(np.clip(wide, NARROWEST, WIDEST)),
            float(np.clip(high, _LOWEST, _HIGHEST)),
        )

    def part(
        self,
        box: tuple[float, float, float, float],
        title: Sequence[str] = (),
        note: Sequence[str] = (),
        font: float = 9.5,
    ) -> Part:
        """Fit the graph into a part of a sheet; arguments as the fields of :class:`Part`."""
        corner, size = self.scene.box
        # Small graphs are not blown up: an edge is never longer than 0.6 inches.
        unit = min(box[2] / size[0], box[3] / size[1], max(0.6, 0.1 / self.scene.radius))
        reach = np.array(box[2:]) / unit
        low = corner + size / 2 - reach / 2
        limits = (float(low[0]), float(low[1]), float(reach[0]), float(reach[1]))
        layers = graph_layers(self.scene, 72 * unit, self.sharpen)
        return Part("graph", box, limits, layers, title, note, font)

    def entries(self, scores_of: str = "") -> list[Entry]:
        """Return the legend; ``scores_of`` names the method where there are several."""
        return graph_entries(self.scene, self.sharpen, self.top, scores_of)


def graph_layers(picture: Scene, points: float, sharpen: float) -> list[Layer]:
    """Draw a graph; what is within the budget lies over the rest."""
    thick = float(np.clip(0.6 * picture.radius * points, 0.8, THICK))
    out = _hops(picture)
    out += _truth(picture, thick, points)
    lines = np.ones(len(picture.ends), dtype=bool) if picture.chosen is None else picture.chosen
    nodes = picture.chosen_nodes | (picture.chosen is None)
    for on_lines, on_nodes in ((~lines, ~nodes), (lines, nodes)):
        if on_lines.any():
            out += _edges(picture, on_lines, points, thick, sharpen)
        if on_nodes.any():
            out += _nodes(picture, on_nodes, points, sharpen)
    return out


def _hops(picture: Scene) -> list[Layer]:
    """Draw circles around the explained node: one for each step by which messages come nearer."""
    if picture.marked is None:
        return []
    count = picture.hops
    at = np.repeat(picture.at[[picture.marked]], count, axis=0)
    paths = [_circle(at[hop], hop + 1.0) for hop in range(count)]
    return [Strokes("hops", paths, ["faint"] * count, np.full(count, 0.6), np.full(count, 0.7),
                    dashes=[(4.0, 4.0)] * count)]  # fmt: skip


def _circle(middle: Floats, radius: float) -> Floats:
    turn = np.linspace(0, 2 * np.pi, 97)
    return np.asarray(middle + radius * np.column_stack([np.cos(turn), np.sin(turn)]), np.float64)


def _truth(picture: Scene, thick: float, points: float) -> list[Layer]:
    """Draw the truth under everything else: it never hides what the model says."""
    out: list[Layer] = []
    lines, nodes = np.flatnonzero(picture.true), np.flatnonzero(picture.true_nodes)
    if len(lines):
        wide = np.full(len(lines), thick + 0.9 * picture.radius * points)
        halo = ["halo"] * len(lines)
        paths = [picture.lines[line] for line in lines]
        out.append(Strokes("truth", paths, halo, np.ones(len(lines)), wide))
    if len(nodes):
        radius = np.full(len(nodes), 1.5 * picture.radius)
        rim = np.full(len(nodes), float(np.clip(0.03 * points, 0.5, 1.1)))
        halo, rims = ["halo"] * len(nodes), ["truth"] * len(nodes)
        ones = np.ones(len(nodes))
        out.append(Circles("true nodes", picture.at[nodes], radius, halo, ones, rims, rim))
    return out


def _edges(
    picture: Scene, drawn: Bools, points: float, thick: float, sharpen: float
) -> list[Layer]:
    colours, opacity, width = line_styles(picture, thick, sharpen)
    order = np.argsort(opacity, kind="stable")  # the strongest lie on top
    order = order[drawn[order]]
    lines = list(picture.lines)
    heads: list[tuple[int, Floats]] = []
    if picture.directed:
        for line in order.tolist():
            goal = picture.at[picture.ends[line, 1]]
            lines[line], head = _with_head(
                lines[line], goal, picture.radius, width[line] / points, points
            )
            if head is not None:
                heads.append((line, head))
    styles, round_ends = (colours, opacity, width), not picture.directed
    out: list[Layer] = [edge_strokes(picture, order, styles, lines, round_ends)]
    if heads:
        own = [line for line, _ in heads]
        tips, inks = [head for _, head in heads], [colours[i] for i in own]
        out.append(Areas("heads", tips, inks, opacity[own]))
    return out


def _with_head(
    line: Floats, goal: Floats, radius: float, width: float, points: float
) -> tuple[Floats, Floats | None]:
    """Cut a line short before its target, and make the arrowhead ``[3, 2]`` that touches it.

    Where there is no room for a head, the line stays as it is.
    """
    steps = np.linspace(0, len(line) - 1, max(200, len(line)))
    dense = np.column_stack(
        [np.interp(steps, np.arange(len(line)), line[:, axis]) for axis in (0, 1)]
    )
    outside = np.flatnonzero(np.linalg.norm(dense - goal, axis=1) >= 1.08 * radius)
    tip = int(outside[-1]) if len(outside) else len(dense) - 1
    room = float(np.linalg.norm(dense[tip] - dense[0]))
    wished = min(max(2.6 * width, 4.0 / points), _HEAD[1] / points, 1.7 * radius)
    # A loop or a bend comes back to where it began.
    length = wished if len(line) > 4 else min(wished, 0.45 * room)
    if length * points < _HEAD[0]:
        return line, None
    away = np.linalg.norm(dense[:tip] - dense[tip], axis=1) >= length
    base = int(np.flatnonzero(away)[-1]) if away.any() else 0
    along = dense[tip] - dense[base]
    along = along / max(float(np.linalg.norm(along)), 1e-9)
    across = 0.45 * length * np.array([-along[1], along[0]])
    foot = dense[tip] - length * along
    return _thinned(dense[: base + 1]), np.stack([dense[tip], foot + across, foot - across])


def _thinned(line: Floats) -> Floats:
    """Drop points that make no difference: a straight line needs two."""
    chord = line[-1] - line[0]
    off = np.abs(chord[0] * (line - line[0])[:, 1] - chord[1] * (line - line[0])[:, 0])
    if off.max(initial=0.0) < 1e-9:
        return line[[0, -1]]
    return line[np.unique(np.linspace(0, len(line) - 1, 32).round().astype(int))]


def _nodes(picture: Scene, drawn: Bools, points: float, sharpen: float) -> list[Layer]:
    own = np.flatnonzero(drawn)
    count, at, chosen = len(own), picture.at[own], picture.chosen_nodes[own]
    rims, ink = ["rim"] * count, ["ink"] * count
    if picture.chosen is not None:
        blue = "rim" if picture.doubted else "chosen"
        rims = [blue if inside else "faint" for inside in chosen]
        ink = ["ink" if inside else "rim" for inside in chosen]
    out: list[Layer] = []
    radius, none = np.full(count, picture.radius), ["none"] * count
    if picture.marked is not None and drawn[picture.marked]:
        middle, reach = picture.at[[picture.marked]], np.array([1.8 * picture.radius])
        out.append(Circles("marked", middle, reach, ["marked"], np.ones(1), ["none"], np.zeros(1)))
    thin = float(np.clip(0.03 * points, 0.5, 1.1))
    rim_widths = np.where(chosen, 1.7 * thin, thin)
    tags = node_tags(picture, picture.node_score)
    faces, own_tags = ["node"] * count, [tags[i] for i in own]
    out.append(Circles("nodes", at, radius, faces, np.ones(count), rims, rim_widths, own_tags))
    if picture.node_score is not None and picture.strength is not None:
        warm = node_strength(picture)[own] ** sharpen * (FADED if picture.doubted else 1.0)
        heat = ["heat"] * count
        out.append(Circles("heat", at, 0.88 * radius, heat, warm, none, np.zeros(count)))
    named = [(k, picture.labels[i]) for k, i in enumerate(own) if picture.labels[i]]
    sizes = [picture.radius * points * _letter(label) for _, label in named]
    shown = [
        (*name, size) for name, size in zip(named, sizes, strict=True) if size >= SMALLEST_FONT
    ]
    if shown:
        places, words, fonts = (list(column) for column in zip(*shown, strict=True))
        size = np.array(fonts)
        base = at[places] - np.column_stack([0 * size, 0.36 * size / points])
        out.append(Texts("labels", base, words, size, [ink[k] for k in places]))
    return out


def _letter(label: str) -> float:
    """Return how large the letters of a label are, in radii of its node."""
    return {1: 1.15, 2: 0.95}.get(len(label), 0.7)


def node_strength(picture: Scene) -> Floats:
    """Return the nodes' scores stretched to [0, 1] within the graph, ``[N]``."""
    assert picture.node_score is not None
    reach = np.ptp(picture.node_score) if len(picture.node_score) else 0.0
    if reach < EQUAL:
        return picture.node_score.clip(0, 1)
    return np.asarray((picture.node_score - picture.node_score.min()) / reach, np.float64)


def graph_entries(
    picture: Scene, sharpen: float, top: int | str | None, scores_of: str = ""
) -> list[Entry]:
    """Return the legend of a graph."""
    out = line_entries(picture, sharpen, top, scores_of)
    if picture.node_score is not None and picture.strength is not None and len(picture.at):
        low, high = float(picture.node_score.min()), float(picture.node_score.max())
        out.append(Entry("heat", f"node score {low:.2f}", f"{high:.2f}", (("full", 1.0),)))
    if picture.true.any() or picture.true_nodes.any():
        out.append(Entry("truth", after="ground truth"))
    if picture.marked is not None:
        out.append(Entry("node", after="the node"))
    if picture.spread is not None and picture.strength is not None:
        out += spread_entries()
    return out


def line_entries(
    picture: Scene, sharpen: float, top: int | str | None, scores_of: str = ""
) -> list[Entry]:
    """Return the part of the legend that is about lines; arguments as `graph_entries`."""
    if picture.strength is None or not len(picture.ends):
        return []
    if top is not None and picture.chosen is not None and not picture.doubted:
        what = str(top).strip()
        of = f"{what} of edges" if what.endswith("%") else f"{what} edges"
        lowest, highest = _within(picture.score[picture.chosen])
        out = [Entry("chosen", after=f"top {of}: score {lowest} to {highest}")]
        if not picture.chosen.all():
            lowest, highest = _within(picture.score[~picture.chosen])
            out.append(Entry("other", after=f"other edges: {lowest} to {highest}"))
        return out
    what = f"{scores_of}: edge score" if scores_of else "edge score"
    fade = (("fade", FADED),) if picture.doubted else ()
    return [
        Entry(
            "scale",
            f"{what} {picture.low:.2f}",
            f"{picture.high:.2f}",
            (("sharpen", sharpen), *fade),
        )
    ]


def _within(scores: Floats) -> tuple[str, str]:
    return f"{scores.min():.2f}", f"{scores.max():.2f}"
