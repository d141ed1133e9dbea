"""Mutag: molecules that are mutagenic or not (TU "Mutagenicity"), with PGExplainer's truth.

The truth marks the bonds of NO2 and NH2 groups in mutagens. As in the paper, mutagens without
such a group are left out, and non-mutagens have no truth even where they carry such a group.

The tables have no SMILES. They are written from the atoms and the orders of the bonds, hydrogens
among them, so that node i is atom i (:func:`gsat.molecules.molecule_of`); charges follow from the
bonds.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gsat.core.errors import DataError
from gsat.core.registry import register_dataset
from gsat.datasets.fetch.raw_files import RawFile, damaged
from gsat.datasets.source import DatasetOptions, DatasetSource, Match
from gsat.molecules.smiles import SMILES, write_smiles

if TYPE_CHECKING:
    from gsat.datasets.formats.tu import Tables
    from gsat.graphs import GraphStore

ATOMS: Final = ("C", "O", "Cl", "H", "N", "F", "Br", "S", "P", "I", "Na", "K", "Li", "Ca")
MUTAGEN: Final = 0
PARTS: Final = ("A", "graph_indicator", "edge_gt", "graph_labels", "node_labels")
ARCHIVE: Final = RawFile(
    "mutagenicity/Mutagenicity.zip",
    "20c0134bad28fa23a1dd928c6cf5afa6b6f1db10758d8622cfac7245207a95ca",
    "the PGExplainer project",
    url="https://github.com/flyingdoog/PGExplainer/raw/master/dataset/Mutagenicity.zip",
    size=927_181,
)


@register_dataset("mutag")
class Mutag(DatasetSource):
    """2951 molecules, mutagenic or not; the NO2 and NH2 groups are the truth."""

    class Options(DatasetOptions):
        source: Literal["published"] = Field("published", description="the TU files with edge_gt")
        test: Literal["paper", "held-out"] = Field(
            "paper",
            description="'paper': all annotated mutagens, which overlap train; "
            "'held-out': 80/10/10",
        )
        drop_unannotated: bool = Field(
            True, description="leave out mutagens without an annotated group"
        )

    version = 2  # with SMILES
    files: ClassVar = {"published": (ARCHIVE,)}
    split_options = frozenset({"test"})
    in_paper = True
    task_settings: ClassVar = {"kind": "binary"}

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Read the molecules, edges in the file's order.

        ``annotated`` ``[G]`` marks the molecules with truth: explanations are measured on these.
        """
        (file,) = self.raw_files(name, options)
        store = read_zip(file.require())
        if options.drop_unannotated:
            mutagen = store.per_graph("y")[:, 0] == MUTAGEN
            store = store.select(store.per_graph("annotated") | ~mutagen).compact()
        return store

    def split(self, store: GraphStore, seed: int, options: Options) -> dict[str, NDArray[np.int64]]:
        """Shuffle, then cut 80/20 with all annotated mutagens as test, or cut 80/10/10.

        ``test="paper"`` is the published split: its test graphs are also in train and validation.
        """
        from gsat.datasets.splits import shuffled

        parts = shuffled(len(store), seed)
        if options.test == "paper":
            parts["valid"] = np.concatenate([parts["valid"], parts["test"]])
            parts["test"] = np.flatnonzero(store.per_graph("annotated"))
        return parts

    def overlap(self, options: Options) -> str:
        """The published test set shares its graphs with the other parts."""
        paper = options.test == "paper"
        return "the published test set is every annotated mutagen" if paper else ""

    def matches_paper(self, name: str, options: Options) -> Match:
        """``yes`` for the published split of the annotated set."""
        return "yes" if options.test == "paper" and options.drop_unannotated else "different"


def read_zip(path: Path) -> GraphStore:
    """Read all 4337 molecules of the zip; the truth of non-mutagens is set to 0."""
    from gsat.datasets.formats import tu
    from gsat.graphs import GraphStore

    try:
        raw = tu.read_tables(path, (*PARTS, "edge_labels"))
    except DataError as error:
        raise damaged(path, ARCHIVE.source, str(error)) from error
    for part in PARTS[2:]:  # read_tables requires the first two
        if part not in raw:
            raise damaged(path, ARCHIVE.source, f"there is no Mutagenicity_{part}.txt in it")
    atom, label = raw["node_labels"][:, 0], raw["graph_labels"][:, 0]
    if not 0 <= atom.min(initial=0) <= atom.max(initial=0) < len(ATOMS):
        raise damaged(path, ARCHIVE.source, "the tables do not fit: there are 14 kinds of atoms")

    edge_ptr, node_ptr, edge_index = raw["edge_ptr"], raw["node_ptr"], raw["edge_index"]
    edge_graph = np.repeat(np.arange(len(label)), np.diff(edge_ptr))
    truth = (raw["edge_gt"][:, 0] == 1) & (label == MUTAGEN)[edge_graph]
    node_truth = np.zeros(len(atom), dtype=np.float32)
    node_truth[(edge_index + node_ptr[edge_graph])[:, truth]] = 1
    return GraphStore.from_arrays(
        node_ptr=node_ptr,
        edge_ptr=edge_ptr,
        edge_index=edge_index,
        x=np.eye(len(ATOMS), dtype=np.float32)[atom],
        y=label.astype(np.float32)[:, None],
        node_truth=node_truth,
        edge_truth=truth.astype(np.float32),
        graph_fields={
            "annotated": np.bincount(edge_graph[truth], minlength=len(label)) > 0,
            **({SMILES: _smiles(raw)} if "edge_labels" in raw else {}),
        },
        meta={"classes": ["mutagen", "non-mutagen"], "node_types": list(ATOMS)},
    )


def _smiles(raw: Tables) -> list[str]:
    """The SMILES of each molecule; label 0 of an edge is a single bond."""
    written = []
    atoms = [ATOMS[kind] for kind in raw["node_labels"][:, 0]]
    ends, orders = raw["edge_index"].T.tolist(), (raw["edge_labels"][:, 0] + 1).tolist()
    for nodes, edges in zip(pairwise(raw["node_ptr"]), pairwise(raw["edge_ptr"]), strict=True):
        here = zip(ends[slice(*edges)], orders[slice(*edges)], strict=True)
        bonds = [(u, v, order) for (u, v), order in here if u < v]
        written.append(write_smiles(atoms[slice(*nodes)], bonds))
    return written
