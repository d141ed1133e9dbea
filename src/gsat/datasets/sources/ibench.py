"""iBenchmark: molecules of ChEMBL with labels that follow from known atoms, and their signs.

Matveieva and Polishchuk, Benchmarks for interpretation of QSAR models, J. Cheminformatics 2021.
The labels follow from known rules: the number of nitrogens or of amides, a pharmacophore. Every
atom contributes 1, −1 or 0. Train and test are those of the authors.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.core.registry import register_dataset
from gsat.datasets.fetch.archive import open_zip, read_member
from gsat.datasets.fetch.raw_files import (
    RawFile,
    damaged,
    listed_files,
    require_all,
)
from gsat.datasets.source import DatasetOptions, DatasetSource

if TYPE_CHECKING:
    from gsat.graphs import GraphStore
    from gsat.tasks import Task

PUBLISHER: Final = "the iBenchmark project"


def _url(name: str) -> str:
    project = "https://raw.githubusercontent.com/ci-lab-cz/ibenchmark"
    return f"{project}/4854b80aedbefdb07c292d2805e59a3de8f87c88/Datasets/{name}"


class _Set(NamedTuple):
    train: str  # name of the zip; the test molecules are in the one named "test" instead
    summary: str
    classes: tuple[str, ...] = ()  # none for a number
    centre: float = 0.0  # mean of the training labels, for a number
    scale: float = 1.0  # their standard deviation


SETS: Final = {
    "ibench-n": _Set(
        "N_train_lbl.zip",
        "9994 molecules: how many nitrogens? (known atoms)",
        centre=2.5385,
        scale=1.0164,
    ),
    "ibench-n-minus-o": _Set(
        "N_minus_O_train_lbl.zip",
        "9862 molecules: nitrogens minus oxygens (known atoms, two signs)",
        centre=-0.0274,
        scale=1.5341,
    ),
    "ibench-n-plus-o": _Set(
        "N_O_train_lbl.zip",
        "10000 molecules: half of nitrogens plus oxygens, as many of each (known atoms)",
        centre=2.5476,
        scale=1.0124,
    ),
    "ibench-amide": _Set(
        "amide_train_lbl.zip",
        "10001 molecules: how many amides? (known atoms)",
        centre=2.0764,
        scale=1.1653,
    ),
    "ibench-amide-class": _Set(
        "amide_class_train_lbl.zip",
        "9998 molecules: is there an amide? (known atoms)",
        ("no amide", "amide"),
    ),
    "ibench-pharmacophore": _Set(
        "pharmacophore_train.zip",
        "10000 molecules: a donor and an acceptor 9 to 10 Å apart? (known atoms)",
        ("inactive", "active"),
    ),
}
FILES: Final = listed_files(
    "ibenchmark",
    PUBLISHER,
    _url,
    """
