"""Spurious-Motif: the class is the motif (cycle, house, crane); the base only correlates with it.

In training the base (tree, ladder, wheel) agrees with the class with probability b, the bias in
the set's name; in validation and test it is drawn uniformly. Test graphs are larger. The rules are
those of the generator published with GSAT, slips included: see docs/data.md.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gsat.core.registry import register_dataset
from gsat.datasets.source import DatasetOptions, DatasetSource, Match

if TYPE_CHECKING:
    from gsat.graphs import GraphStore

TRAIN, VALID, TEST = range(3)
TREE, LADDER, WHEEL = range(3)
FEATURES: Final = 4
PERTURBED: Final = 0.05  # trials to add an edge, as a share of the edges
CLASSES: Final = ("cycle", "house", "crane")
BASES: Final = ("tree", "ladder", "wheel")
# Edges among the five motif nodes, lower number first; node 0 is joined to the base.
MOTIFS: Final = (
    ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)),
    ((0, 1), (0, 4), (1, 2), (1, 4), (2, 3), (3, 4)),
    ((0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (3, 4)),
)

# The parts in which all trees are low, by the option tree_heights.
LOW_TREES: Final[dict[str, tuple[int, ...]]] = {
    "class": (),
    "same": (TRAIN, VALID),
    "same-train": (TRAIN,),
    "same-valid": (VALID,),
}


@register_dataset("spmotif-0.5")
class SpuriousMotif(DatasetSource):
    """Spurious-Motif with any bias, such as spmotif-0.5, spmotif-0.7 or spmotif-0.9."""

    class Options(DatasetOptions):
        undirected: bool = Field(
            False, description="store both directions (the published set has one)"
        )
        tree_heights: Literal["class", "same", "same-train", "same-valid"] = Field(
            "class",
            description="'class': heights depend on the class in train, as published; 'same': low "
            "trees for all classes in train and valid; 'same-train', 'same-valid': in one of them",
        )
        train_per_class: int = Field(
            3000,
            le=50_000,
            ge=3,
            description="training graphs per class; 1/3 for valid, 2/3 for test",
        )

    pattern = r"spmotif-(0(\.\d+)?|1(\.0+)?|\.\d+)"
    recipe = "spmotif"
    in_paper = True
    task_settings: ClassVar = {"kind": "multiclass", "classes": 3}

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Generate train, then validation, then test graphs, class by class within each.

        ``base`` ``[G]`` is the kind of base (0 tree, 1 ladder, 2 wheel), ``split`` ``[G]`` the
        part (0 train, 1 valid, 2 test).
        """
        bias = float(name.removeprefix("spmotif-"))
        rng = np.random.RandomState([data_seed, round(bias * 10**6)])
        train = options.train_per_class
        columns = []
        edges: list[list[tuple[int, int]]] = []
        for part, count in enumerate((train, train // 3, 2 * train // 3)):
            for motif in range(3):
                base = _bases(rng, bias if part == TRAIN else 1 / 3, motif, count)
                width = _widths(rng, base, part, motif, options.tree_heights)
                arity = 2 + np.floor(2 * rng.random_sample(count)).astype(np.int64)
                nodes = np.empty(count, dtype=np.int64)
                for i, kind in enumerate(np.stack([base, width, arity], axis=1).tolist()):
                    base_nodes, base_edges = _base_graph(*kind)
                    edges.append(_attach(rng, base_nodes, base_edges, motif))
                    nodes[i] = base_nodes + 5
                columns.append((nodes, base, np.full(count, motif), np.full(count, part)))
        nodes, base, label, part_of = (np.concatenate(c) for c in zip(*columns, strict=True))
        return _store(rng, nodes, edges, base, label, part_of, options.undirected)

    def matches_paper(self, name: str, options: Options) -> Match:
        """``rebuilt`` for the paper's biases and rules."""
        bias = float(name.removeprefix("spmotif-"))
        faithful = options == self.Options.model_validate({}) and bias in (0.5, 0.7, 0.9)
        return "rebuilt" if faithful else "different"


def _bases(rng: np.random.RandomState, agree: float, motif: int, count: int) -> NDArray[np.int64]:
    """The kind of each base ``[count]``: that of the motif with probability ``agree``."""
    agrees = rng.random_sample(count) < agree
    other = (motif + 1 + (rng.random_sample(count) < 0.5)) % 3
    return np.where(agrees, motif, other).astype(np.int64)


def _widths(
    rng: np.random.RandomState, base: NDArray[np.int64], part: int, motif: int, heights: str
) -> NDArray[np.int64]:
    """Height of a tree, half the nodes of a ladder, nodes of a wheel, by base ``[count]``."""
    if part == TEST:
        low, high = (3, 30, 60), (6, 50, 80)
    else:
        # Published: in training only class 0 has tall trees, so that size gives the class away.
        tall = part not in LOW_TREES[heights] and (part == VALID or motif == TREE)
        low, high = (3 if tall else 0, 8, 15), (4 if tall else 3, 12, 20)
    start, stop = np.array(low)[base], np.array(high)[base]
    return start + np.floor((stop - start) * rng.random_sample(len(base))).astype(np.int64)


@cache
def _base_graph(base: int, width: int, arity: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Number of nodes and edges (u < v) of a base."""
    import networkx as nx

    if base == TREE:
        graph = nx.balanced_tree(arity, width)
    else:
        graph = nx.ladder_graph(width) if base == LADDER else nx.wheel_graph(width)
    return len(graph), tuple(sorted((min(edge), max(edge)) for edge in graph.edges))


def _attach(
    rng: np.random.RandomState, base_nodes: int, base_edges: tuple[tuple[int, int], ...], motif: int
) -> list[tuple[int, int]]:
    """The edges (u < v) of one graph: base, motif, joint, then the perturbation."""
    first, nodes = base_nodes, base_nodes + 5
    edges = [*base_edges, *((first + u, first + v) for u, v in MOTIFS[motif])]
    edges.append((int(rng.random_sample() * base_nodes), first))
    present = set(edges)
    for _ in range(int(PERTURBED * len(edges))):
        pair = (0, 0)
        while pair[0] == pair[1] or pair in present:
            u, v = int(rng.random_sample() * nodes), int(rng.random_sample() * nodes)
            pair = (u, v) if u < v else (v, u)
        # A pair inside the motif is not added, and the trial is lost: the motif stays whole.
        if pair[0] < first:
            present.add(pair)
            edges.append(pair)
    return edges


def _store(
    rng: np.random.RandomState,
    nodes: NDArray[np.int64],
    edges: list[list[tuple[int, int]]],
    base: NDArray[np.int64],
    label: NDArray[np.int64],
    part: NDArray[np.int64],
    undirected: bool,
) -> GraphStore:
    """The graphs with their features, truth, and what they were drawn as."""
    from gsat.graphs import GraphStore
    from gsat.graphs.build import offsets

    counts = np.array([len(e) for e in edges])
    graph = np.repeat(np.arange(len(edges)), counts)
    u, v = np.array([pair for e in edges for pair in e]).T
    if undirected:
        graph, u, v = np.tile(graph, 2), np.concatenate([u, v]), np.concatenate([v, u])
        rows = np.lexsort((v, u, graph))
    else:
        # Stable by the lower end: the order in which networkx lists these edges.
        rows = np.lexsort((u, graph))
    graph, u, v = graph[rows], u[rows], v[rows]
    node_ptr = offsets(nodes)
    node = np.arange(node_ptr[-1]) - np.repeat(node_ptr[:-1], nodes)
    first = nodes - 5
    # Noise on the grid of 24 bits that float32 represents exactly, so that 1.0 is never reached.
    noise = np.floor(rng.random_sample((len(node), FEATURES)) * 2**24) / 2**24
    return GraphStore.from_arrays(
        node_ptr=node_ptr,
        edge_ptr=offsets(np.bincount(graph, minlength=len(nodes))),
        edge_index=np.stack([u, v]),
        x=noise.astype(np.float32),
        edge_attr=np.ones((len(u), 1), dtype=np.float32),
        y=label,
        node_truth=(node >= np.repeat(first, nodes)).astype(np.float32),
        edge_truth=(np.minimum(u, v) >= first[graph]).astype(np.float32),
        graph_fields={"base": base, "split": part},
        meta={"classes": list(CLASSES), "bases": list(BASES)},
    )
