"""One graph of motifs on a base, after GNNExplainer (Ying et al., 2019): where is each node?

BA-Shapes: 80 houses on a Barabási–Albert graph of 300 nodes with 5 edges each, and a tenth as many
random edges as there are nodes. Tree-Cycles: 80 six-cycles on a binary tree of depth 8 (511 nodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from pydantic import Field

from gsat.core.registry import register_dataset
from gsat.datasets.source import DatasetOptions, DatasetSource
from gsat.datasets.sources._motifs import HOUSE, Edge, barabasi_albert, integers

if TYPE_CHECKING:
    from gsat.graphs import GraphStore

BA_NODES: Final = 300
PER_NODE: Final = 5  # edges of each new base node
TREE_NODES: Final = 2**9 - 1
SIX_CYCLE: Final = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))
# Labels of the five nodes of a house: the walls' upper ends, their lower ends, the roof.
HOUSE_LABELS: Final = (1, 1, 2, 2, 3)


@register_dataset("ba-shapes")
class BAShapes(DatasetSource):
    """One graph, 80 houses on a Barabási–Albert graph: where in a house is a node?"""

    class Options(DatasetOptions):
        motifs: int = Field(80, ge=1, le=BA_NODES, description="number of houses")

    task_settings: ClassVar = {"kind": "multiclass", "classes": 4, "level": "node"}

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Generate the graph: base nodes first, then house after house."""
        rng = np.random.RandomState(data_seed)
        base = barabasi_albert(rng, BA_NODES, PER_NODE)
        classes = ("base", "middle", "bottom", "roof")
        return _attach(rng, base, HOUSE, HOUSE_LABELS, options.motifs, classes, noise=0.1)


@register_dataset("tree-cycles")
class TreeCycles(DatasetSource):
    """One graph, 80 six-cycles on a binary tree: is a node in a cycle?"""

    class Options(DatasetOptions):
        motifs: int = Field(80, ge=1, le=TREE_NODES, description="number of cycles")

    task_settings: ClassVar = {"kind": "multiclass", "classes": 2, "level": "node"}

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Generate the graph: tree nodes by level, then cycle after cycle."""
        rng = np.random.RandomState(data_seed)
        tree = [((node - 1) // 2, node) for node in range(1, TREE_NODES)]
        return _attach(rng, tree, SIX_CYCLE, (1,) * 6, options.motifs, ("tree", "cycle"))


def _attach(
    rng: np.random.RandomState,
    base: Sequence[Edge],
    motif: Sequence[Edge],
    labels: Sequence[int],
    motifs: int,
    classes: Sequence[str],
    noise: float = 0.0,
) -> GraphStore:
    """One graph of motifs on a base, labelled by node; both directions of edges, sorted.

    The first node of each motif is joined to a base node of its own, drawn uniformly. Then random
    edges are added between nodes without one.
    """
    from gsat.graphs import GraphStore

    base_nodes = 1 + max(max(edge) for edge in base)
    nodes = base_nodes + len(labels) * motifs
    known = np.zeros((nodes, nodes), dtype=bool)
    true = np.zeros((nodes, nodes), dtype=bool)
    for u, v in base:
        known[u, v] = known[v, u] = True
    # An argsort of uniform draws is a shuffle with a frozen stream.
    joints = np.argsort(rng.random_sample(base_nodes), kind="stable")[:motifs]
    for number, joint in enumerate(joints):
        first = base_nodes + len(labels) * number
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
    label = np.concatenate([np.zeros(base_nodes, dtype=np.int64), np.tile(labels, motifs)])
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
