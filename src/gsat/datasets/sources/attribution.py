"""Molecules of ZINC whose classes follow from fragments, with the atoms of these fragments.

Sanchez-Lengeling et al., Evaluating attribution for graph neural networks, NeurIPS 2020. A molecule
is positive if it has every fragment of the set. Labels and truth are computed from SMARTS: the
authors' tables of logic7 and logic8 have labels of other rules. Train and test are theirs.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsat.core.registry import register_dataset
from gsat.datasets.fetch.raw_files import (
    RawFile,
    damaged,
    listed_files,
    require_all,
)
from gsat.datasets.source import DatasetOptions, DatasetSource

if TYPE_CHECKING:
    from gsat.graphs import GraphStore

PUBLISHER: Final = "the graph-attribution project of Google Research"


def _url(name: str) -> str:
    project = "https://raw.githubusercontent.com/google-research/graph-attribution"
    commit, folder = "75a76e6b8b2e357989b277670f02dd14804b83f4", name.split("_")[0]
    return f"{project}/{commit}/data/{folder}/{name}"


class _Set(NamedTuple):
    published_name: str
    summary: str
    smarts: tuple[str, ...]
    classes: tuple[str, str]


SETS: Final = {
    "benzene": _Set(
        "benzene",
        "12000 molecules: is there a benzene ring? (known atoms)",
        ("c1ccccc1",),
        ("no benzene", "benzene"),
    ),
    "fluoride-carbonyl": _Set(
        "logic7",
        "4326 molecules: are there a fluoride and a carbonyl? (known atoms)",
        ("[FX1]", "[CX3]=O"),
        ("not both", "fluoride and carbonyl"),
    ),
    "alkane-carbonyl": _Set(
        "logic8",
        "8671 molecules: are there an unbranched alkane and a carbonyl? (known atoms)",
        ("[R0;D2,D1][R0;D2][R0;D2,D1]", "[CX3]=O"),
        ("not both", "alkane and carbonyl"),
    ),
}
FILES: Final = listed_files(
    "attribution",
    PUBLISHER,
    _url,
    """
aa52389639d0989dc5bb726c364fbc38ed520468d6606d67679d24b7e6720a28 1292715 benzene_smiles.csv
fef8c8842e8faf33a427a54b3bf801834060d57a1991f2d96dcab641bbad41dd 96488 benzene_traintest_indices.npz
7915107a397240cec3daf027d713db2bed107d19d9d941b6d36a4a334a5dfae8 242784 logic7_smiles.csv
707780a49c4d2e9f971b1ef52f6db300c4e8b1080de33265cddc404627e86481 6997 logic7_traintest_indices.npz
7c4d1863a2f6a026ef3dafc4c7f54519cdd75aa15ea1f298b08e64fa3b75d11d 509759 logic8_smiles.csv
138a7fbf52c6940a01d3838a2c431da0530d1eb58df64e02c8d3719ff99073a0 13573 logic8_traintest_indices.npz
""",
)


@register_dataset("benzene")
@register_dataset("fluoride-carbonyl")
@register_dataset("alkane-carbonyl")
class Attribution(DatasetSource):
    """Molecules of ZINC whose classes follow from fragments."""

    recipe, backbone = "molecules", "dmpnn"
    task_settings: ClassVar = {"kind": "binary", "metric": "roc_auc"}

    def summary(self, name: str) -> str:
        """Describe the molecules of this name."""
        return SETS[name].summary

    def raw_files(self, name: str, options: DatasetOptions) -> tuple[RawFile, ...]:
        """Return the table of molecules and the indices of train and test."""
        published = SETS[name].published_name
        return FILES[f"{published}_smiles.csv"], FILES[f"{published}_traintest_indices.npz"]

    def build(self, name: str, options: DatasetOptions, data_seed: int) -> GraphStore:
        """Read the molecules; node i is atom i of their SMILES.

        In a positive molecule, the atoms of all matches of all fragments are true, and so are the
        bonds within a match; a negative one has no truth. ``split`` ``[G]`` is 0 for the published
        training molecules, 2 for the test molecules and −1 for neither.
        """
        from gsat.datasets.sources._molecules import labelled_store, match_smarts, truth_of_matches

        chosen = SETS[name]
        table, indices = require_all(self.raw_files(name, options))
        names, smiles = read_table(table)
        contributions = [
            [(atoms, 1.0) for part in matches for atoms in part] if all(matches) else []
            for _, matches in match_smarts(smiles, chosen.smarts, str(table))
        ]
        positive = np.array([len(some) > 0 for some in contributions])
        split = read_indices(indices, len(smiles))
        return labelled_store(
            smiles,
            positive,
            lambda store: truth_of_matches(store, contributions),
            label=name,
            classes=chosen.classes,
            fields={"annotated": positive, "id": names, "split": split},
        )


def read_table(path: Path) -> tuple[list[str], list[str]]:
    """Read the identifiers and the SMILES of a table; its labels are not read."""
    from gsat.molecules.table import open_table

    table = open_table(path)
    if table.problems:
        line, reason, _ = table.problems[0]
        raise damaged(path, PUBLISHER, f"line {line}: {reason}")
    if not {"mol_id", "smiles"} <= set(table.columns):
        raise damaged(path, PUBLISHER, "it has no columns mol_id and smiles")
    names, smiles = (table.column(table.columns.index(name)) for name in ("mol_id", "smiles"))
    return names, smiles


def read_indices(path: Path, count: int) -> NDArray[np.int64]:
    """Read which molecules are for training and which for the test."""
    parts = {"train_index": 0, "test_index": 2}
    try:
        with np.load(path, allow_pickle=False) as arrays:
            indices = {name: np.asarray(arrays[name]) for name in parts}
    except (
        OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, TypeError,
        AttributeError, NotImplementedError,
    ) as error:  # fmt: skip
        raise damaged(path, PUBLISHER, " ".join(str(error).split())) from error
    marks = np.full(count, -1, dtype=np.int64)
    for name, mark in parts.items():
        rows = indices[name]
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise damaged(path, PUBLISHER, f"{name} is not a list of whole numbers")
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < count:
            raise damaged(path, PUBLISHER, f"{name} is for more than {count} molecules")
        if len(np.unique(rows)) < len(rows) or (marks[rows] >= 0).any():
            raise damaged(path, PUBLISHER, f"{name} lists a molecule twice")
        marks[rows] = mark
    return marks
