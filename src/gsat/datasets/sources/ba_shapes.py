"""BA-Shapes: one graph, houses hung on a Barabási–Albert graph; which place has a node in a house?

After GNNExplainer (Ying et al., 2019): 300 base nodes with 5 edges each, 80 houses, and a tenth as
many random edges as there are nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.datasets.sources.ba2motifs import HOUSE, integers
from gsat.datasets.splits import shuffled
from gsat.errors import DataError
from gsat.graphs import GraphStore
from gsat.tasks import Task

VERSION: Final = 1
TASK: Final = Task("multiclass", 4, level="node")
SPLIT_OPTIONS: Final[frozenset[str]] = frozenset()

BASE: Final = 300
PER_NODE: Final = 5  # edges that a new base node brings
# Of the five nodes of a house: walls' upper ends, their lower ends, the roof. 0 is the base.
PLACES: Final = (1, 1, 2, 2, 3)

Edge = tuple[int, int]


def build(name: str, options: Mapping[str, Any]) -> GraphStore:
    """The graph: base nodes first, then house after house."""
    rng = np.random.RandomState(options["data_seed"])
    base = barabasi_albert(rng, BASE, PER_NODE)
    return hung(
        rng,
        BASE,
        base,
        HOUSE,
        PLACES,
        options["motifs"],
        noise=0.1,
        classes=("base", "middle", "bottom", "roof"),
    )


def split(store: GraphStore, seed: int, options: Mapping[str, Any]) -> dict[str, NDArray[np.int64]]:
    """80/10/10 of the nodes."""
    return shuffled(store.num_nodes, seed)


def matches_paper(name: str, options: Mapping[str, Any]) -> str:
    """``different``: the paper has no node-level data."""
    return "different"


def barabasi_albert(rng: np.random.RandomState, nodes: int, per_node: int) -> list[Edge]:
    """The process of ``networkx.barabasi_albert_graph``: a star, then each new node joins
    ``per_node`` distinct nodes drawn by their degree."""
    edges = [(0, leaf) for leaf in range(1, per_node + 1)]
    ends = [end for edge in edges for end in edge]
    for node in range(per_node + 1, nodes):
        joined: set[int] = set()
        while len(joined) < per_node:
            joined.add(ends[int(integers(rng, len(ends), 1)[0])])
        edges += [(target, node) for target in sorted(joined)]
        ends += [end for target in sorted(joined) for end in (target, node)]
    return edges


def hung(
    rng: np.random.RandomState,
    base_nodes: int,
    base: Sequence[Edge],
    motif: Sequence[Edge],
    places: Sequence[int],
    motifs: int,
    noise: float,
    classes: Sequence[str],
) -> GraphStore:
    """One graph with motifs on a base, labelled by node; both directions of every edge, sorted.

    The first node of each motif is joined to its own base node, drawn evenly; then ``noise`` times
    as many edges as there are nodes are added between nodes without one. Truth is the edges of the
    motifs, without joints and random edges.

    Args:
        places: the class of each motif node; base nodes are of class 0. classes: names.
    """
    if not 1 <= motifs <= base_nodes:
        raise DataError(f"data option 'motifs' lies between 1 and {base_nodes}, not at {motifs}")
    size, nodes = len(places), base_nodes + len(places) * motifs
    known = np.zeros((nodes, nodes), dtype=bool)
    true = np.zeros((nodes, nodes), dtype=bool)
    for u, v in base:
        known[u, v] = known[v, u] = True
    # The frozen stream again: an argsort of even draws is a shuffle on every machine.
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
