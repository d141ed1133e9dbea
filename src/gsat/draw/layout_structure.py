"""What a graph is made of, as far as its layout depends on it: hubs, motifs, shortcuts, faces."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import networkx as nx

Floats = NDArray[np.float64]
_MOTIF: Final = 12  # nodes of the largest ring or motif that keeps its shape
_DETOUR: Final = 4.0  # an edge saves more than that, or is no shortcut
_FEW: Final = 0.1  # the largest share of shortcuts that is left out
_HUB: Final = 0.6  # share of the nodes that a hub is joined to
_SPACING: Final = 0.65  # of the neighbours around a node


def structure(count: int, ends: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
    """Find how long edges should be, and which edges a layout is made of, ``[e]`` each.

    Shortcuts have no say. Where a graph without them is planar, neighbours of a node get room on a
    circle around it.
    """
    import networkx as nx

    lengths, kept = _lengths(count, ends), np.ones(len(ends), dtype=bool)
    if len(ends) <= 2.5 * count:
        kept = ~_shortcuts(count, ends, lengths)
        if nx.check_planarity(nx.Graph(ends[kept].tolist()))[0]:
            return lengths, kept
    return np.ones(len(ends)), kept


def _shortcuts(count: int, ends: NDArray[np.int64], lengths: Floats) -> NDArray[np.bool_]:
    """Mark the edges, ``[e]``, that join distant parts of a regular graph, if they are few.

    These are edges that lie on no small ring, and without which the graph is still connected.
    """
    import networkx as nx

    out = np.zeros(len(ends), dtype=bool)
    if len(ends) < 20:
        return out
    graph = nx.Graph()
    graph.add_weighted_edges_from(
        (int(u), int(v), length) for (u, v), length in zip(ends, lengths, strict=True)
    )
    # Around a hub, any two nodes are near each other: only edges beside it can tell.
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
    """Whether there is another way from u to v that is hardly longer than their edge."""
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
    import networkx as nx

    place = {node: i for i, node in enumerate(nodes)}
    found = [sorted(place[node] for node in block) for block in nx.biconnected_components(graph)]
    return [block for block in found if 3 <= len(block) <= _MOTIF]


def planar_places(graph: nx.Graph, nodes: list[int]) -> list[Floats]:
    """Find places without crossings, if there are any, ``[n, 2]`` each.

    The first are Tutte's: the largest face is a regular polygon, and every other node is in the
    middle of its neighbours. The second are on a grid.
    """
    import networkx as nx

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


def around_hub(
    count: int, ends: NDArray[np.int64], kept: NDArray[np.bool_], lengths: Floats
) -> list[Floats]:
    """Place the neighbours of a hub on a circle around it, if there is one, ``[n, 2]``."""
    import networkx as nx

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


def _hub(degree: NDArray[np.int64]) -> int:
    """Return the node that most others are joined to; -1 if there is none."""
    return int(degree.argmax()) if degree.max() >= _HUB * len(degree) else -1


def _on_rim(count: int, ends: NDArray[np.int64], hub: int) -> NDArray[np.bool_]:
    """Mark the edges, ``[e]``, that join two neighbours of a hub."""
    around = np.zeros(count, dtype=bool)
    around[ends[(ends == hub).any(axis=1)].reshape(-1)] = True
    around[hub] = False
    return np.asarray(around[ends].all(axis=1))


def _chain(count: int, ends: NDArray[np.int64], hub: int) -> NDArray[np.bool_]:
    """Mark the edges, ``[e]``, that make the neighbours of a hub a chain, or several.

    A chain is best begun at nodes that are on nothing else, or between nodes that are neighbours in
    the order of the data.
    """
    import networkx as nx

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


def _lengths(count: int, ends: NDArray[np.int64]) -> Floats:
    """Return how long edges should be: neighbours of one node have room on a circle around it."""
    from scipy.sparse import coo_array

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
