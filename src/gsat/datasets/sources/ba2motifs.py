"""BA-2Motifs: a five-cycle or a house on a 20-node Barabási–Albert tree.

``source="generated"`` (the default) makes such graphs and needs no file; ``source="published"``
reads the graphs of PGExplainer, which the paper used. They differ in the joint: generated motifs
are joined to a random base node, published ones to node 0 or, in 40 graphs, to no node.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from gsat.core.errors import DataError
from gsat.core.registry import register_dataset
from gsat.datasets.fetch.raw_files import RawFile
from gsat.datasets.source import DatasetSource, Match
from gsat.datasets.sources._motifs import (
    CYCLE,
    HOUSE,
    TREE_NODES,
    GeneratedOptions,
    integers,
    join_motif,
    random_trees,
    store_from_adjacency,
)

if TYPE_CHECKING:
    from typing import Self

    from gsat.graphs import GraphStore
    from gsat.tasks import Task

# SHA-256 of the published graphs: adjacency as bytes, then labels as little-endian int64.
PUBLISHED: Final = "29daca5d47fc23075b358349b3a66d1c51458f6ed4c1f32dfb913471fb4e026f"


@register_dataset("ba2motifs")
class BA2Motifs(DatasetSource):
    """1000 graphs, a house or a five-cycle on a Barabási–Albert tree."""

    class Options(GeneratedOptions):
        source: Literal["generated", "published"] = Field(
            "generated",
            description="'generated' needs no file; 'published' is the set of the paper",
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
    in_paper = True

    def task(self, name: str, options: Options) -> Task:
        """Five-cycle or house."""
        from gsat.tasks import Task

        return Task("binary")

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Make the graphs: the first half with a five-cycle (class 0), the rest with a house."""
        if options.source == "published":
            (file,) = self.raw_files(name, options)
            adjacency, label = _read_published(file)
        else:
            adjacency, label = _generate(options.graphs, data_seed)
        sizes = np.full(len(label), TREE_NODES + 5)
        return store_from_adjacency(adjacency, sizes, label, classes=("five-cycle", "house"))

    def matches_paper(self, name: str, options: Options) -> Match:
        """``yes`` for the published graphs; ``rebuilt`` for as many generated ones."""
        if options.source == "published":
            return "yes"
        return "rebuilt" if options.graphs == 1000 else "different"


def _generate(graphs: int, data_seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Adjacencies ``[G, 25, 25]`` and labels ``[G]``."""
    rng = np.random.RandomState(data_seed)
    label = (np.arange(graphs) >= graphs // 2).astype(np.int64)
    first = TREE_NODES  # of the motif
    adjacency = np.zeros((graphs, first + 5, first + 5), dtype=np.uint8)
    adjacency[:, :first, :first] = random_trees(rng, graphs)
    joint = integers(rng, TREE_NODES, graphs)
    for kind, motif in enumerate((CYCLE, HOUSE)):
        rows = np.flatnonzero(label == kind)
        join_motif(adjacency, rows, joint[rows], first, motif)
    return adjacency, label


def _read_published(file: RawFile) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The published adjacencies and labels, checked by their hash."""
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
    """PGExplainer's own file: adjacencies ``[G, 25, 25]``, features, one-hot labels ``[G, 2]``."""
    from gsat.datasets.fetch.unpickle import load_pickle

    match load_pickle(path):
        case (np.ndarray() as adjacency, _, np.ndarray() as labels) if labels.ndim == 2:
            return (adjacency != 0).astype(np.uint8), labels.argmax(axis=1).astype(np.int64)
    raise DataError(f"{path} does not hold adjacencies, features and labels of BA-2Motifs")