22935d92fb05966147540c3b5b54fd2553d81c07bd73f3105809f3f9a7be39cf 1370805 N_train_lbl.zip
df8328169da457e3b81c543ea98e0dc177ebc842773af3c90518305e2a7f5a64 587193 N_test_lbl.zip
73441500888d6049beed9de034c3065bf7c50c2fc50ce1964c6e63feaf4cfcba 1614382 N_minus_O_train_lbl.zip
13c68200f5e95f8311db52a125a01c34af70a0741998595d48834d356046f79c 698277 N_minus_O_test_lbl.zip
4df99891729cdc7c9bf22251bf0a442813078da33406ead87a31d2da9c02327f 1503775 N_O_train_lbl.zip
79314f54cf0827d9d0dd42de46858caf9103bf0f084e71e0871f4ccf59feeb42 644255 N_O_test_lbl.zip
124a120c61b02ef427efc20ba29f53b9bb2a98cac7b2ab57082247a3e81f6dc3 1510403 amide_train_lbl.zip
64d00e3d3f2effdb4f71e9bac87902b267582189a59a195520da7343c3a4cd35 650018 amide_test_lbl.zip
7e3f8251f88dae8843b3fb9f0ff62e1e763b295d24c92083080a1ff0cbca2b02 1374543 amide_class_train_lbl.zip
3bf125dffe18d3f8a01f0ba748afd406f185610c925cadf48638a6849dc48df5 586708 amide_class_test_lbl.zip
c5ce60310aac13a7b2d0b8654b3dd4ffec04544c7634bdef09cce3a16faefe71 2601968 pharmacophore_train.zip
d21989db49d82d6270961b3fd61db5bd92d281aceb8908804b115fb84434c8b6 1128003 pharmacophore_test.zip
""",
)


@register_dataset("ibench-n")
@register_dataset("ibench-n-minus-o")
@register_dataset("ibench-n-plus-o")
@register_dataset("ibench-amide")
@register_dataset("ibench-amide-class")
@register_dataset("ibench-pharmacophore")
class IBench(DatasetSource):
    """Molecules of ChEMBL whose labels follow from known atoms."""

    recipe, backbone = "molecules", "dmpnn"

    def summary(self, name: str) -> str:
        """Describe the molecules of this name."""
        return SETS[name].summary

    def raw_files(self, name: str, options: DatasetOptions) -> tuple[RawFile, ...]:
        """Return the zips of the training and of the test molecules."""
        train = SETS[name].train
        return FILES[train], FILES[train.replace("train", "test")]

    def task(self, name: str, options: DatasetOptions) -> Task:
        """Two classes measured by ROC AUC, or a number."""
        from gsat.tasks import Task

        chosen = SETS[name]
        if chosen.classes:
            return Task("binary", metric="roc_auc")
        return Task("regression", 1, "r2", centre=chosen.centre, scale=chosen.scale)

    def build(self, name: str, options: DatasetOptions, data_seed: int) -> GraphStore:
        """Read the molecules; node i is atom i of their SMILES.

        ``node_sign`` ``[N]`` is the sign of each atom's contribution, ``node_truth`` whether it has
        one; ``annotated`` ``[G]`` marks the molecules of which that is known. ``split`` ``[G]`` is
        0 for the published training molecules and 2 for the test molecules.
        """
        from gsat.datasets.sources._molecules import labelled_store

        parts = [read_zip(path) for path in require_all(self.raw_files(name, options))]
        sign = np.concatenate([part.sign for part in parts]).astype(np.float32)

        def truth(store: GraphStore) -> dict[str, NDArray[np.float32]]:
            if store.num_nodes != len(sign):
                raise DataError(f"a molecule of {name} is not read back as written")
            return {"node_sign": sign, "node_truth": np.abs(sign)}

        return labelled_store(
            [text for part in parts for text in part.smiles],
            np.concatenate([part.y for part in parts]),
            truth,
            label=name.removeprefix("ibench-"),
            classes=SETS[name].classes,
            fields={
                "id": [text for part in parts for text in part.names],
                "annotated": np.concatenate([part.known for part in parts]),
                "split": np.repeat([0, 2], [len(part.smiles) for part in parts]),
            },
        )


class Read(NamedTuple):
    """The molecules of one file."""

    smiles: list[str]
    names: list[str]  # identifiers in ChEMBL
    y: NDArray[np.float64]
    known: NDArray[np.bool_]  # whether the contributions of the atoms are known, [G]
    sign: NDArray[np.int8]  # contribution of each atom, in the order of the SMILES: 1, 0 or −1


def read_zip(path: Path) -> Read:
    """Read the SDF file in a zip."""
    from gsat.molecules.smiles import import_rdkit

    chem = import_rdkit("reading SDF files")
    from rdkit import rdBase

    smiles, names, y, known, sign = [], [], [], [], []
    with rdBase.BlockLogs():
        for number, record in enumerate(_records(path)):
            molecule = chem.MolFromMolBlock(record.block, removeHs=False)
            labels = record.fields.get("lbls", "NA")
            if molecule is None or "activity" not in record.fields:
                raise damaged(
                    path, PUBLISHER, f"molecule {number} can't be read, or has no activity"
                )
            contributions = [0] * molecule.GetNumAtoms()
            if labels != "NA":
                contributions = [int(value) for value in labels.split(",")]
            if len(contributions) != molecule.GetNumAtoms():
                raise damaged(path, PUBLISHER, f"molecule {number} has not as many lbls as atoms")
            for atom, value in zip(molecule.GetAtoms(), contributions, strict=True):
                atom.SetIntProp("sign", value)
            # As it will be read from its SMILES: without hydrogens, atoms in that order.
            heavy = chem.RemoveHs(molecule)
            smiles.append(chem.MolToSmiles(heavy))
            order = list(heavy.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])
            sign += [heavy.GetAtomWithIdx(at).GetIntProp("sign") for at in order]
            names.append(record.title)
            y.append(float(record.fields["activity"]))
            known.append(labels != "NA")
    return Read(smiles, names, np.array(y), np.array(known), np.array(sign, dtype=np.int8))


def _records(path: Path) -> list[Any]:
    from gsat.molecules.table import sdf_records

    with open_zip(path) as archive:
        members = [name for name in archive.namelist() if name.endswith(".sdf")]
        if len(members) != 1:
            raise damaged(path, PUBLISHER, f"it holds {len(members)} .sdf files, not 1")
        text = read_member(archive, members[0], str(path)).decode("utf-8", errors="replace")
    return list(sdf_records(text))
