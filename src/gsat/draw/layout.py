"""Positions of the nodes of a picture: the same graph always gets the same layout.

A component is laid out by stress majorisation (Gansner, Koren, North 2004). It minimises the energy
of Kamada and Kawai, so it gives their pictures, but it takes 0.5 s for 400 nodes where the L-BFGS
form in networkx takes 10 s. Above ``STRESS_LIMIT`` nodes the distances cost too much and networkx's
spring layout takes over. Components stand side by side; one unit is the length of an edge.

Three things make structure visible. Edges of a node with many neighbours are longer, so that these
have room around it: a wheel is round. Small rings and motifs keep their own shape. A few
edges that join distant parts of a regular graph (such as a ladder) do not bend it.
"""

from __future__ import annotations

import heapq
from typing import Any, Final

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Bools = NDArray[np.bool_]
STRESS_LIMIT: Final = 1000
SEVERAL_STARTS: Final = 120
GAP: Final = 1.0  # between components
_SMALL: Final = 12  # nodes of a graph that is drawn by its faces, if springs make edges cross
_STIFF: Final = 25.0  # how much stiffer its springs are
_CENTRAL: Final = 12.0  # how much stiffer springs to the centre are
_MOTIF: Final = 12  # nodes of the largest ring or motif that keeps its shape
_DETOUR: Final = 4.0  # a shortcut is an edge that saves more than this
_FEW: Final = 0.1  # largest share of edges that are treated as shortcuts
_HUB: Final = 0.6  # smallest share of the nodes that a hub is joined to
_SPACING: Final = 0.65  # between the neighbours around a node


def layout(num_nodes: int, edges: Numbers, centre: int | None = None) -> Floats:
    """Lay out the nodes of a graph."""
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
        found = nx.spring_layout(graph, seed=0, iterations=50)
        at = np.array([found[node] for node in nodes])
    if centre not in place:  # else the distances from there are right already
        drawn = np.linalg.norm(at[ends[:, 0]] - at[ends[:, 1]], axis=1)
        at = at / max(float(np.median(drawn / lengths)), 1e-9)
    at = _lying(at)
    return at - at.min(axis=0)


def _distances(count: int, ends: Numbers, lengths: Floats) -> Floats:
    joined = coo_array((lengths, (ends[:, 0], ends[:, 1])), shape=(count, count))
    return np.asarray(shortest_path(joined.tocsr(), directed=False), dtype=np.float64)


