"""OGBG-Mol: molecules of MoleculeNet as the Open Graph Benchmark gives them, with its splits.

Read from OGB's own tables; the ``ogb`` package is not needed. An atom has nine features, each a
category; bonds carry none here, as in the paper. Labels may be missing.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.datasets.fetch.raw_files import require_all
from gsat.datasets.registry import find_entry
from gsat.datasets.sources.ogb_files import PARTS, REBUILT
from gsat.errors import DataError
from gsat.graphs import GraphStore
from gsat.io.hashes import file_sha256
from gsat.tasks import Task

VERSION: Final = 1
SPLIT_OPTIONS: Final[frozenset[str]] = frozenset()

# Atomic number, chirality, degree, charge, hydrogens, radical electrons, hybridisation, aromatic,
# in a ring: how many categories each has.
CATEGORIES: Final = (119, 5, 12, 12, 10, 6, 6, 2, 2)
LABELS: Final = {
    "ogbg-molhiv": 1,
    "ogbg-molbace": 1,
    "ogbg-molbbbp": 1,
    "ogbg-molclintox": 2,
    "ogbg-moltox21": 12,
    "ogbg-molsider": 27,
}
_SYMBOLS: Final = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se "
    "Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb "
    "Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm "
    "Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og *"
)


def TASK(name: str, options: Mapping[str, Any]) -> Task:
    """One yes-or-no question, or several with missing answers; measured by ROC AUC."""
    if LABELS[name] == 1:
        return Task("binary", metric="roc_auc")
    return Task("multilabel", LABELS[name], "roc_auc")


def build(name: str, options: Mapping[str, Any]) -> GraphStore:
    """The molecules; a bond is two edges, one after the other, as in OGB.

    ``split`` [G] is the part of the official scaffold split (0 train, 1 valid, 2 test).
    """
    files = find_entry(name).raw_files(options)
    paths = dict(zip(PARTS, require_all(files), strict=True))
    nodes, bonds = _column(paths["raw/num-node-list"]), _column(paths["raw/num-edge-list"])
    ends = _table(paths["raw/edge"], np.int64, 2)
    x = _table(paths["raw/node-feat"], np.int64, len(CATEGORIES))
    y = _table(paths["raw/graph-label"], np.float32, LABELS[name])
    if not (len(nodes) == len(bonds) == len(y) and nodes.sum() == len(x)):
        raise DataError(
            f"the tables of {name} do not fit together: {len(nodes)} and {len(bonds)} graphs, "
            f"{len(y)} labels, {len(x)} atoms of {nodes.sum()}; get them again as one archive"
        )
    wrong = np.argwhere((x < 0) | (x >= np.array(CATEGORIES)))
    if len(wrong):
        raise DataError(
            f"{paths['raw/node-feat']}, line {wrong[0][0] + 1}, column {wrong[0][1] + 1}: "
            f"no such category of an atom; get it again"
        )
    made_again = file_sha256(paths["raw/node-feat"]) in REBUILT
    return GraphStore.from_arrays(
        node_ptr=np.concatenate([[0], np.cumsum(nodes)]),
        edge_ptr=np.concatenate([[0], np.cumsum(2 * bonds)]),
        edge_index=np.stack([ends, ends[:, ::-1]], axis=1).reshape(-1, 2).T,
        x=x,
        y=y,
        graph_fields={"split": _parts(name, paths, len(y))},
        meta={
            "labels": _names(paths["mapping/mol"], LABELS[name]),
            "categories": list(CATEGORIES),
            "node_types": _SYMBOLS.split(),
            "matches_paper": "rebuilt" if made_again else "yes",
        },
    )


def split(store: GraphStore, seed: int, options: Mapping[str, Any]) -> dict[str, NDArray[np.int64]]:
    """OGB's scaffold split; the same for every seed."""
    part = store.per_graph("split")
    return {name: np.flatnonzero(part == i) for i, name in enumerate(("train", "valid", "test"))}


def matches_paper(name: str, options: Mapping[str, Any]) -> str:
    """``yes`` for OGB's own files; the store says ``rebuilt`` of files made again by its rules."""
    return "yes"


def _parts(name: str, paths: Mapping[str, Path], count: int) -> NDArray[np.int64]:
    """Which part each graph belongs to [G]; every graph belongs to exactly one."""
    part = np.full(count, -1)
    listed = 0
    for number, split_name in enumerate(("train", "valid", "test")):
        rows = _column(paths[f"split/scaffold/{split_name}"])
        if len(rows) and (rows.min() < 0 or rows.max() >= count):
            raise DataError(f"the split '{split_name}' of {name} names graphs beyond its {count}")
        part[rows] = number
        listed += len(rows)
    if listed != count or (part < 0).any():
        raise DataError(f"the split of {name} lists {listed} graphs, there are {count}")
    return part


def _names(path: Path, count: int) -> list[str]:
    """What the labels are called: the first columns of the table of molecules."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return next(csv.reader(file))[:count]
    except (OSError, EOFError, StopIteration, csv.Error, ValueError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}); get it again") from error


def _column(path: Path) -> NDArray[np.int64]:
    return _table(path, np.int64, 1)[:, 0]


def _table(path: Path, kind: type[Any], columns: int) -> NDArray[Any]:
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            table = np.loadtxt(file, dtype=kind, delimiter=",", ndmin=2)
        if table.size and table.shape[1] != columns:
            raise ValueError(f"{table.shape[1]} columns, not {columns}")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is damaged ({reason}); get it again") from error
    return table.reshape(-1, columns)
