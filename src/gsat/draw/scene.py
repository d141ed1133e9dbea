"""What a picture of an explanation shows: positions, lines, marks and labels, not yet drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gsat.draw.layout import layout, to_scale

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
        lines: U polylines ``[k, 2]`` between node centres; a self-loop is a circle.
        strength: Scores stretched to [0, 1] within the graph, ``[U]``; None if no edge stands out.
        true: Lines of the ground truth, ``[U]``.
        true_nodes: Nodes of the ground truth, ``[N]``.
        chosen: Lines within the budget, ``[U]``; None without a budget.
        chosen_nodes: Ends of these lines, ``[N]``.
        marked: The node whose prediction is explained; None for a whole graph.
        labels: N texts, empty where there is none.
        low: The lowest score.
        high: The highest score.
        directed: Whether lines have arrowheads.
        shade: Brightness of superpixels in [0, 1], ``[N]``; None for other graphs.
    """

    at: Floats
    radius: float
    ends: NDArray[np.int64]
    lines: list[Floats]
    strength: Floats | None
    true: Bools
    true_nodes: Bools
    chosen: Bools | None
    chosen_nodes: Bools
    marked: int | None
    labels: list[str]
    low: float
    high: float
    directed: bool
    shade: Floats | None = None

    @property
    def box(self) -> tuple[Floats, Floats]:
        """The lower left corner and the size of everything drawn, with a margin."""
        points = np.vstack([self.at, *self.lines]) if len(self.at) else np.zeros((1, 2))
        margin = self.radius + MARGIN
        low = points.min(axis=0) - margin
        return low, points.max(axis=0) + margin - low


def scene(
    explanation: Explanation,
    top: int | str | None = None,
    node_types: Sequence[str] | None = None,
    at: Floats | None = None,
) -> Scene:
    """Prepare the picture of one explanation.

    Args:
        explanation: The explained graph.
        top: As in :func:`gsat.draw.draw_explanation`. (default: ``None``)
        node_types: As in :func:`gsat.draw.draw_explanation`. (default: ``None``)
        at: Positions of the nodes, ``[N, 2]``. (default: the explanation's ``pos`` where these are
            positions in the plane, else a computed layout)

    Returns:
        The scene.
    """
    node_types = explanation.get("node_types") if node_types is None else node_types
    nodes = int(explanation.num_nodes or 0)
    index = explanation.edge_index.numpy(force=True).astype(np.int64)
    unit = explanation.units()[0].numpy(force=True)
    scores = explanation.edge_mask.numpy(force=True)
    count = int(unit.max()) + 1 if len(unit) else 0

    # One line per unit, drawn as its first edge is written.
    ends = np.zeros((count, 2), dtype=np.int64)
    ends[unit[::-1]] = index.T[::-1]
    strength = np.zeros(count)
    np.maximum.at(strength, unit, explanation.normalised().numpy(force=True))

    def marked(edges: Bools) -> Bools:
        out = np.zeros(count, dtype=bool)
        out[unit[edges]] = True
        return out

    true, true_nodes = np.zeros(count, dtype=bool), np.zeros(nodes, dtype=bool)
    if explanation.get("edge_truth") is not None:
        true = marked(explanation.edge_truth.numpy(force=True).reshape(-1) > 0)
        true_nodes[ends[true]] = True
    elif explanation.get("node_truth") is not None:
        true_nodes = explanation.node_truth.numpy(force=True).reshape(-1) > 0
    chosen, chosen_nodes = None, np.zeros(nodes, dtype=bool)
    if top is not None and explanation.found:
        chosen = marked(explanation.in_top(top).numpy(force=True))
        chosen_nodes[ends[chosen]] = True

    low, high = (float(scores.min()), float(scores.max())) if len(scores) else (0.0, 0.0)
    if high - low < EQUAL:
        strength[:] = high  # nothing to stretch: the score itself

    if at is None:
        at = _own_places(explanation)
    if at is None:
        at = layout(nodes, ends)
    shade = explanation.get("shade")
    labels = _labels(explanation, nodes, node_types) if shade is None else [""] * nodes
    radius = _radius(at, named=node_types is not None)
    return Scene(
        at=at,
        radius=radius,
        ends=ends,
        lines=_lines(at, ends, radius),
        strength=strength if explanation.found else None,
        true=true,
        true_nodes=true_nodes,
        chosen=chosen,
        chosen_nodes=chosen_nodes,
        marked=explanation.marked,
        labels=labels,
        low=low,
        high=high,
        directed=not explanation.undirected,
        shade=None if shade is None else shade.numpy(force=True).astype(np.float64).clip(0, 1),
    )


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


def _radius(at: Floats, named: bool) -> float:
    """Choose a radius as large as the distances allow; names need more room than numbers."""
    wish = 0.27 if named else 0.2
    if len(at) < 2:
        return wish
    near = np.linalg.norm(at[:, None] - at[None], axis=-1)
    np.fill_diagonal(near, np.inf)
    return float(np.clip(0.42 * np.percentile(near.min(axis=1), 5), 0.08, wish))


def _lines(at: Floats, ends: NDArray[np.int64], radius: float) -> list[Floats]:
    """Route the edges: straight, bent apart where several join two nodes, loops as circles."""
    together: dict[tuple[int, int], list[int]] = {}
    for line, (u, v) in enumerate(ends.tolist()):
        together.setdefault((min(u, v), max(u, v)), []).append(line)
    out: list[Floats] = [np.empty((0, 2))] * len(ends)
    for (u, v), group in together.items():
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