def _untangled(
    graph: nx.Graph,
    nodes: list[int],
    ends: Numbers,
    lengths: Floats,
    kept: Bools,
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


def _shapes(graph: nx.Graph, nodes: list[int], ends: Numbers) -> list[tuple[list[int], Floats]]:
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


def _repaired(springs: _Springs, at: Floats, ends: Numbers) -> tuple[Floats, int]:
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


def _crossings(at: Floats, ends: Numbers) -> Numbers:
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


# -- structure of a graph: hubs, motifs, shortcuts, faces -----------------------------------------


def structure(count: int, ends: Numbers) -> tuple[Floats, Bools]:
    """Find how long edges should be, and which edges a layout is made of, ``[e]`` each.

    Shortcuts are ignored. If the graph without them is planar, the neighbours of a node get room on
    a circle around it.
    """
    lengths, kept = _lengths(count, ends), np.ones(len(ends), dtype=bool)
    if len(ends) <= 2.5 * count:
        kept = ~_shortcuts(count, ends, lengths)
        if nx.check_planarity(nx.Graph(ends[kept].tolist()))[0]:
            return lengths, kept
    return np.ones(len(ends)), kept


def _shortcuts(count: int, ends: Numbers, lengths: Floats) -> Bools:
    """Mark the edges, ``[e]``, that join distant parts of a regular graph, if they are few.

    These are edges that lie on no small ring, and without which the graph is still connected.
    """
    out = np.zeros(len(ends), dtype=bool)
    if len(ends) < 20:
        return out
    graph = nx.Graph()
    graph.add_weighted_edges_from(
        (int(u), int(v), length) for (u, v), length in zip(ends, lengths, strict=True)
    )
    # Around a hub, any two nodes are near each other: consider only edges beside it.
    degree = np.bincount(ends.reshape(-1), minlength=count)
    hub = _hub(degree)
    joined, doubtful = nx.utils.UnionFind(range(count)), []
    for number, (u, v) in enumerate(ends.tolist()):
        if hub in (u, v):
            continue
        if _bypassed(graph, u, v):
            joined.union(u, v)
        else:
            doubtful.append(number)
    if hub >= 0:  # what joins its neighbours is the rim, or a shortcut
        rim = _chain(count, ends, hub)
        out = _on_rim(count, ends, hub) & ~rim
        for number in np.flatnonzero(rim).tolist():
            joined.union(*ends[number].tolist())
        doubtful = [number for number in doubtful if not (rim[number] or out[number])]
    for number in doubtful:
        u, v = ends[number].tolist()
        out[number] = joined[u] == joined[v]
        joined.union(u, v)
    return out if out.mean() <= _FEW else np.zeros(len(ends), dtype=bool)


def _bypassed(graph: nx.Graph, u: int, v: int) -> bool:
    """Whether another path from u to v is at most ``_DETOUR`` longer than their edge."""
    limit = graph[u][v]["weight"] + _DETOUR
    best, front = {u: 0.0}, [(0.0, u)]
    while front:
        so_far, node = heapq.heappop(front)
        if node == v:
            return True
        for other, edge in graph[node].items():
            total = so_far + edge["weight"]
            direct = node == u and other == v
            if total <= limit and not direct and total < best.get(other, np.inf):
                best[other] = total
                heapq.heappush(front, (total, other))
    return False


def motifs(graph: nx.Graph, nodes: list[int]) -> list[list[int]]:
    """List the motifs: small parts that stay connected without any one of their nodes."""
    place = {node: i for i, node in enumerate(nodes)}
    found = [sorted(place[node] for node in block) for block in nx.biconnected_components(graph)]
    return [block for block in found if 3 <= len(block) <= _MOTIF]


def planar_places(graph: nx.Graph, nodes: list[int]) -> list[Floats]:
    """Find positions without crossings, if there are any, ``[n, 2]`` each.

    The first are Tutte's: the largest face is a regular polygon, and every other node is in the
    middle of its neighbours. The second are on a grid.
    """
    planar, embedding = nx.check_planarity(graph)
    if not planar:
        return []
    found = nx.combinatorial_embedding_to_pos(embedding)
    on_grid = np.array([found[node] for node in nodes], dtype=float)
    rim = _largest_face(embedding)
    if len(set(rim)) < max(len(rim), 3):  # it passes a node twice
        return [on_grid]
    place = {node: i for i, node in enumerate(nodes)}
    pull, target = np.eye(len(nodes)), np.zeros((len(nodes), 2))
    for node in nodes:
        if node not in rim:
            pull[place[node], [place[other] for other in graph[node]]] = -1 / len(graph[node])
    turn = 2 * np.pi * np.arange(len(rim)) / len(rim)
    target[[place[node] for node in rim]] = np.column_stack([np.cos(turn), np.sin(turn)])
    return [np.asarray(np.linalg.solve(pull, target), np.float64), on_grid]


def _largest_face(embedding: nx.PlanarEmbedding) -> list[int]:
    seen: set[tuple[int, int]] = set()
    faces: list[list[int]] = []
    for u, v in embedding.edges:
        if (u, v) not in seen:
            faces.append(list(embedding.traverse_face(u, v, seen)))
    return max(faces, key=len)


def around_hub(count: int, ends: Numbers, kept: Bools, lengths: Floats) -> list[Floats]:
    """Place the neighbours of a hub on a circle around it, if there is one, ``[n, 2]``."""
    hub = _hub(np.bincount(ends.reshape(-1), minlength=count))
    if hub < 0:
        return []
    rim = nx.Graph(ends[_chain(count, ends, hub)].tolist())
    order: list[int] = []
    for chain in sorted(nx.connected_components(rim), key=min):
        tips = sorted(node for node in chain if rim.degree[node] == 1) or sorted(chain)
        order += nx.dfs_preorder_nodes(rim, tips[0])
    graph = nx.Graph(ends[kept].tolist())
    order += sorted(set(graph[hub]) - set(order))
    turn = {node: 2 * np.pi * i / len(order) for i, node in enumerate(order)}
    out = np.zeros((count, 2))
    for depth, layer in enumerate(nx.bfs_layers(graph, hub)):
        for node in sorted(set(layer) - {hub}):
            near = [turn[other] for other in sorted(graph[node]) if other in turn]
            turn.setdefault(node, near[0] + 0.02 * (node % 5) if near else 0.0)
            out[node] = depth * np.array([np.cos(turn[node]), np.sin(turn[node])])
    return [float(lengths.max()) * out]


def _hub(degree: Numbers) -> int:
    """Return the node that is joined to most others; -1 if there is none."""
    return int(degree.argmax()) if degree.max() >= _HUB * len(degree) else -1


def _on_rim(count: int, ends: Numbers, hub: int) -> Bools:
    """Mark the edges, ``[e]``, that join two neighbours of a hub."""
    around = np.zeros(count, dtype=bool)
    around[ends[(ends == hub).any(axis=1)].reshape(-1)] = True
    around[hub] = False
    return np.asarray(around[ends].all(axis=1))


def _chain(count: int, ends: Numbers, hub: int) -> Bools:
    """Mark the edges, ``[e]``, that make the neighbours of a hub a chain, or several.

    Chains start at nodes without other edges, or between nodes that are neighbours in the order of
    the data.
    """
    degree = np.bincount(ends.reshape(-1), minlength=count)
    joined, links = nx.utils.UnionFind(range(count)), np.zeros(count, dtype=np.int64)
    out = np.zeros(len(ends), dtype=bool)
    for number in sorted(
        np.flatnonzero(_on_rim(count, ends, hub)).tolist(),
        key=lambda i: (int(degree[ends[i]].min()), abs(int(np.diff(ends[i])[0]))),
    ):
        u, v = ends[number].tolist()
        if joined[u] != joined[v] and max(links[u], links[v]) < 2:
            joined.union(u, v)
            links[[u, v]] += 1
            out[number] = True
    return out


def _lengths(count: int, ends: Numbers) -> Floats:
    """Return lengths of edges that give the neighbours of a node room on a circle around it."""
    both = np.vstack([ends, ends[:, ::-1]])
    joined = coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(count, count)).tocsr()
    degree = np.bincount(both[:, 0], minlength=count)
    shared = np.asarray((joined @ joined)[ends[:, 0], ends[:, 1]]).reshape(-1)
    own = np.maximum(degree[ends[:, 0]], degree[ends[:, 1]]) - shared
    lengths = np.maximum(1.0, _SPACING * own / (2 * np.pi))
    hub = _hub(degree)
    if hub >= 0 and lengths.max() > 1:
        lengths[_on_rim(count, ends, hub)] = _SPACING
    return lengths
