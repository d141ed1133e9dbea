"""Positions of the nodes of a picture: the same graph always gets the same layout.

A component is laid out by stress majorisation (Gansner, Koren, North 2004). It minimises the energy
of Kamada and Kawai, so it gives their pictures, but it takes 0.5 s for 400 nodes where the L-BFGS
form in networkx takes 10 s. Above ``STRESS_LIMIT`` nodes the distances cost too much and networkx's
spring layout takes over. Components stand side by side; one unit is the length of an edge.

Three things make structure visible. Edges of a node with many neighbours are longer, so that these
have room around it: a wheel is round. Small rings and motifs keep their own shape, whatever pulls
at them. A few edges that join distant parts of a regular graph (a ladder, say) are drawn, but do
not bend it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.draw.layout_structure import around_hub, motifs, planar_places, structure

if TYPE_CHECKING:
    import networkx as nx

Floats = NDArray[np.float64]
STRESS_LIMIT: Final = 1000
SEVERAL_STARTS: Final = 120
GAP: Final = 1.0  # between components
_SMALL: Final = 12  # nodes of a graph that is drawn by its faces, if springs make edges cross
_STIFF: Final = 25.0  # how much stiffer its springs are
_CENTRAL: Final = 12.0  # how much stiffer springs to the centre are


def layout(num_nodes: int, edges: NDArray[np.int64], centre: int | None = None) -> Floats:
    """Lay out the nodes of a graph."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from((int(u), int(v)) for u, v in edges if u != v)
    parts = [sorted(part) for part in nx.connected_components(graph)]
    parts.sort(key=lambda part: (-len(part), part[0]))
    places = [_component(graph.subgraph(part).copy(), part, centre) for part in parts]
    out = np.zeros((num_nodes, 2))
    for part, at in zip(parts, _side_by_side(places), strict=True):
        out[part] = at
    # Rounded, so that the last bits of a sum never show in a file.
    return out.round(4)


def to_scale(at: Floats) -> Floats | None:
    """Scale given positions to the units of :func:`layout`: nearest nodes are 1 apart."""
    if len(at) < 2:
        return None
    apart = _apart(at)
    np.fill_diagonal(apart, np.inf)
    near = float(np.median(apart.min(axis=1)))
    return ((at - at.min(axis=0)) / near).round(4) if near > 0 else None


def _component(graph: nx.Graph, nodes: list[int], centre: int | None) -> Floats:
    """Lay out one connected component, ``[n, 2]``, wider than high, from its lower left corner."""
    if len(nodes) == 1:
        return np.zeros((1, 2))
    place = {node: i for i, node in enumerate(nodes)}
    ends = np.array([(place[u], place[v]) for u, v in graph.edges])
    lengths = np.ones(len(ends))
    if len(nodes) <= STRESS_LIMIT:
        kept, middle = np.ones(len(ends), dtype=bool), place.get(-1 if centre is None else centre)
        if middle is None:
            lengths, kept = structure(len(nodes), ends)
        at = _untangled(graph, nodes, ends, lengths, kept, middle)
    else:
        import networkx as nx

        found = nx.spring_layout(graph, seed=0, iterations=50)
        at = np.array([found[node] for node in nodes])
    if centre not in place:  # else the distances from there are right already
        drawn = np.linalg.norm(at[ends[:, 0]] - at[ends[:, 1]], axis=1)
        at = at / max(float(np.median(drawn / lengths)), 1e-9)
    at = _lying(at)
    return at - at.min(axis=0)


def _distances(count: int, ends: NDArray[np.int64], lengths: Floats) -> Floats:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    joined = coo_array((lengths, (ends[:, 0], ends[:, 1])), shape=(count, count))
    return np.asarray(shortest_path(joined.tocsr(), directed=False), dtype=np.float64)


