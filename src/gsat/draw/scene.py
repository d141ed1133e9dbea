"""The parts that pictures of graphs, sentences and images share: positions, lines and marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gsat.draw.legend import Entry, spread_entries
from gsat.draw.options import DrawingOptions
from gsat.draw.scales import (
    DASHES,
    FADED,
    SPREADS,
    line_opacity,
    line_widths,
    score_range,
    stretched,
)
from gsat.draw.shapes import Floats, Strokes, Tag

if TYPE_CHECKING:
    from gsat.explanation import Explanation

Bools = NDArray[np.bool_]
Numbers = NDArray[np.int64]

NUMBERED = 40  # maximum number of nodes that show their numbers
MARGIN = 0.2  # around a graph, in edge lengths
_STEPS = 24  # points on a curve


@dataclass(frozen=True)
class Scene:
    """A graph of N nodes and U lines: edges, or both directions of undirected edges."""

    options: DrawingOptions
    at: Floats  # positions of the nodes [N, 2]; an edge is about 1 long
    radius: float  # of the nodes
    ends: Numbers  # end nodes of the lines [U, 2]
    edge: Numbers  # first edge of each line in the explained graph [U]
    lines: list[Floats]  # polylines [k, 2] between the centres of nodes
    score: Floats  # [U]
    strength: Floats | None  # scores stretched to [0, 1] [U]; None if no edge stands out
    true: Bools  # lines of the ground truth [U]
    true_nodes: Bools  # [N]
    chosen: Bools | None  # lines within the budget [U]; None without one
    chosen_nodes: Bools  # their ends [N]
    marked: int | None  # the node whose prediction is explained
    labels: list[str]  # texts on the nodes, some empty
    names: list[str]  # of the nodes in tooltips and tables
    numbers: Numbers  # of the nodes in the explained graph [N]
    low: float  # lowest and highest score of the scale
    high: float
    directed: bool
    shade: Floats | None = None  # brightness of superpixels [N]
    spread: Floats | None = None  # standard deviations of the scores [U]
    node_score: Floats | None = None  # where the model attends to nodes [N]
    doubted: bool = False
    hops: int = 0  # around the marked node

    @property
    def box(self) -> tuple[Floats, Floats]:
        """Lower left corner and size of the picture, with a margin."""
        points = np.vstack([self.at, *self.lines]) if len(self.at) else np.zeros((1, 2))
        margin = self.radius + MARGIN
        low = points.min(axis=0) - margin
        return low, points.max(axis=0) + margin - low

    @property
    def fade(self) -> float:
        """Opacity factor of the scores."""
        return FADED if self.doubted else 1.0

    def node_strength(self) -> Floats:
        """Return the scores of the nodes, stretched to [0, 1] within the graph, ``[N]``."""
        assert self.node_score is not None
        low, high = (self.node_score.min(), self.node_score.max()) if len(self.at) else (0, 0)
        return stretched(self.node_score, low, high)

    def line_styles(self, thick: float, faint: float = 0.16) -> tuple[list[str], Floats, Floats]:
        """Return colours, opacities ``[U]`` and widths ``[U]`` of the lines."""
        count = len(self.ends)
        if self.strength is None:
            opacity, width = np.full(count, 0.5), np.full(count, 0.4 * thick)
        else:
            strong = self.strength**self.options.sharpen
            opacity, width = line_opacity(strong, faint), line_widths(strong, thick)
        colour = np.full(count, "ink", dtype=object)
        if self.chosen is not None:
            # Chosen lines keep the order of their strengths, above all others.
            opacity = np.where(self.chosen, 0.55 + 0.45 * opacity, 0.55 * opacity)
            width = np.where(self.chosen, np.maximum(width, 0.6 * thick), 0.6 * width)
            colour[self.chosen] = "ink" if self.doubted else "chosen"
        return colour.tolist(), self.fade * opacity, width

    def strokes(
        self,
        order: Numbers,
        styles: tuple[list[str], Floats, Floats],
        lines: Sequence[Floats] | None = None,
        round_ends: bool = True,
    ) -> Strokes:
        """Draw lines in an order, with tags, and with dashes where scores are uncertain."""
        colours, opacity, width = styles
        paths, tags = self.lines if lines is None else lines, self.edge_tags()
        dashes: list[tuple[float, ...]] = []
        if self.spread is not None:
            levels = np.searchsorted(SPREADS, self.spread[order], side="right")
            dashes = [DASHES[level] for level in levels]
        return Strokes(
            "edges",
            [paths[i] for i in order],
            [colours[i] for i in order],
            opacity[order],
            width[order],
            dashes,
            round_ends,
            [tags[i] for i in order],
        )

    def edge_tags(self) -> list[Tag]:
        """Return the tags of the lines."""
        out = []
        for line, (u, v) in enumerate(self.ends.tolist()):
            joint = "→" if self.directed else "–"
            out.append(
                edge_tag(
                    f"{self.names[u]} {joint} {self.names[v]}",
                    (self.edge[line], self.numbers[u], self.numbers[v]),
                    float(self.score[line]),
                    None if self.spread is None else self.spread[line],
                    bool(self.true[line]),
                )
            )
        return out

    def node_tags(self, scores: Floats | None = None) -> list[Tag]:
        """Return the tags of the nodes."""
        out = []
        for node, name in enumerate(self.names):
            data = {"node": str(self.numbers[node])}
            title = name if " " in name else f"node {name}"
            if scores is not None:
                title, data["score"] = f"{title}: {scores[node]:.3f}", f"{scores[node]:.4f}"
            out.append(Tag(title, data))
        return out

    def line_entries(self, scores_of: str = "") -> list[Entry]:
        """Return the part of the legend that is about lines."""
        if self.strength is None or not len(self.ends):
            return []
        if self.chosen is not None and not self.doubted:
            what = str(self.options.top).strip()
            of = f"{what} of edges" if what.endswith("%") else f"{what} edges"
            out = [Entry("chosen", after=f"top {of}: score {_span(self.score[self.chosen])}")]
            if not self.chosen.all():
                out.append(Entry("other", after=f"other edges: {_span(self.score[~self.chosen])}"))
            return out
        what = f"{scores_of}: edge score" if scores_of else "edge score"
        return [
            Entry(
                "scale",
                f"{what} {self.low:.2f}",
                f"{self.high:.2f}",
                full=self.fade,
                sharpen=self.options.sharpen,
            )
        ]

    def spread_entries(self) -> list[Entry]:
        """Return the part of the legend that is about dashes."""
        return [] if self.spread is None or self.strength is None else spread_entries()


def edge_tag(
    title: str, numbers: tuple[object, ...], score: float, spread: float | None, true: bool
) -> Tag:
    """Return the tag of an edge; ``numbers`` are those of the edge and of its ends."""
    title = f"{title}: {score:.3f}"
    data = dict(zip(("edge", "source", "target"), map(str, numbers), strict=True))
    data["score"] = f"{score:.4f}"
    if spread is not None:
        title, data["spread"] = f"{title} ± {spread:.3f}", f"{spread:.4f}"
    if true:
        title, data["truth"] = f"{title} (ground truth)", "1"
    return Tag(title, data)


def _span(scores: Floats) -> str:
    return f"{scores.min():.2f} to {scores.max():.2f}"


def scene(
    explanation: Explanation,
    options: DrawingOptions | None = None,
    at: Floats | None = None,
) -> Scene:
    """Prepare the picture of one explanation."""
    options = DrawingOptions() if options is None else options
    given = options.node_types
    node_types = explanation.get("node_types") if given is None else given
    nodes = int(explanation.num_nodes or 0)
    index = explanation.edge_index.numpy(force=True).astype(np.int64)
    found, best = explanation.units()
    unit, score = found.numpy(force=True), best.numpy(force=True).astype(np.float64)
    count = len(score)

    # One line per unit, drawn as its first edge is written.
    ends, edge = np.zeros((count, 2), dtype=np.int64), np.zeros(count, dtype=np.int64)
    number, node_id = explanation.get("edge_id"), explanation.get("node_id")
    number = np.arange(len(unit)) if number is None else number.numpy(force=True)
    ends[unit[::-1]], edge[unit[::-1]] = index.T[::-1], number[::-1]

    def marked(edges: Bools) -> Bools:
        out = np.zeros(count, dtype=bool)
        out[unit[edges]] = True
        return out

    true, true_nodes = np.zeros(count, dtype=bool), np.zeros(nodes, dtype=bool)
    if options.truth and explanation.get("edge_truth") is not None:
        true = marked(explanation.edge_truth.numpy(force=True).reshape(-1) > 0)
        true_nodes[ends[true]] = True
    elif options.truth and explanation.get("node_truth") is not None:
        true_nodes = explanation.node_truth.numpy(force=True).reshape(-1) > 0
    chosen, chosen_nodes = None, np.zeros(nodes, dtype=bool)
    if options.top is not None and explanation.found:
        chosen = marked(explanation.in_top(options.top).numpy(force=True))
        chosen_nodes[ends[chosen]] = True

    if (uncertain := options.spread_of(explanation)) is not None:
        spread = np.zeros(count)
        np.maximum.at(spread, unit, uncertain)
    node_score = explanation.get("node_mask")
    hops = int(explanation.get("hops") or 0) if explanation.marked is not None else 0
    at = _places(explanation, ends) if at is None else at
    shade = explanation.get("shade")
    labels = _labels(explanation, nodes, node_types) if shade is None else [""] * nodes
    names = explanation.node_names()
    if node_types is not None:
        names = [f"{label}{name}" for label, name in zip(labels, names, strict=True)]
    radius = _radius(at, named=node_types is not None)
    low, high = options.scale or score_range([explanation])
    return Scene(
        options=options,
        at=at,
        radius=radius,
        ends=ends,
        edge=edge,
        lines=_lines(at, ends, radius),
        score=score,
        strength=stretched(score, low, high) if explanation.found else None,
        true=true,
        true_nodes=true_nodes,
        chosen=chosen,
        chosen_nodes=chosen_nodes,
        marked=explanation.marked,
        labels=labels,
        names=names,
        numbers=np.arange(nodes) if node_id is None else node_id.numpy(force=True),
        low=low,
        high=high,
        directed=not explanation.undirected,
        shade=None if shade is None else shade.numpy(force=True).astype(np.float64).clip(0, 1),
        spread=None if uncertain is None else spread,
        node_score=None if node_score is None else node_score[:, 0].numpy(force=True).astype(float),
        doubted=bool(options.doubt_of(explanation)),
        hops=hops,
    )


def _places(explanation: Explanation, ends: Numbers) -> Floats:
    """Return the positions of the data, if they are in the plane and differ, or a layout."""
    from gsat.draw.layout import layout, to_scale  # imports networkx and parts of scipy

    pos, nodes = explanation.get("pos"), int(explanation.num_nodes or 0)
    if pos is not None and pos.shape == (nodes, 2) and bool(pos.isfinite().all()):
        at = to_scale(pos.numpy(force=True).astype(np.float64))
        if at is not None:
            return at
    return layout(nodes, ends, explanation.marked)


def _labels(explanation: Explanation, nodes: int, names: Sequence[str] | None) -> list[str]:
    if names is None:
        if nodes > NUMBERED:
            return [""] * nodes
        number = explanation.get("node_id")
        return [str(i) for i in (range(nodes) if number is None else number.tolist())]
    x = explanation.get("x")
    if x is None:
        return [""] * nodes
    # One-hot rows; or type numbers, alone or in the first of several columns of categories.
    several = x.is_floating_point() or not bool((x > 1).any())
    kinds = x.argmax(dim=-1) if x.size(1) > 1 and several else x[:, 0].long()
    return [names[kind] if 0 <= kind < len(names) else "?" for kind in kinds.tolist()]


def _radius(at: Floats, named: bool) -> float:
    """Choose a radius as large as the distances allow; names need more room than numbers."""
    wish = 0.27 if named else 0.2
    if len(at) < 2:
        return wish
    near = np.linalg.norm(at[:, None] - at[None], axis=-1)
    np.fill_diagonal(near, np.inf)
    return float(np.clip(0.42 * np.percentile(near.min(axis=1), 5), 0.08, wish))


def _lines(at: Floats, ends: Numbers, radius: float) -> list[Floats]:
    """Route the edges: straight, bent apart where several join two nodes, loops as circles.

    There and back, two edges share one straight line, in which each has the half at its target.
    """
    together: dict[tuple[int, int], list[int]] = {}
    for line, (u, v) in enumerate(ends.tolist()):
        together.setdefault((min(u, v), max(u, v)), []).append(line)
    out: list[Floats] = [np.empty((0, 2))] * len(ends)
    for (u, v), group in together.items():
        if len(group) == 2 and u != v and ends[group[0], 0] == ends[group[1], 1]:
            middle = (at[u] + at[v]) / 2
            for line in group:
                out[line] = np.stack([middle, at[ends[line, 1]]])
            continue
        for rank, line in enumerate(group):
            if u == v:
                out[line] = _loop(at[u], _away(at, ends, u), radius * (1 + 0.5 * rank))
            else:
                bend = 0.4 * (rank - (len(group) - 1) / 2)
                curve = _arc(at[u], at[v], bend)
                out[line] = curve if ends[line, 0] == u else curve[::-1]
    return out


def _arc(a: Floats, b: Floats, bend: float) -> Floats:
    if bend == 0:
        return np.stack([a, b])
    normal = np.array([a[1] - b[1], b[0] - a[0]])
    t = np.linspace(0, 1, _STEPS)[:, None]
    return (1 - t) * a + t * b + 2 * t * (1 - t) * bend * normal


def _away(at: Floats, ends: Numbers, node: int) -> float:
    """Return the middle of the widest angle without neighbours, where there is room for a loop."""
    neighbours = np.unique(ends[(ends == node).any(axis=1)])
    neighbours = neighbours[neighbours != node]
    if not len(neighbours):
        return np.pi / 2
    gaps = at[neighbours] - at[node]
    angles = np.sort(np.arctan2(gaps[:, 1], gaps[:, 0]))
    width = np.diff(np.append(angles, angles[0] + 2 * np.pi))
    widest = int(width.argmax())
    return float(angles[widest] + width[widest] / 2)


def _loop(centre: Floats, angle: float, radius: float) -> Floats:
    size = 1.4 * radius
    middle = centre + (radius + 0.55 * size) * np.array([np.cos(angle), np.sin(angle)])
    turn = angle + np.pi + np.linspace(0, 2 * np.pi, 2 * _STEPS)
    return middle + size * np.stack([np.cos(turn), np.sin(turn)], axis=1)
