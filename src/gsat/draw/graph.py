"""A graph as circles and lines, with halos of the ground truth, arrowheads and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gsat.draw.legend import Entry
from gsat.draw.scales import THICK
from gsat.draw.scene import Bools, Scene
from gsat.draw.shapes import Areas, Circles, Floats, Layer, Part, Strokes, Texts

SMALLEST_FONT: Final = 3.5  # points; smaller labels are left out
# Inches.
NARROWEST, WIDEST = 3.8, 7.0
_LOWEST, _HIGHEST = 1.2, 7.0
_HEAD: Final = (3.0, 9.0)  # shortest and longest arrowhead in points


@dataclass(frozen=True)
class GraphPicture:
    """A graph of circles and lines."""

    scene: Scene

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches that suit the graph."""
        # An edge is half an inch, or more where crowded nodes would become too small.
        unit = max(0.5, 0.07 / self.scene.radius)
        wide, high = (unit * self.scene.box[1]).tolist()
        return float(np.clip(wide, NARROWEST, WIDEST)), float(np.clip(high, _LOWEST, _HIGHEST))

    def part(self, box: tuple[float, float, float, float], **text: Any) -> Part:
        """Fit the graph into a part of a sheet; ``text`` are the part's title, note and font."""
        corner, size = self.scene.box
        # Small graphs are not blown up: an edge is never longer than 0.6 inches.
        unit = min(box[2] / size[0], box[3] / size[1], max(0.6, 0.1 / self.scene.radius))
        reach = np.array(box[2:]) / unit
        low = corner + size / 2 - reach / 2
        limits = (float(low[0]), float(low[1]), float(reach[0]), float(reach[1]))
        return Part("graph", box, limits, _layers(self.scene, 72 * unit), **text)

    def entries(self, scores_of: str = "") -> list[Entry]:
        """Return the legend; ``scores_of`` names the method where there are several."""
        scene, out = self.scene, self.scene.line_entries(scores_of)
        if scene.node_score is not None and scene.strength is not None and len(scene.at):
            low, high = float(scene.node_score.min()), float(scene.node_score.max())
            out.append(Entry("heat", f"node score {low:.2f}", f"{high:.2f}"))
        if scene.true.any() or scene.true_nodes.any():
            out.append(Entry("truth", after="ground truth"))
        if scene.marked is not None:
            out.append(Entry("node", after="the node"))
        return out + scene.spread_entries()


def _layers(scene: Scene, points: float) -> list[Layer]:
    """Draw a graph whose unit has a number of points; chosen edges lie over the rest."""
    thick = float(np.clip(0.6 * scene.radius * points, 0.8, THICK))
    thin = float(np.clip(0.03 * points, 0.5, 1.1))
    out: list[Layer] = []
    if scene.marked is not None:
        # A circle for each step by which messages come nearer to the explained node.
        rings = [_circle(scene.at[scene.marked], hop + 1.0) for hop in range(scene.hops)]
        out.append(Strokes("hops", rings, "faint", 0.6, 0.7, [(4.0, 4.0)] * len(rings)))
    # The truth lies under everything else: it never hides the explanation.
    if scene.true.any():
        paths = [scene.lines[line] for line in np.flatnonzero(scene.true)]
        wide = thick + 0.9 * scene.radius * points
        out.append(Strokes("truth", paths, "halo", widths=wide))
    if scene.true_nodes.any():
        at, radius = scene.at[scene.true_nodes], 1.5 * scene.radius
        out.append(Circles("true nodes", at, radius, "halo", 1.0, "truth", thin))
    lines = np.ones(len(scene.ends), dtype=bool) if scene.chosen is None else scene.chosen
    nodes = scene.chosen_nodes | (scene.chosen is None)
    for on_lines, on_nodes in ((~lines, ~nodes), (lines, nodes)):
        if on_lines.any():
            out += _edges(scene, on_lines, points, thick)
        if on_nodes.any():
            out += _nodes(scene, on_nodes, points, thin)
    return out


def _circle(middle: Floats, radius: float) -> Floats:
    turn = np.linspace(0, 2 * np.pi, 97)
    return np.asarray(middle + radius * np.column_stack([np.cos(turn), np.sin(turn)]), np.float64)


def _edges(scene: Scene, drawn: Bools, points: float, thick: float) -> list[Layer]:
    styles = colours, opacity, width = scene.line_styles(thick)
    order = np.argsort(opacity, kind="stable")  # the strongest lie on top
    order = order[drawn[order]]
    lines = list(scene.lines)
    heads: dict[int, Floats] = {}
    for line in order.tolist() if scene.directed else ():
        goal = scene.at[scene.ends[line, 1]]
        lines[line], head = _with_head(
            lines[line], goal, scene.radius, width[line] / points, points
        )
        if head is not None:
            heads[line] = head
    out: list[Layer] = [scene.strokes(order, styles, lines, round_ends=not scene.directed)]
    if heads:
        inks = [colours[line] for line in heads]
        out.append(Areas("heads", [*heads.values()], inks, opacity[[*heads]]))
    return out


def _with_head(
    line: Floats, goal: Floats, radius: float, width: float, points: float
) -> tuple[Floats, Floats | None]:
    """Cut a line short before its target, and make the arrowhead ``[3, 2]`` that touches it.

    Without room for a head, the line is unchanged.
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
    points_kept = 2 if len(line) == 2 else 32  # a straight line needs two
    kept = np.unique(np.linspace(0, base, points_kept).round().astype(int))
    return dense[kept], np.stack([dense[tip], foot + across, foot - across])


def _nodes(scene: Scene, drawn: Bools, points: float, thin: float) -> list[Layer]:
    own = np.flatnonzero(drawn)
    at, chosen, radius = scene.at[own], scene.chosen_nodes[own], scene.radius
    rims, ink = ["rim"] * len(own), ["ink"] * len(own)
    if scene.chosen is not None:
        blue = "rim" if scene.doubted else "chosen"
        rims = [blue if inside else "faint" for inside in chosen]
        ink = ["ink" if inside else "rim" for inside in chosen]
    out: list[Layer] = []
    if scene.marked is not None and drawn[scene.marked]:
        out.append(Circles("marked", scene.at[[scene.marked]], 1.8 * radius, "marked"))
    tags = scene.node_tags(scene.node_score)
    widths = np.where(chosen, 1.7 * thin, thin)
    own_tags = [tags[i] for i in own]
    out.append(Circles("nodes", at, radius, "node", 1.0, rims, widths, own_tags))
    if scene.node_score is not None and scene.strength is not None:
        warm = scene.fade * scene.node_strength()[own] ** scene.options.sharpen
        out.append(Circles("heat", at, 0.88 * radius, "heat", warm))
    labels = [scene.labels[i] for i in own]
    fonts = np.array([radius * points * _letter(label) for label in labels])
    shown = [k for k, label in enumerate(labels) if label and fonts[k] >= SMALLEST_FONT]
    if shown:
        size = fonts[shown]
        base = at[shown] - np.column_stack([0 * size, 0.36 * size / points])
        words, inks = [labels[k] for k in shown], [ink[k] for k in shown]
        out.append(Texts("labels", base, words, size, inks))
    return out


def _letter(label: str) -> float:
    """Return the size of the letters of a label in radii of its node."""
    return {1: 1.15, 2: 0.95}.get(len(label), 0.7)