def _untangled(
    graph: nx.Graph,
    nodes: list[int],
    ends: NDArray[np.int64],
    lengths: Floats,
    kept: NDArray[np.bool_],
    centre: int | None,
) -> Floats:
    """Find the layout with the fewest crossings, then the least stress, from several starts.

    The first one without any crossing is taken.
    """
    distances = _distances(len(nodes), ends[kept], lengths[kept])
    stiff = np.ones((len(nodes), len(nodes)))
    shapes: list[tuple[list[int], Floats]] = []
    if centre is None:
        shapes = _shapes(graph, nodes, ends)
        for own, shape in shapes:
            distances[np.ix_(own, own)], stiff[np.ix_(own, own)] = _apart(shape), _STIFF
    else:
        stiff[centre], stiff[:, centre] = _CENTRAL * len(nodes), _CENTRAL * len(nodes)
    springs = _Springs(distances, stiff)
    at = springs.relax(springs.spread())
    if shapes:
        at = springs.relax(_unfolded(at, shapes))
    if len(nodes) > SEVERAL_STARTS or len(ends) > 3 * SEVERAL_STARTS:
        return at
    # Sparse graphs (trees, molecules) can often be drawn without any crossing: a good start.
    planar = planar_places(graph, nodes)
    starts = around_hub(len(nodes), ends, kept, lengths) if centre is None else []
    starts += [*planar[-1:], *(springs.spread(noise) for noise in (0.3, 0.6, 1.0))]
    found: list[tuple[int, float, int, Floats]] = []
    for start in [at, *starts]:
        at, crossings = _repaired(springs, springs.relax(start), ends[kept])
        found.append((crossings, springs.stress(at), len(found), at))
        if not crossings:
            break
    best = min(found)
    if best[0] and len(planar) > 1 and len(nodes) <= _SMALL:
        return planar[0]
    return best[-1]


def _shapes(
    graph: nx.Graph, nodes: list[int], ends: NDArray[np.int64]
) -> list[tuple[list[int], Floats]]:
    """Lay out each motif on its own, unless the graph is one: its nodes, and places ``[k, 2]``."""
    out = []
    for block in motifs(graph, nodes):
        if len(block) < len(nodes):
            own = np.isin(ends, block).all(axis=1)
            out.append((block, layout(len(block), np.searchsorted(block, ends[own]))))
    return out


def _unfolded(at: Floats, shapes: list[tuple[list[int], Floats]]) -> Floats:
    """Put motifs in their own shapes where they lie in a layout, turned or mirrored to fit best."""
    at = at.copy()
    for block, shape in shapes:
        middle = at[block].mean(axis=0)
        gap, own = at[block] - middle, shape - shape.mean(axis=0)
        left, _, right = np.linalg.svd(own.T @ gap)
        at[block] = own @ left @ right + middle
    return at


def _repaired(springs: _Springs, at: Floats, ends: NDArray[np.int64]) -> tuple[Floats, int]:
    """Swap ends of crossing edges and relax the layout again, while that leaves fewer crossings.

    Stress has local minima in which a small cycle (a house, say) lies folded; a swap unfolds it.
    """
    crossing = _crossings(at, ends)
    rounds = 10
    while 0 < len(crossing) <= 20 and rounds:
        rounds -= 1
        sides = [(0, 0), (0, 1), (1, 0), (1, 1)]
        for u, v in [(ends[i, s], ends[j, t]) for i, j in crossing[:4] for s, t in sides]:
            swapped = at.copy()
            swapped[[u, v]] = at[[v, u]]
            swapped = springs.relax(swapped)
            left = _crossings(swapped, ends)
            if len(left) < len(crossing):
                at, crossing = swapped, left
                break
        else:
            break
    return at, len(crossing)


