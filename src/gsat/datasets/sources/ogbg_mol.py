"""OGBG-Mol: molecules of MoleculeNet as the Open Graph Benchmark gives them, with its splits.

Read from OGB's own tables; the ``ogb`` package is not needed. An atom has nine features, each a
category; bonds have none here, as in the paper. Labels may be missing.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.core.files import file_sha256
from gsat.core.registry import register_dataset
from gsat.datasets.fetch.raw_files import RawFile, damaged, require_all
from gsat.datasets.source import DatasetOptions, DatasetSource, Match
from gsat.molecules.smiles import SMILES

if TYPE_CHECKING:
    from gsat.graphs import GraphStore
    from gsat.tasks import Task

OGB: Final = "the Open Graph Benchmark"
# Number of categories of: atomic number, chirality, degree, charge, hydrogens, radical electrons,
# hybridisation, aromatic, in a ring.
CATEGORIES: Final = (119, 5, 12, 12, 10, 6, 6, 2, 2)
# By name: the number of labels, and a description.
SETS: Final = {
    "ogbg-molhiv": (1, "41127 molecules: does it inhibit HIV?"),
    "ogbg-molbace": (1, "1513 molecules: does it inhibit the enzyme BACE-1?"),
    "ogbg-molbbbp": (1, "2039 molecules: does it pass from blood to brain?"),
    "ogbg-molclintox": (2, "1477 drugs: approved? failed for toxicity? (2 labels)"),
    "ogbg-moltox21": (12, "7831 molecules, 12 tests of toxicity, some labels missing"),
    "ogbg-molsider": (27, "1427 drugs, 27 kinds of side effects"),
}
_SYMBOLS: Final = (
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se "
    "Br Kr Rb Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb "
    "Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm "
    "Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og *"
)
# Tables of a set, in the order of its raw files; each is a file NAME.csv.gz.
PARTS: Final = (
    "raw/num-node-list",
    "raw/num-edge-list",
    "raw/edge",
    "raw/node-feat",
    "raw/graph-label",
    "mapping/mol",
    "split/scaffold/train",
    "split/scaffold/valid",
    "split/scaffold/test",
)

# OGB publishes no checksums; these were computed from its files, as far as we have them.
SHA256: Final[dict[str, dict[str, str]]] = {
    "molhiv": {
        "raw/num-node-list": "e26f7e29de4a3985c7f47482838c62f870c90c4d01871c57bfeae1b8d993a24b",
        "raw/num-edge-list": "fa058f23514328fd69bc9c4c31fd8f5938c4ce18726855489d0c0e2dfeaddd37",
        "raw/edge": "d279b2d408f553cdc6e8ff9712e8eb52ee8831e6f63d29431812e27bca119389",
        "raw/graph-label": "88f950d08c606556cca1c1ffef05229f46d64043ad7fa617e8938a3ae9779993",
        "mapping/mol": "306c4ad8d54fc6cd40c71da4d0561fdcc73e1188662e6992bae0dda8f65bf6d0",
        "split/scaffold/train": "9f1e46e77897b3de3d19452cbd47c312e2844a0ec664c1c9dc897c10d12e42f0",
        "split/scaffold/valid": "eaf4d6b4630f9e689d2b203669674d0dc309673319e8ac32daa9e9ca90e2e1fa",
        "split/scaffold/test": "27485729d83edd6f47eb3b8daff69fdb32c9df6b36b17204ef87f8dc1a30eab1",
    },
    "molbace": {
        "raw/num-node-list": "ca6e661f0d4323c90543e9539971ba8695a763aac0df2e8e1c6d141985a9a2fa",
        "raw/num-edge-list": "78e201ed1abfd581096a3e5ba32a18ccca8e872f89c05bec1f9e52f25a7a5f76",
        "raw/edge": "014e9475134c9c20300fda5d8115bd0c5f192185cd74c6f8921afc28f6359ce7",
        "raw/node-feat": "bd031b6fd3d699c2ee4527e778e298bc0ae52439b9b720311789f83803a6025a",
        "raw/graph-label": "a93fed4e7bf6ef1fe8b6bd79e5a4eb984d9a5ccaa4f51d6cb1accecff836b632",
        "mapping/mol": "7a7aed697887bbd1ddcca1aa9e83d069d39e09d800e5961d20b80f1704ba86b5",
        "split/scaffold/train": "5f20fb296650872fc91d8af37ed3afdd6d4cd32b52e53763d543bf1b6aa89b26",
        "split/scaffold/valid": "f06cb03da9a5f5609c4600f1e01148eb54779351086aede3305643335657bd66",
        "split/scaffold/test": "8e6ede054b28f5953912996c1d59c0d8b0c7ef252b3f2679c251d205c8438755",
    },
    "molbbbp": {
        "raw/num-node-list": "859b4d14247fc8d03b50661d17b453a23d966e3bfa22b66edb46d2e54acf36d6",
        "raw/num-edge-list": "552429af844e8d806155bb5e8bd59308528dc8d7d34d6a3f19a27e0d910fc87f",
        "raw/edge": "1b5843cd8221fda188809da6e60c1c27b4831cc01c568ecbe362e3532b1ccb25",
        "raw/node-feat": "90b47004f3ce80a6495c8add546ae360d4c6e7356f5360664c0b041eac07df34",
        "raw/graph-label": "99ae33f3f36ac7fed4a755c4912a170c0f1810e0688e6fba76d75831d4686f4f",
        "mapping/mol": "7ec2b3b15450d30547e0f9ce2e17d1ba88f43f71e2a5a4e9df69bbb03c34c5c7",
        "split/scaffold/train": "e1ae77b817d05b63af3ec5aa7ab1e170ebebc0849cb7712fe11b29a48999cc75",
        "split/scaffold/valid": "0b20d30453c99a703a672e0c023bea9e198315db3c92c094cfc610b9853b8ca6",
        "split/scaffold/test": "2561d4164f8e33163d6484bcce005578b7a3de3b00b4630c072bf56219a21451",
    },
}

# SHA-256 of files with atom features that were rebuilt from the SMILES by OGB's rules.
REBUILT: Final = frozenset(
    {
        "7fdfe12899b99fdf628fa18097234457616bd2e691e8256ff29cff80c05d653d",  # molhiv
        "3d52bc2f1017ee4cc6c8633cbf45070aef551cb8e61c07b7775cb1f0ad4313f8",  # molclintox
        "a60252895f7abafd27c9262f706d6b2635871155e93b5b465a593abd6914c095",  # moltox21
        "baef327021295bf2f1eb5aa4265f52009aed71fb05975394fcefc34656f2d933",  # molsider
    }
)


@register_dataset("ogbg-molhiv")
@register_dataset("ogbg-molbace")
@register_dataset("ogbg-molbbbp")
@register_dataset("ogbg-molclintox")
@register_dataset("ogbg-moltox21")
@register_dataset("ogbg-molsider")
class OGBGMol(DatasetSource):
    """Molecules of the Open Graph Benchmark."""

    version = 2  # with SMILES
    recipe = "ogbg"
    in_paper = True

    def summary(self, name: str) -> str:
        """Describe the molecules of this name."""
        return SETS[name][1]

    def raw_files(self, name: str, options: DatasetOptions) -> tuple[RawFile, ...]:
        """Return one file for each of ``PARTS``."""
        mol = name.removeprefix("ogbg-")
        short, known = mol.removeprefix("mol"), SHA256.get(mol, {})
        base = "https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download"
        return tuple(
            RawFile(
                f"ogbg_mol/ogbg_{mol}/{part}.csv.gz",
                known.get(part, ""),
                OGB,
                url=f"{base}/{short}.zip",
                member=f"{short}/{part}.csv.gz",
            )
            for part in PARTS
        )

    def task(self, name: str, options: DatasetOptions) -> Task:
        """One yes-or-no question, or several with missing answers; measured by ROC AUC."""
        from gsat.tasks import Task

        labels = SETS[name][0]
        if labels == 1:
            return Task("binary", metric="roc_auc")
        return Task("multilabel", labels, "roc_auc")

    def build(self, name: str, options: DatasetOptions, data_seed: int) -> GraphStore:
        """Read the molecules; a bond is two edges, one after the other, as in OGB.

        ``split`` ``[G]`` is the part of the official scaffold split (0 train, 1 valid, 2 test).
        """
        from gsat.graphs import GraphStore
        from gsat.graphs.build import offsets

        labels = SETS[name][0]
        paths = dict(zip(PARTS, require_all(self.raw_files(name, options)), strict=True))
        nodes, bonds = _column(paths["raw/num-node-list"]), _column(paths["raw/num-edge-list"])
        ends = _table(paths["raw/edge"], np.int64, 2)
        x = _table(paths["raw/node-feat"], np.int64, len(CATEGORIES))
        y = _table(paths["raw/graph-label"], np.float32, labels)
        if not (len(nodes) == len(bonds) == len(y) and nodes.sum() == len(x)):
            raise DataError(
                f"the tables of {name} do not fit together: {len(nodes)} and {len(bonds)} graphs, "
                f"{len(y)} labels, {len(x)} atoms of {nodes.sum()}; get them again as one archive"
            )
        wrong = np.argwhere((x < 0) | (x >= np.array(CATEGORIES)))
        if len(wrong):
            row, column = wrong[0] + 1
            why = f"line {row}, column {column}: no such category of an atom"
            raise damaged(paths["raw/node-feat"], OGB, why)
        names, smiles = _molecules(paths["mapping/mol"], labels)
        if len(smiles) != len(y):
            why = f"it has {len(smiles)} molecules, the labels are of {len(y)}"
            raise damaged(paths["mapping/mol"], OGB, why)
        made_again = file_sha256(paths["raw/node-feat"]) in REBUILT
        return GraphStore.from_arrays(
            node_ptr=offsets(nodes),
            edge_ptr=offsets(2 * bonds),
            edge_index=np.stack([ends, ends[:, ::-1]], axis=1).reshape(-1, 2).T,
            x=x,
            y=y,
            graph_fields={"split": _parts(name, paths, len(y)), SMILES: smiles},
            meta={
                "labels": names,
                "categories": list(CATEGORIES),
                "node_types": _SYMBOLS.split(),
                "matches_paper": "rebuilt" if made_again else "yes",
            },
        )

    def matches_paper(self, name: str, options: DatasetOptions) -> Match:
        """``yes`` for OGB's own files; of files made again, the store holds ``rebuilt``."""
        return "yes"


def _parts(name: str, paths: Mapping[str, Path], count: int) -> NDArray[np.int64]:
    """The part of each graph ``[G]``; every graph belongs to exactly one."""
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


def _molecules(path: Path, labels: int) -> tuple[list[str], list[str]]:
    """Read the table of molecules: the names of the labels, its first columns, and the SMILES."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            header = next(rows)
            at = header.index("smiles")
            return header[:labels], [row[at] for row in rows if row]
    except (
        OSError, EOFError, StopIteration, csv.Error, ValueError, IndexError, zlib.error
    ) as error:  # fmt: skip
        raise damaged(path, OGB, str(error)) from error


def _column(path: Path) -> NDArray[np.int64]:
    """A table of one column ``[rows]``."""
    return _table(path, np.int64, 1)[:, 0]


def _table(path: Path, kind: type[Any], columns: int) -> NDArray[Any]:
    """A gzipped CSV file of numbers ``[rows, columns]``."""
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            table = np.loadtxt(file, dtype=kind, delimiter=",", ndmin=2)
        if table.size and table.shape[1] != columns:
            raise ValueError(f"{table.shape[1]} columns, not {columns}")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise damaged(path, OGB, " ".join(str(error).split())) from error
    return table.reshape(-1, columns)
