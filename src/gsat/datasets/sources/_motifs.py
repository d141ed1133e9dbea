"""Parts of the generated data sets: random trees, motifs, and attaching them.

All draws come from ``random_sample``, whose stream numpy has frozen; the graphs are the same on
every machine and with every version of numpy and networkx.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gsat.datasets.source import DatasetOptions

if TYPE_CHECKING:
    from gsat.graphs import GraphStore


class GeneratedOptions(DatasetOptions):
    """Options of data sets whose graphs are generated."""

    graphs: int = Field(1000, ge=10, description="number of graphs to generate")


Edge = tuple[int, int]

TREE_NODES: Final = 20  # of the trees of BA-2Motifs; every later node belongs to a motif
FEATURES: Final = 10
# Edges among the five motif nodes, numbered as in the published BA-2Motifs; node 0 is the one that
# is joined to the base.
CYCLE: Final[tuple[Edge, ...]] = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
HOUSE: Final[tuple[Edge, ...]] = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4))


def integers(rng: np.random.RandomState, below: int, size: int) -> NDArray[np.int64]:
    """Draw integers uniformly.

    ``randint`` would draw differently where C's long has 32 bits.
    """
    return np.floor(rng.random_sample(size) * below).astype(np.int64)


def random_trees(rng: np.random.RandomState, graphs: int) -> NDArray[np.uint8]:
    """Draw Barabási–Albert trees of ``TREE_NODES`` nodes.

    The process of ``networkx.barabasi_albert_graph(TREE_NODES, 1)``, run on all graphs at once:
    each new node joins an end, drawn uniformly, of the edges so far.
    """
    rows = np.arange(graphs)
    adjacency = np.zeros((graphs, TREE_NODES, TREE_NODES), dtype=np.uint8)
    adjacency[:, 0, 1] = 1
    ends = np.zeros((graphs, 2 * (TREE_NODES - 1)), dtype=np.int64)
    ends[:, 1] = 1
    for node in range(2, TREE_NODES):
        target = ends[rows, integers(rng, 2 * (node - 1), graphs)]
        adjacency[rows, target, node] = 1
        ends[:, 2 * (node - 1)] = target
        ends[:, 2 * (node - 1) + 1] = node
    return adjacency | adjacency.transpose(0, 2, 1)


def join_motif(
    adjacency: NDArray[np.uint8],
    graphs: NDArray[np.int64],
    joint: NDArray[np.int64],
    first: int,
    motif: Sequence[Edge],
) -> None:
    """Add a motif from node ``first`` on, and an edge from there to the base node ``joint``."""
    adjacency[graphs, joint, first] = adjacency[graphs, first, joint] = 1
    for u, v in motif:
        adjacency[graphs, first + u, first + v] = adjacency[graphs, first + v, first + u] = 1


def store_from_adjacency(
    adjacency: NDArray[np.uint8],
    sizes: NDArray[np.int64],
    label: NDArray[np.int64],
    classes: tuple[str, str],
) -> GraphStore:
    """Make a store of dense adjacencies: both directions, row by row; constant features."""
    from gsat.graphs import GraphStore
    from gsat.graphs.build import offsets

    graph, src, dst = np.nonzero(adjacency)
    node_ptr = offsets(sizes)
    node = np.arange(node_ptr[-1]) - np.repeat(node_ptr[:-1], sizes)
    return GraphStore.from_arrays(
        node_ptr=node_ptr,
        edge_ptr=offsets(np.bincount(graph, minlength=len(label))),
        edge_index=np.stack([src, dst]),
        x=np.full((len(node), FEATURES), 0.1, dtype=np.float32),
        y=label.astype(np.float32)[:, None],
        node_truth=(node >= TREE_NODES).astype(np.float32),
        # No edge joins two motifs, so an edge between motif nodes lies within one motif.
        edge_truth=((src >= TREE_NODES) & (dst >= TREE_NODES)).astype(np.float32),
        meta={"classes": list(classes)},
    )


def barabasi_albert(rng: np.random.RandomState, nodes: int, per_node: int) -> list[Edge]:
    """Draw a Barabási–Albert graph by the process of ``networkx.barabasi_albert_graph``.

    A star, to which each new node is joined by edges to nodes drawn by their degree.
    """
    edges = [(0, leaf) for leaf in range(1, per_node + 1)]
    ends = [end for edge in edges for end in edge]
    for node in range(per_node + 1, nodes):
        joined: set[int] = set()
        while len(joined) < per_node:
            joined.add(ends[int(integers(rng, len(ends), 1)[0])])
        edges += [(target, node) for target in sorted(joined)]
        ends += [end for target in sorted(joined) for end in (target, node)]
    return edges


def attach_motifs(
    rng: np.random.RandomState,
    base_nodes: int,
    base: Sequence[Edge],
    motif: Sequence[Edge],
    places: Sequence[int],
    motifs: int,
    noise: float,
    classes: Sequence[str],
) -> GraphStore:
    """Make one graph of motifs on a base, labelled by node; both directions of edges, sorted.

    The first node of each motif is joined to a base node of its own, drawn uniformly. Then random
    edges are added between nodes without one.
    """
    from gsat.graphs import GraphStore

    size, nodes = len(places), base_nodes + len(places) * motifs
    known = np.zeros((nodes, nodes), dtype=bool)
    true = np.zeros((nodes, nodes), dtype=bool)
    for u, v in base:
        known[u, v] = known[v, u] = True
    # An argsort of uniform draws is a shuffle with a frozen stream.
    joints = np.argsort(rng.random_sample(base_nodes), kind="stable")[:motifs]
    for number, joint in enumerate(joints):
        first = base_nodes + size * number
        known[joint, first] = known[first, joint] = True
        for u, v in motif:
            true[first + u, first + v] = true[first + v, first + u] = True
    known |= true
    left = int(noise * nodes)
    while left:
        u, v = integers(rng, nodes, 2)
        if u != v and not known[u, v]:
            known[u, v] = known[v, u] = True
            left -= 1
    edges = np.stack(np.nonzero(known))
    label = np.concatenate([np.zeros(base_nodes, dtype=np.int64), np.tile(places, motifs)])
    return GraphStore.from_arrays(
        node_ptr=[0, nodes],
        edge_ptr=[0, edges.shape[1]],
        edge_index=edges,
        x=np.ones((nodes, 1), dtype=np.float32),
        node_y=label,
        node_truth=(label > 0).astype(np.float32),
        edge_truth=true[edges[0], edges[1]].astype(np.float32),
        meta={"classes": list(classes)},
    )
