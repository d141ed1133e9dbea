"""BA-2Motifs: a five-cycle or a house hung on a 20-node Barabási–Albert tree.

``source="generated"`` (the default) makes such graphs and needs no file; ``source="published"``
reads the graphs of PGExplainer, which the paper used. They differ in the joint: generated motifs
hang on a random base node, published ones on node 0, or, in 40 graphs, on nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.datasets.fetch.unpickle import load_pickle
from gsat.datasets.registry import BA2MOTIFS
from gsat.datasets.splits import shuffled
from gsat.errors import DataError
from gsat.graphs import GraphStore
from gsat.tasks import Task

VERSION: Final = 1
TASK: Final = Task("binary")
SPLIT_OPTIONS: Final[frozenset[str]] = frozenset()

BASE: Final = 20  # nodes of the base graph; every later node belongs to a motif
FEATURES: Final = 10
# Edges among the five motif nodes, numbered as in the published set; node 0 holds the joint.
CYCLE: Final = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
HOUSE: Final = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4))
# SHA-256 of the published graphs: adjacency as bytes, then labels as little-endian int64.
PUBLISHED: Final = "29daca5d47fc23075b358349b3a66d1c51458f6ed4c1f32dfb913471fb4e026f"
FEWEST: Final = 10  # below that an 80/10/10 split leaves a part empty


def build(name: str, options: Mapping[str, Any]) -> GraphStore:
    """The graphs: the first half with a five-cycle (class 0), the second with a house (class 1)."""
    if options["source"] == "published":
        adjacency, label = _published(options)
    else:
        adjacency, label = _generate(options["graphs"], options["data_seed"])
    sizes = np.full(len(label), BASE + 5)
    return dense_store(adjacency, sizes, label, classes=("five-cycle", "house"))


def split(store: GraphStore, seed: int, options: Mapping[str, Any]) -> dict[str, NDArray[np.int64]]:
    """80/10/10 of a shuffle."""
    return shuffled(len(store), seed)


def matches_paper(name: str, options: Mapping[str, Any]) -> str:
    """``yes`` for the published graphs; ``rebuilt`` for as many generated ones."""
    if options["source"] == "published":
        return "yes"
    return "rebuilt" if options["graphs"] == 1000 else "different"


def random_trees(rng: np.random.RandomState, graphs: int) -> NDArray[np.uint8]:
    """Barabási–Albert trees as symmetric adjacencies [graphs, BASE, BASE].

    The process of ``networkx.barabasi_albert_graph(BASE, 1)`` run on all graphs at once: each new
    node joins an end, drawn uniformly, of the edges so far. It is written out here because the
    stream of draws must not change with the version of networkx.
    """
    rows = np.arange(graphs)
    adjacency = np.zeros((graphs, BASE, BASE), dtype=np.uint8)
    adjacency[:, 0, 1] = 1
    ends = np.zeros((graphs, 2 * (BASE - 1)), dtype=np.int64)
    ends[:, 1] = 1
    for node in range(2, BASE):
        target = ends[rows, integers(rng, 2 * (node - 1), graphs)]
        adjacency[rows, target, node] = 1
        ends[:, 2 * (node - 1)] = target
        ends[:, 2 * (node - 1) + 1] = node
    return adjacency | adjacency.transpose(0, 2, 1)


def integers(rng: np.random.RandomState, below: int, size: int) -> NDArray[np.int64]:
    """Uniform integers in [0, below) [size].

    From ``random_sample``, whose stream is frozen: ``randint`` draws differently where C's long
    has 32 bits.
    """
    return np.floor(rng.random_sample(size) * below).astype(np.int64)


def check_count(graphs: int) -> None:
    """Raise unless there are enough graphs to split."""
    if graphs < FEWEST:
        raise DataError(f"data option 'graphs' must be at least {FEWEST}, not {graphs}")


def dense_store(
    adjacency: NDArray[np.uint8],
    sizes: NDArray[np.int64],
    label: NDArray[np.int64],
    classes: tuple[str, str],
) -> GraphStore:
    """Dense adjacencies as a store: both directions, row by row; constant features.

    Args:
        adjacency: [G, n, n], symmetric, zero beyond each graph's size.
        sizes: [G], nodes of each graph; those from ``BASE`` on are motif nodes.
        label: [G], 0 or 1. classes: their names.
    """
    graph, src, dst = np.nonzero(adjacency)
    edges = np.bincount(graph, minlength=len(label))
    node_ptr = np.concatenate([[0], np.cumsum(sizes)])
    node = np.arange(node_ptr[-1]) - np.repeat(node_ptr[:-1], sizes)
    return GraphStore.from_arrays(
        node_ptr=node_ptr,
        edge_ptr=np.concatenate([[0], np.cumsum(edges)]),
        edge_index=np.stack([src, dst]),
        x=np.full((len(node), FEATURES), 0.1, dtype=np.float32),
        y=label.astype(np.float32)[:, None],
        node_truth=(node >= BASE).astype(np.float32),
        # Motifs touch each other nowhere, so both ends in motif nodes is one and the same motif.
        edge_truth=((src >= BASE) & (dst >= BASE)).astype(np.float32),
        meta={"classes": list(classes)},
    )


def _generate(graphs: int, data_seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    check_count(graphs)
    rng = np.random.RandomState(data_seed)
    label = (np.arange(graphs) >= graphs // 2).astype(np.int64)
    adjacency = np.zeros((graphs, BASE + 5, BASE + 5), dtype=np.uint8)
    adjacency[:, :BASE, :BASE] = random_trees(rng, graphs)
    joint = integers(rng, BASE, graphs)
    adjacency[np.arange(graphs), joint, BASE] = 1
    adjacency[np.arange(graphs), BASE, joint] = 1
    for kind, motif in enumerate((CYCLE, HOUSE)):
        for u, v in motif:
            adjacency[label == kind, BASE + u, BASE + v] = 1
            adjacency[label == kind, BASE + v, BASE + u] = 1
    return adjacency, label


def _published(options: Mapping[str, Any]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    if options["graphs"] != 1000:
        raise DataError(
            f"the published set has 1000 graphs, not {options['graphs']}: "
            "leave out the data option 'graphs', or set source='generated'"
        )
    (file,) = BA2MOTIFS.raw_files(options)
    path = file.require()
    adjacency, label = _read_pickle(path) if path.suffix == ".pkl" else _read_npz(path)
    graphs = adjacency.tobytes() + label.astype("<i8").tobytes()
    if hashlib.sha256(graphs).hexdigest() != PUBLISHED:
        raise DataError(f"{path} does not hold the published graphs; {file.instruction()}")
    return adjacency, label


def _read_npz(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    # Plain arrays only: a file that asks to run code is refused.
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["adj"], arrays["label"]


def _read_pickle(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """PGExplainer's own file: adjacencies [G, 25, 25], features, labels one-hot [G, 2]."""
    match load_pickle(path):
        case (np.ndarray() as adjacency, _, np.ndarray() as labels) if labels.ndim == 2:
            return (adjacency != 0).astype(np.uint8), labels.argmax(axis=1).astype(np.int64)
    raise DataError(f"{path} does not hold adjacencies, features and labels of BA-2Motifs")
