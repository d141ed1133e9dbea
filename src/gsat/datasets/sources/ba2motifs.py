"""Motifs on 20-node Barabási–Albert trees, in dense adjacencies: BA-2Motifs and Houses.

BA-2Motifs: a five-cycle or a house. ``source="published"`` reads the graphs of PGExplainer, which
the paper used, and is preferred where their file is; ``source="generated"`` makes such graphs and
needs no file. They differ in the joint: generated motifs are joined to a random base node,
published ones to node 0 or, in 40 graphs, to no node.

Houses: two or three houses, after the paper's figure 3. The explanation is disconnected, so a
method that searches for one connected subgraph fails. The paper gives no sizes: the base is that of
BA-2Motifs in both classes, so that only the houses differ between them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from gsat.core.errors import DataError
from gsat.core.registry import register_dataset
from gsat.datasets.fetch.raw_files import RawFile
from gsat.datasets.source import DatasetSource, Match
from gsat.datasets.sources._motifs import CYCLE, HOUSE, Edge, GeneratedOptions, integers

if TYPE_CHECKING:
    from typing import Self

    from gsat.graphs import GraphStore

TREE_NODES: Final = 20  # every later node belongs to a motif
FEATURES: Final = 10
# SHA-256 of the published graphs: adjacency as bytes, then labels as little-endian int64.
PUBLISHED: Final = "29daca5d47fc23075b358349b3a66d1c51458f6ed4c1f32dfb913471fb4e026f"


@register_dataset("ba2motifs")
class BA2Motifs(DatasetSource):
    """1000 graphs, a house or a five-cycle on a Barabási–Albert tree."""

    class Options(GeneratedOptions):
        source: Literal["generated", "published"] = Field(
            "generated",
            description="'published' is the set of the paper, used without options where its file "
            "is here; 'generated' needs no file",
        )

        @model_validator(mode="after")
        def _check_size(self) -> Self:
            if self.source == "published" and self.graphs != 1000:
                raise DataError(
                    f"the published set has 1000 graphs, not {self.graphs}: "
                    "leave out the data option 'graphs', or set source='generated'"
                )
            return self

    files: ClassVar = {
        "published": (
            RawFile(
                "ba_2motifs/BA_2Motifs_dense.npz",
                "c63e61177137eb0828b5fd8f085dcb17abdda394c441a0fa9699ed28055c1767",
                "the PGExplainer project (BA-2motif.pkl as plain arrays)",
                instead=RawFile(
                    "ba_2motifs/BA-2motif.pkl",
                    "",  # its graphs are checked instead
                    "the PGExplainer project",
                    url="https://github.com/flyingdoog/PGExplainer/raw/master/dataset/BA-2motif.pkl",
                ),
            ),
        )
    }
    preferred = "published"
    in_paper = True
    task_settings: ClassVar = {"kind": "binary"}

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Make the graphs: the first half with a five-cycle (class 0), the rest with a house."""
        if options.source == "published":
            (file,) = self.raw_files(name, options)
            adjacency, label = _read_published(file)
        else:
            rng = np.random.RandomState(data_seed)
            adjacency, label = _bases(rng, options.graphs, motif_nodes=5)
            joint = integers(rng, TREE_NODES, options.graphs)
            for kind, motif in enumerate((CYCLE, HOUSE)):
                rows = np.flatnonzero(label == kind)
                _join(adjacency, rows, joint[rows], TREE_NODES, motif)
        sizes = np.full(len(label), TREE_NODES + 5)
        return _store(adjacency, sizes, label, classes=("five-cycle", "house"))

    def matches_paper(self, name: str, options: Options) -> Match:
        """``yes`` for the published graphs; ``rebuilt`` for as many generated ones."""
        if options.source == "published":
            return "yes"
        return "rebuilt" if options.graphs == 1000 else "different"


@register_dataset("houses")
class Houses(DatasetSource):
    """1000 graphs, two or three houses on a Barabási–Albert tree: disconnected explanations."""

    Options = GeneratedOptions
    in_paper = True
    task_settings: ClassVar = {"kind": "binary"}

    def build(self, name: str, options: GeneratedOptions, data_seed: int) -> GraphStore:
        """Generate the graphs: the first half with two houses (class 0), the rest with three."""
        rng = np.random.RandomState(data_seed)
        adjacency, label = _bases(rng, options.graphs, motif_nodes=15)
        houses = 2 + label
        for house in range(3):
            rows = np.flatnonzero(houses > house)
            first = TREE_NODES + 5 * house
            _join(adjacency, rows, integers(rng, TREE_NODES, len(rows)), first, HOUSE)
        classes = ("two houses", "three houses")
        return _store(adjacency, TREE_NODES + 5 * houses, label, classes)

    def matches_paper(self, name: str, options: GeneratedOptions) -> Match:
        """``rebuilt``: the paper describes the set but does not publish it."""
        return "rebuilt" if options.graphs == 1000 else "different"


def _bases(
    rng: np.random.RandomState, graphs: int, motif_nodes: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Adjacencies of trees with room for motifs, and labels: half of class 0, half of class 1."""
    label = (np.arange(graphs) >= graphs // 2).astype(np.int64)
    nodes = TREE_NODES + motif_nodes
    adjacency = np.zeros((graphs, nodes, nodes), dtype=np.uint8)
    adjacency[:, :TREE_NODES, :TREE_NODES] = random_trees(rng, graphs)
    return adjacency, label


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


def _join(
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


def _store(
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


def _read_published(file: RawFile) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The published adjacencies and labels, checked by their hash."""
    path = file.require()
    if path.suffix == ".pkl":
        adjacency, label = _read_pickle(path)
    else:
        with np.load(path, allow_pickle=False) as arrays:
            adjacency, label = arrays["adj"], arrays["label"]
    graphs = adjacency.tobytes() + label.astype("<i8").tobytes()
    if hashlib.sha256(graphs).hexdigest() != PUBLISHED:
        raise DataError(f"{path} does not hold the published graphs; {file.instruction()}")
    return adjacency, label


def _read_pickle(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """PGExplainer's own file: adjacencies ``[G, 25, 25]``, features, one-hot labels ``[G, 2]``."""
    from gsat.datasets.fetch.unpickle import load_pickle

    match load_pickle(path):
        case (np.ndarray() as adjacency, _, np.ndarray() as labels) if labels.ndim == 2:
            return (adjacency != 0).astype(np.uint8), labels.argmax(axis=1).astype(np.int64)
    raise DataError(f"{path} does not hold adjacencies, features and labels of BA-2Motifs")
