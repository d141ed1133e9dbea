"""What a picture of an explanation shows: positions, lines, marks and labels, not yet drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gsat.draw.layout import layout, to_scale
from gsat.draw.options import DrawingOptions

if TYPE_CHECKING:
    from gsat.explanation import Explanation

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NUMBERED = 40  # graphs up to this size show node numbers when their nodes have no names
MARGIN = 0.2  # around a graph, in edge lengths
EQUAL = 1e-6  # scores closer than this are one
_STEPS = 24  # points on a curve


@dataclass(frozen=True)
class Scene:
    """One graph of N nodes and U lines (an edge, or both directions of an undirected one).

    Attributes:
        at: Positions of the nodes, ``[N, 2]``; an edge is about 1 long.
        radius: Radius of the nodes.
        ends: End nodes of the lines, ``[U, 2]``.
        edge: The number of each line's first edge in the explained graph, ``[U]``.
        lines: U polylines ``[k, 2]`` between node centres; a self-loop is a circle. Two directed
            edges there and back are the halves of one line, each at its target.
        score: Scores, ``[U]``.
        strength: Scores on the scale from ``low`` to ``high``, ``[U]``, from 0 to 1; None if no
            edge stands out.
        true: Lines of the ground truth, ``[U]``.
        true_nodes: Nodes of the ground truth, ``[N]``.
        chosen: Lines within the budget, ``[U]``; None without a budget.
        chosen_nodes: Ends of these lines, ``[N]``.
        marked: The node whose prediction is explained; None for a whole graph.
        labels: N texts, empty where there is none.
        names: N texts, by which a page names the nodes.
        numbers: Numbers of the nodes in the explained graph, ``[N]``.
        low: The lowest score of the scale.
        high: The highest score of the scale.
        directed: Whether lines have arrowheads.
        shade: Brightness of superpixels in [0, 1], ``[N]``; None for other graphs.
        spread: How uncertain the scores are, ``[U]``; None where unknown.
        node_score: Scores of the nodes, where the model attends to them, ``[N]``; None elsewhere.
        doubted: Whether the explanation is unreliable.
        hops: How many hops around ``marked`` there are; 0 for a whole graph.
    """

    at: Floats
    radius: float
    ends: NDArray[np.int64]
    edge: NDArray[np.int64]
    lines: list[Floats]
    score: Floats
    strength: Floats | None
    true: Bools
    true_nodes: Bools
    chosen: Bools | None
    chosen_nodes: Bools
    marked: int | None
    labels: list[str]
    names: list[str]
    numbers: NDArray[np.int64]
    low: float
    high: float
    directed: bool
    shade: Floats | None = None
    spread: Floats | None = None
    node_score: Floats | None = None
    doubted: bool = False
    hops: int = 0

    @property
    def box(self) -> tuple[Floats, Floats]:
        """The lower left corner and the size of everything drawn, with a margin."""
        points = np.vstack([self.at, *self.lines]) if len(self.at) else np.zeros((1, 2))
        margin = self.radius + MARGIN
        low = points.min(axis=0) - margin
        return low, points.max(axis=0) + margin - low

    def on_scale(self, scores: Floats) -> Floats:
        """Return where scores are on the scale, from 0 to 1; themselves where it has one value."""
        if self.high - self.low < EQUAL:
            return scores.clip(0, 1)
        return ((scores - self.low) / (self.high - self.low)).clip(0, 1)


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
    if at is None:
        at = _own_places(explanation)
    if at is None:
        at = layout(nodes, ends, explanation.marked)
    shade = explanation.get("shade")
    labels = _labels(explanation, nodes, node_types) if shade is None else [""] * nodes
    radius = _radius(at, named=node_types is not None)
    low, high = options.scale or score_range([explanation])
    out = Scene(
        at=at,
        radius=radius,
        ends=ends,
        edge=edge,
        lines=_lines(at, ends, radius),
        score=score,
        strength=None,
        true=true,
        true_nodes=true_nodes,
        chosen=chosen,
        chosen_nodes=chosen_nodes,
        marked=explanation.marked,
        labels=labels,
        names=_names(explanation, None if node_types is None else labels),
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
    return replace(out, strength=out.on_scale(score)) if explanation.found else out


def score_range(explanations: Iterable[Explanation]) -> tuple[float, float]:
    """Return the lowest and the highest score of an edge in all explanations; 0 and 0 if none."""
    scores = [e.units()[1] for e in explanations if len(e.edge_mask)]
    if not scores:
        return 0.0, 0.0
    return min(float(s.min()) for s in scores), max(float(s.max()) for s in scores)


def _own_places(explanation: Explanation) -> Floats | None:
    """Return the positions in the data, ``[N, 2]``, if they are in the plane and differ."""
    pos = explanation.get("pos")
    if pos is None or pos.shape != (explanation.num_nodes, 2) or not bool(pos.isfinite().all()):
        return None
    return to_scale(pos.numpy(force=True).astype(np.float64))


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


def _names(explanation: Explanation, types: list[str] | None) -> list[str]:
    """Name nodes by their numbers in the whole graph, with a type or a word where there is one."""
    names = explanation.node_names()
    if types is None:
        return names
    return [f"{label}{name}" for label, name in zip(types, names, strict=True)]


def _radius(at: Floats, named: bool) -> float:
    """Choose a radius as large as the distances allow; names need more room than numbers."""
    wish = 0.27 if named else 0.2
    if len(at) < 2:
        return wish
    near = np.linalg.norm(at[:, None] - at[None], axis=-1)
    np.fill_diagonal(near, np.inf)
    return float(np.clip(0.42 * np.percentile(near.min(axis=1), 5), 0.08, wish))


def _lines(at: Floats, ends: NDArray[np.int64], radius: float) -> list[Floats]:
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


def _away(at: Floats, ends: NDArray[np.int64], node: int) -> float:
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
