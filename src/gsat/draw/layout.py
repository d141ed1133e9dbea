"""Positions of the nodes of a picture: the same graph always gets the same layout.

A component is laid out by stress majorisation (Gansner, Koren, North 2004). It minimises the energy
of Kamada and Kawai, so it gives their pictures, but it takes 0.1 s where the L-BFGS form in
networkx takes 1 s. Above ``STRESS_LIMIT`` nodes the distances cost too much and networkx's
spring layout takes over. Components stand side by side; one unit is the length of an edge.

Three things make structure visible. Edges of a node with many neighbours are longer, so that these
have room around it: a wheel is round. Small rings and motifs keep their own shape. A few
edges that join distant parts of a regular graph (such as a ladder) do not bend it.
"""

from __future__ import annotations

from typing import Final

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import shortest_path

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
STRESS_LIMIT: Final = 1000
SEVERAL_STARTS: Final = 120
GAP: Final = 1.0  # between components
_MOTIF: Final = 12  # nodes of the largest motif that keeps its shape
_STIFF: Final = 25.0  # how much stiffer its springs are
_CENTRAL: Final = 12.0  # how much stiffer springs to the centre are
_FEW: Final = 0.05  # largest share of edges that are treated as shortcuts
_HUB: Final = 0.6  # smallest share of the nodes that a hub is joined to
_SPACING: Final = 0.65  # between the neighbours around a node
_CIRCLE: Final = 2 * np.pi / _SPACING  # neighbours that fit on a circle one unit from a node


def layout(num_nodes: int, edges: Numbers, centre: int | None = None) -> Floats:
    """Lay out the nodes of a graph."""
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from((u, v) for u, v in edges.tolist() if u != v)
    parts = [sorted(part) for part in nx.connected_components(graph)]
    parts.sort(key=lambda part: (-len(part), part[0]))
    places = []
    for part in parts:
        own = nx.convert_node_labels_to_integers(graph.subgraph(part), ordering="sorted")
        places.append(_component(own, part.index(centre) if centre in part else None))
    out = np.zeros((num_nodes, 2))
    for part, at in zip(parts, _side_by_side(places), strict=True):
        out[part] = at
    # Rounded, so that the last bits of a sum never show in a file.
    return (out - out.min(axis=0, initial=0.0)).round(4)


def to_scale(at: Floats) -> Floats | None:
    """Scale given positions to the units of :func:`layout`: nearest nodes are 1 apart."""
    if len(at) < 2:
        return None
    apart = _apart(at)
    np.fill_diagonal(apart, np.inf)
    near = float(np.median(apart.min(axis=1)))
    return ((at - at.min(axis=0)) / near).round(4) if near > 0 else None


def _component(graph: nx.Graph, centre: int | None) -> Floats:
    """Lay out one connected component, ``[n, 2]``, wider than high, from its lower left corner."""
    count = len(graph)
    if count == 1:
        return np.zeros((1, 2))
    skeleton = graph
    if count > STRESS_LIMIT:
        # An iteration compares all pairs of nodes: fewer of them take the same time.
        iterations = max(1, round(50 * (STRESS_LIMIT / count) ** 2))
        positions = nx.spring_layout(graph, seed=0, iterations=iterations)
        at = np.array([positions[node] for node in range(count)])
    else:
        stiff = np.ones((count, count))
        if centre is None:
            skeleton = _skeleton(graph)
        else:
            stiff[centre], stiff[:, centre] = _CENTRAL * count, _CENTRAL * count
        matrix = nx.to_scipy_sparse_array(skeleton, nodelist=range(count))
        distances = np.asarray(shortest_path(matrix, directed=False), dtype=np.float64)
        for motif in motifs(graph) if centre is None else ():
            ends = np.array(graph.subgraph(motif).edges)
            own = np.ix_(motif, motif)
            distances[own] = _apart(layout(len(motif), np.searchsorted(motif, ends)))
            stiff[own] = _STIFF
        at = _untangled(skeleton, _Springs(distances, stiff))
    if centre is None:  # else the distances from there are right already
        ratios = [
            float(np.linalg.norm(at[u] - at[v])) / length
            for u, v, length in skeleton.edges.data("weight", default=1.0)
        ]
        at = at / max(float(np.median(ratios)), 1e-9)
    at = _lying(at)
    return at - at.min(axis=0)


def _untangled(graph: nx.Graph, springs: _Springs) -> Floats:
    """Find a layout without crossings, or the one with the fewest and the least stress."""
    if len(graph) > SEVERAL_STARTS or graph.number_of_edges() > 3 * SEVERAL_STARTS:
        return springs.relax(springs.spread())
    starts = [springs.spread(noise) for noise in (0.05, 0.3, 0.6, 1.0)]
    planar, embedding = nx.check_planarity(graph)
    if planar:
        positions = nx.combinatorial_embedding_to_pos(embedding)
        starts.append(np.array([positions[node] for node in range(len(graph))], dtype=float))
    ends = np.array(graph.edges)
    layouts: list[tuple[int, float, int, Floats]] = []
    for number, start in enumerate(starts):
        at = springs.relax(start)
        layouts.append((len(crossings(at, ends)), springs.stress(at), number, at))
        if not layouts[-1][0]:
            return at
    if planar and len(graph) <= _MOTIF and nx.is_biconnected(graph):
        return _by_faces(graph, embedding)
    return min(layouts)[-1]


