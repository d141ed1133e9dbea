"""Molecules of ZINC whose classes follow from fragments, with the atoms of these fragments.

Sanchez-Lengeling et al., Evaluating attribution for graph neural networks, NeurIPS 2020. A molecule
is positive if it has every fragment of the set. Labels and truth are computed from SMARTS: the
authors' tables of logic7 and logic8 have labels of other rules. Train and test are theirs.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.core.registry import register_dataset
from gsat.datasets.fetch.raw_files import RawFile, require_all
from gsat.datasets.source import DatasetOptions, DatasetSource

if TYPE_CHECKING:
    from gsat.graphs import GraphStore
    from gsat.tasks import Task

PUBLISHER: Final = "the graph-attribution project of Google Research"
_BASE: Final = (
    "https://raw.githubusercontent.com/google-research/graph-attribution/"
    "75a76e6b8b2e357989b277670f02dd14804b83f4/data"
)


class _Set(NamedTuple):
    """One of the three sets.

    Attributes:
        published_name: Name of its folder and files.
        summary: One line about it.
        smarts: The fragments.
        classes: Names of the classes.
        table: SHA-256 and bytes of the table of molecules.
        indices: SHA-256 and bytes of the training and test indices.
    """

    published_name: str
    summary: str
    smarts: tuple[str, ...]
    classes: tuple[str, str]
    table: tuple[str, int]
    indices: tuple[str, int]


SETS: Final = {
    "benzene": _Set(
        "benzene",
        "12000 molecules: is there a benzene ring? (known atoms)",
        ("c1ccccc1",),
        ("no benzene", "benzene"),
        ("aa52389639d0989dc5bb726c364fbc38ed520468d6606d67679d24b7e6720a28", 1_292_715),
        ("fef8c8842e8faf33a427a54b3bf801834060d57a1991f2d96dcab641bbad41dd", 96_488),
    ),
    "fluoride-carbonyl": _Set(
        "logic7",
        "4326 molecules: are there a fluoride and a carbonyl? (known atoms)",
        ("[FX1]", "[CX3]=O"),
        ("not both", "fluoride and carbonyl"),
        ("7915107a397240cec3daf027d713db2bed107d19d9d941b6d36a4a334a5dfae8", 242_784),
        ("707780a49c4d2e9f971b1ef52f6db300c4e8b1080de33265cddc404627e86481", 6_997),
    ),
    "alkane-carbonyl": _Set(
        "logic8",
        "8671 molecules: are there an unbranched alkane and a carbonyl? (known atoms)",
        ("[R0;D2,D1][R0;D2][R0;D2,D1]", "[CX3]=O"),
        ("not both", "alkane and carbonyl"),
        ("7c4d1863a2f6a026ef3dafc4c7f54519cdd75aa15ea1f298b08e64fa3b75d11d", 509_759),
        ("138a7fbf52c6940a01d3838a2c431da0530d1eb58df64e02c8d3719ff99073a0", 13_573),
    ),
}


@register_dataset("benzene")
@register_dataset("fluoride-carbonyl")
@register_dataset("alkane-carbonyl")
class Attribution(DatasetSource):
    """Molecules of ZINC whose classes follow from fragments."""

    recipe, backbone = "molecules", "dmpnn"

    def summary(self, name: str) -> str:
        """Describe the molecules of this name."""
        return SETS[name].summary

    def raw_files(self, name: str, options: DatasetOptions) -> tuple[RawFile, ...]:
        """Return the table of molecules and the indices of train and test."""
        chosen = SETS[name]
        parts = {"smiles.csv": chosen.table, "traintest_indices.npz": chosen.indices}
        return tuple(
            RawFile(
                f"attribution/{chosen.published_name}_{part}",
                sha256,
                PUBLISHER,
                url=f"{_BASE}/{chosen.published_name}/{chosen.published_name}_{part}",
                size=size,
            )
            for part, (sha256, size) in parts.items()
        )

    def task(self, name: str, options: DatasetOptions) -> Task:
        """Two classes, measured by ROC AUC."""
        from gsat.tasks import Task

        return Task("binary", metric="roc_auc")

    def build(self, name: str, options: DatasetOptions, data_seed: int) -> GraphStore:
        """Read the molecules; node i is atom i of their SMILES.

        In a positive molecule, the atoms of all matches of all fragments are true, and so are the
        bonds within a match; a negative one has no truth. ``split`` ``[G]`` is 0 for the published
        training molecules, 2 for the test molecules and −1 for neither.
        """
        from gsat.datasets.sources._substructures import to_labelled_store
        from gsat.molecules.smiles import import_rdkit, short
        from gsat.molecules.substructures import find_matches, read_smarts

        chem = import_rdkit("reading molecules")
        from rdkit import rdBase

        table, indices = require_all(self.raw_files(name, options))
        names, smiles = read_table(table)
        chosen = SETS[name]
        queries = read_smarts(chosen.smarts)
        contributions = []
        for text in smiles:
            with rdBase.BlockLogs():
                molecule = chem.MolFromSmiles(text)
            if molecule is None:
                raise _damaged(table, f"{short(text)} is not a molecule")
            found = [
                find_matches(molecule, query, smarts)
                for query, smarts in zip(queries, chosen.smarts, strict=True)
            ]
            positive = all(found)
            contributions.append([(atoms, 1.0) for part in found for atoms in part if positive])
        return to_labelled_store(
            smiles,
            contributions,
            np.array([len(some) > 0 for some in contributions]),
            label=name,
            classes=chosen.classes,
            fields={"id": names, "split": read_indices(indices, len(smiles))},
            columns={"smiles": "smiles", "id": ""},
        )


def read_table(path: Path) -> tuple[list[str], list[str]]:
    """Read the identifiers and the SMILES of a table; its labels are not read."""
    from gsat.molecules.table import open_table

    table = open_table(path)
    if table.problems:
        line, reason, _ = table.problems[0]
        raise _damaged(path, f"line {line}: {reason}")
    if not {"mol_id", "smiles"} <= set(table.columns):
        raise _damaged(path, "it has no columns mol_id and smiles")
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
        raise _damaged(path, " ".join(str(error).split())) from error
    marks = np.full(count, -1, dtype=np.int64)
    for name, mark in parts.items():
        rows = indices[name]
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise _damaged(path, f"{name} is not a list of whole numbers")
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < count:
            raise _damaged(path, f"{name} is for more than {count} molecules")
        if len(np.unique(rows)) < len(rows) or (marks[rows] >= 0).any():
            raise _damaged(path, f"{name} lists a molecule twice")
        marks[rows] = mark
    return marks


def _damaged(path: Path, why: str) -> DataError:
    return DataError(f"{path} is damaged ({why}); get it again from {PUBLISHER}")
