"""iBenchmark: the published molecules and the truth of their atoms, recounted with RDKit."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gsat.core.errors import DataError
from gsat.datasets import find_source
from gsat.datasets.load import Dataset, load_dataset
from gsat.datasets.sources.ibench import SETS, read_zip
from gsat.molecules.smiles import molecule_of

Chem = pytest.importorskip("rdkit.Chem")

# Sizes of the published files, and the elements or pattern that decide the label.
REAL = {
    "ibench-n": ((6995, 2999), {"N": 1}),
    "ibench-n-minus-o": ((6893, 2969), {"N": 1, "O": -1}),
    "ibench-n-plus-o": ((7000, 3000), {"N": 1, "O": 1}),
    "ibench-amide": ((7000, 3001), None),
    "ibench-amide-class": ((6998, 3000), None),
    "ibench-pharmacophore": ((7000, 3000), None),
}


def load(name: str, raw_file: Callable[[str], Path]) -> Dataset:
    for file in find_source(name).raw_files(name, None):
        raw_file(file.path)
    return load_dataset(name)


@pytest.mark.medium
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", REAL)
def test_real_files(name: str, raw_file: Callable[[str], Path]) -> None:
    data = load(name, raw_file)
    store, (train, test) = data.store, REAL[name][0]
    assert len(data.splits["train"]) + len(data.splits["valid"]) == train
    assert len(data.splits["test"]) == test
    assert len(data.splits["valid"]) == train // 10
    official = np.concatenate([data.splits["train"], data.splits["valid"]])
    assert sorted(official) == list(range(train))
    sign, elements = store.arrays["node_sign"], REAL[name][1]
    np.testing.assert_array_equal(np.abs(sign), store.arrays["node_truth"])
    assert set(np.unique(sign)) <= {-1, 0, 1}
    labels = store.labels("graph")
    if not SETS[name].classes:
        assert data.task.centre == pytest.approx(labels[:train].mean(), abs=1e-3)
        assert data.task.scale == pytest.approx(labels[:train].std(), abs=1e-3)
    else:
        assert store.meta["classes"] == list(SETS[name].classes)
    amide = Chem.MolFromSmarts("C(=O)N")
    nodes = np.split(sign, store.arrays["node_ptr"][1:-1])
    for at in range(0, len(store), 97):
        graph = store[at]
        molecule = molecule_of(graph.smiles, graph.num_nodes)
        assert graph.node_sign.tolist() == nodes[at].tolist()
        symbols = [atom.GetSymbol() for atom in molecule.GetAtoms()]
        if elements is not None:
            contributions = [elements.get(symbol, 0) for symbol in symbols]
            assert nodes[at].tolist() == contributions
            total = sum(contributions) / (2 if name == "ibench-n-plus-o" else 1)
            assert labels[at, 0] == total
        elif "amide" in name:
            true = set(np.flatnonzero(nodes[at]).tolist())
            matched = {i for match in molecule.GetSubstructMatches(amide) for i in match}
            assert true <= matched
            assert bool(true) == (labels[at, 0] > 0)
        else:
            assert bool(nodes[at].any()) == (labels[at, 0] > 0)


def test_the_seed_draws_the_validation_molecules(raw_file: Callable[[str], Path]) -> None:
    one = load("ibench-amide-class", raw_file)
    two = load_dataset("ibench-amide-class", seed=1)
    assert not np.array_equal(one.splits["valid"], two.splits["valid"])
    assert np.array_equal(one.splits["test"], two.splits["test"])


def write_zip(path: Path, *molecules: tuple[str, dict[str, str]]) -> Path:
    sdf = path.with_suffix(".sdf")
    with Chem.SDWriter(str(sdf)) as writer:
        for smiles, fields in molecules:
            molecule = Chem.MolFromSmiles(smiles)
            for name, value in fields.items():
                molecule.SetProp(name, value)
            writer.write(molecule)
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(sdf, sdf.name)
    return path


def test_contributions_follow_the_atoms_into_the_smiles(tmp_path: Path) -> None:
    path = write_zip(
        tmp_path / "t.zip",
        ("OC(=O)CCN", {"activity": "0", "lbls": "-1,0,-1,0,0,1"}),
        ("c1ccccc1", {"activity": "1", "lbls": "NA"}),
    )
    found = read_zip(path)
    assert found.known.tolist() == [True, False]
    assert found.y.tolist() == [0, 1]
    first = molecule_of(found.smiles[0], 6)
    by_symbol = {"N": 1, "O": -1, "C": 0}
    assert found.sign[:6].tolist() == [by_symbol[a.GetSymbol()] for a in first.GetAtoms()]


@pytest.mark.parametrize(
    ("fields", "why"),
    [({"lbls": "0,0"}, "no activity"), ({"activity": "1", "lbls": "0"}, "as many lbls as atoms")],
)
def test_damaged_files(tmp_path: Path, fields: dict[str, str], why: str) -> None:
    with pytest.raises(DataError, match=f"damaged .*{why}"):
        read_zip(write_zip(tmp_path / "t.zip", ("CC", fields)))
    (tmp_path / "no.zip").write_bytes(b"no zip")
    with pytest.raises(DataError, match="damaged"):
        read_zip(tmp_path / "no.zip")