def _by_faces(graph: nx.Graph, embedding: nx.PlanarEmbedding) -> Floats:
    """Lay out a biconnected planar graph by Tutte's method.

    The largest face is a regular polygon, and every other node is in the middle of its neighbours.
    """
    rim = max((embedding.traverse_face(u, v) for u, v in embedding.edges), key=len)
    inner = [node for node in graph if node not in rim]
    turn = 2 * np.pi * np.arange(len(rim)) / len(rim)
    at = np.zeros((len(graph), 2))
    at[rim] = np.column_stack([np.cos(turn), np.sin(turn)])
    laplacian = nx.laplacian_matrix(graph, nodelist=range(len(graph))).toarray().astype(float)
    pull = laplacian[np.ix_(inner, rim)] @ at[rim]
    at[inner] = np.linalg.solve(laplacian[np.ix_(inner, inner)], -pull)
    return at


def crossings(at: Floats, ends: Numbers) -> Numbers:
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
        random = np.random.default_rng(0)
        squares = self.distances**2
        rows = squares.mean(axis=1)
        product = -0.5 * (squares - rows[:, None] - rows[None] + rows.mean())
        # The two leading directions by power iteration: a start need not be exact.
        axes = random.normal(size=(len(product), 2))
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
        """Return the weighted squared differences from the rest lengths."""
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


def _lying(at: Floats) -> Floats:
    """Turn a layout so that its long side is horizontal, which fits pages and titles best."""
    at = at - at.mean(axis=0)
    _, axes = np.linalg.eigh(at.T @ at)
    turned = at @ axes[:, ::-1]
    farthest = turned[np.abs(turned).argmax(axis=0), [0, 1]]
    return np.where(farthest < 0, -turned, turned)


def _side_by_side(places: list[Floats]) -> list[Floats]:
    """Place components in rows, the biggest first; the whole is about twice as wide as high."""
    sizes = [at.max(axis=0) + GAP for at in places]
    area = sum(float(size.prod()) for size in sizes)
    width = max([float(np.sqrt(2.0 * area)), *(float(size[0]) for size in sizes)])
    out: list[Floats] = []
    left = floor = height = 0.0  # rows follow downwards
    for at, size in zip(places, sizes, strict=True):
        if left + size[0] > width + 1e-9:
            left, floor, height = 0.0, floor - height, 0.0
        height = max(height, float(size[1]))
        out.append(at + np.array([left, floor - (height + size[1]) / 2]))
        left += float(size[0])
    return out


# -- structure of a graph: motifs, shortcuts, hubs ------------------------------------------------


def motifs(graph: nx.Graph) -> list[list[int]]:
    """List the motifs: small parts that stay connected without any one of their nodes."""
    blocks = [sorted(block) for block in nx.biconnected_components(graph)]
    return [block for block in blocks if 3 <= len(block) <= min(_MOTIF, len(graph) - 1)]


def _skeleton(graph: nx.Graph) -> nx.Graph:
    """Leave out shortcuts, and give edges a length as ``weight``.

    Lengths leave the neighbours of a node room on a circle around it. A graph that is not planar
    without its shortcuts is unchanged.
    """
    hub = max(graph, key=graph.degree)
    crowded = graph.degree[hub] >= max(_HUB * len(graph), _CIRCLE)
    around = set(graph[hub]) if crowded else set()
    shortcuts = _off_rim(graph.subgraph(around)) if around else _beyond_rings(graph)
    out = graph.copy()
    if len(shortcuts) <= _FEW * graph.number_of_edges():
        out.remove_edges_from(shortcuts)
    if not nx.is_planar(out):
        return graph
    for u, v in out.edges:
        crowd = max(graph.degree[u], graph.degree[v]) - len(set(graph[u]) & set(graph[v]))
        on_rim = u in around and v in around
        out[u][v]["weight"] = _SPACING if on_rim else max(1.0, crowd / _CIRCLE)
    return out


def _beyond_rings(graph: nx.Graph) -> list[tuple[int, int]]:
    """List the edges in no ring of three or four between nodes that such rings connect."""
    ringed = [
        (u, v)
        for u, v in graph.edges
        if any(not (set(graph[u]) - {v}).isdisjoint([w, *graph[w]]) for w in set(graph[v]) - {u})
    ]
    joined = nx.utils.UnionFind(graph)
    for u, v in ringed:
        joined.union(u, v)
    return [(u, v) for u, v in set(graph.edges) - set(ringed) if joined[u] == joined[v]]


def _off_rim(around: nx.Graph) -> list[tuple[int, int]]:
    """List the edges among the neighbours of a hub that are not part of chains or rings of them.

    Chains start at nodes without other edges, or between nodes that are neighbours in the order of
    the data.
    """
    links = dict.fromkeys(around, 0)
    out = []
    degree = around.degree
    for u, v in sorted(
        around.edges, key=lambda e: (min(degree[e[0]], degree[e[1]]), abs(e[0] - e[1]))
    ):
        if max(links[u], links[v]) < 2:
            links[u], links[v] = links[u] + 1, links[v] + 1
        else:
            out.append((u, v))
    return out