def _crossings(at: Floats, ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find pairs of edges that cross or touch, ``[c, 2]``; edges that share a node do not count."""
    a, b = at[ends[:, 0]], at[ends[:, 1]]

    def side(p: Floats, q: Floats, r: Floats) -> Floats:
        return (q[..., 0] - p[..., 0]) * (r[..., 1] - p[..., 1]) - (q[..., 1] - p[..., 1]) * (
            r[..., 0] - p[..., 0]
        )

    apart = side(a[:, None], b[:, None], a[None]) * side(a[:, None], b[:, None], b[None])
    touching = (ends[:, None, :, None] == ends[None, :, None, :]).any(axis=(2, 3))
    return np.argwhere(np.triu((apart <= 0) & (apart.T <= 0) & ~touching))


class _Springs:
    """Springs between all pairs of nodes, with rest lengths and relative stiffness [n, n]."""

    def __init__(self, distances: Floats, stiff: Floats) -> None:
        n = len(distances)
        self.distances = distances
        self.weights = stiff * (distances + np.eye(n)) ** -2.0
        np.fill_diagonal(self.weights, 0)
        laplacian = np.diag(self.weights.sum(axis=1)) - self.weights
        self.inverse = np.asarray(np.linalg.inv(laplacian + 1.0 / n) - 1.0 / n, np.float64)

    def spread(self, noise: float = 0.05) -> Floats:
        """Make a start by classical scaling, ``[n, 2]``; noise separates symmetric nodes."""
        n = len(self.distances)
        random = np.random.default_rng(0)
        squares = self.distances**2
        rows = squares.mean(axis=1)
        product = -0.5 * (squares - rows[:, None] - rows[None] + rows.mean())
        # The two leading directions by power iteration: a start need not be exact.
        axes = random.normal(size=(n, 2))
        for _ in range(30):
            axes = _times(product, axes)
            axes[:, 0] /= max(float(np.linalg.norm(axes[:, 0])), 1e-9)
            axes[:, 1] -= axes[:, 0] * (axes[:, 0] * axes[:, 1]).sum()
            axes[:, 1] /= max(float(np.linalg.norm(axes[:, 1])), 1e-9)
        at = axes * np.sqrt(np.linalg.norm(_times(product, axes), axis=0))
        return at + random.normal(scale=noise, size=at.shape)

    def relax(self, at: Floats) -> Floats:
        """Move the nodes from ``at`` to the nearest minimum of the stress, ``[n, 2]``."""
        before = np.inf
        tolerance = 1e-5 if len(at) <= SEVERAL_STARTS else 1e-4
        for _ in range(300):
            now = _apart(at)
            stress = self._stress(now)
            if before - stress < tolerance * stress:
                break
            before = stress
            pull = -self.weights * self.distances / np.maximum(now, 1e-9)
            np.fill_diagonal(pull, -pull.sum(axis=1))
            at = _times(self.inverse, _times(pull, at))
        return at

    def stress(self, at: Floats) -> float:
        """Measure how far the layout is from the rest lengths."""
        return self._stress(_apart(at))

    def _stress(self, now: Floats) -> float:
        return float((self.weights * (now - self.distances) ** 2).sum())


def _times(matrix: Floats, at: Floats) -> Floats:
    # Not `@`: BLAS wakes its threads for every small product, which on a busy machine costs a
    # hundred times as much as the product itself.
    return np.einsum("ij,jk->ik", matrix, at)


def _apart(at: Floats) -> Floats:
    x, y = (np.subtract.outer(at[:, axis], at[:, axis]) for axis in (0, 1))
    return np.sqrt(x * x + y * y)


def _signs(at: Floats) -> Floats:
    """Return the signs [2] that make the farthest coordinate of each axis positive."""
    return np.where(at[np.abs(at).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)


def _lying(at: Floats) -> Floats:
    """Turn a layout so that its long side is horizontal, which fits pages and titles best."""
    at = at - at.mean(axis=0)
    _, axes = np.linalg.eigh(at.T @ at)
    turned = at @ axes[:, ::-1]
    return turned * _signs(turned)


def _side_by_side(places: list[Floats]) -> list[Floats]:
    """Place components in rows, the biggest first; the whole is about twice as wide as high."""
    sizes = [at.max(axis=0) + GAP if len(at) else np.zeros(2) for at in places]
    if not sizes:
        return []
    area = sum(float(size.prod()) for size in sizes)
    width = max(max(float(size[0]) for size in sizes), float(np.sqrt(2.0 * area)))
    rows: list[list[int]] = [[]]
    used = 0.0
    for number, size in enumerate(sizes):
        if rows[-1] and used + size[0] > width + 1e-9:
            rows.append([])
            used = 0.0
        rows[-1].append(number)
        used += size[0]
    out: list[Any] = [None] * len(places)
    bottom = 0.0
    for row in reversed(rows):
        height = max(sizes[number][1] for number in row)
        left = 0.0
        for number in row:
            spare = (height - sizes[number][1]) / 2
            out[number] = places[number] + np.array([left, bottom + spare])
            left += sizes[number][0]
        bottom += height
    return out
