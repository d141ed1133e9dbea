"""Atom and bond features, against RDKit and OGB, and for random SMILES of the same molecule."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gsat.core.errors import DataError
from gsat.molecules import featuriser
from gsat.molecules.featuriser import (
    ATOM_FEATURES,
    BOND_FEATURES,
    featurise,
    read_all,
    to_arrays,
)
from gsat.molecules.sizes import oversized_block, oversized_smiles
from gsat.molecules.smiles import molecule_of

Chem = pytest.importorskip("rdkit.Chem")

ODD = [
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@H](N)C(=O)O",
    "C[C@@H](N)C(=O)O",
    "F/C=C/F",
    "F/C=C\\F",
    "[Na+].[O-]C(=O)c1ccccc1",
    "[2H]C([2H])([2H])O",
    "[13CH4]",
    "C[N+](C)(C)CC([O-])=O",
    "[CH3]",
    "C1CC1C2CCC2C3CCCCCCCC3",
    "S(F)(F)(F)(F)(F)F",
    "C#CC=C=C",
    "*CC",
    "[O-][n+]1ccccc1",
    "[Fe]C",
]


def column(name: str) -> int:
    return list(ATOM_FEATURES).index(name)


@pytest.mark.parametrize("smiles", ODD)
def test_features_equal_rdkits(smiles: str) -> None:
    graph = featurise([smiles])[0]
    molecule = molecule_of(smiles, graph.num_nodes)
    rows = dict(zip(ATOM_FEATURES, graph.x.T.tolist(), strict=True))
    atoms = list(molecule.GetAtoms())
    assert rows["element"] == [a.GetAtomicNum() for a in atoms]
    assert rows["hydrogens"] == [min(a.GetTotalNumHs(), 5) for a in atoms]
    assert rows["charge"] == [a.GetFormalCharge() + 2 for a in atoms]
    assert rows["degree"] == [a.GetDegree() for a in atoms]
    assert rows["aromatic"] == [int(a.GetIsAromatic()) for a in atoms]
    assert rows["radicals"] == [min(a.GetNumRadicalElectrons(), 2) for a in atoms]
    assert rows["isotope"] == [int(a.GetIsotope() > 0) for a in atoms]
    info = molecule.GetRingInfo()
    assert rows["ring"] == [max(0, min(info.MinAtomRingSize(a.GetIdx()), 8) - 2) for a in atoms]
    centres = dict(Chem.FindMolChiralCenters(molecule))
    assert rows["chirality"] == [{"R": 1, "S": 2}.get(centres.get(a.GetIdx()), 0) for a in atoms]
    for ends, attributes in zip(graph.edge_index.T.tolist(), graph.edge_attr.tolist(), strict=True):
        bond = molecule.GetBondBetweenAtoms(*ends)
        on = {n for n, v in zip(BOND_FEATURES, attributes, strict=True) if v}
        stereo = {"STEREOE": {"E"}, "STEREOZ": {"Z"}}.get(str(bond.GetStereo()), set())
        wanted = {str(bond.GetBondType()).lower()} | ({"ring"} if bond.IsInRing() else set())
        assert on == wanted | stereo
    assert graph.num_edges == 2 * molecule.GetNumBonds()


@pytest.mark.parametrize("smiles", ODD)
def test_features_do_not_depend_on_how_a_smiles_is_written(smiles: str) -> None:
    molecule = Chem.MolFromSmiles(smiles)
    found = set()
    for text in {smiles, *Chem.MolToRandomSmilesVect(molecule, 10, randomSeed=7)}:
        graph = featurise([text])[0]
        x, pairs = graph.x.tolist(), graph.edge_index.T.tolist()
        bonds = [
            (*sorted((x[u], x[v])), attributes)
            for (u, v), attributes in zip(pairs, graph.edge_attr.tolist(), strict=True)
        ]
        found.add(str((sorted(x), sorted(bonds))))
    assert len(found) == 1


def test_mirror_images_and_double_bonds_differ() -> None:
    for one, two in (("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"), ("F/C=C/F", "F/C=C\\F")):
        store = featurise([one, two])
        same = np.array_equal(store[0].x, store[1].x)
        assert not (same and np.array_equal(store[0].edge_attr, store[1].edge_attr))


@pytest.mark.medium
def test_graphs_equal_ogbs(raw_file: Callable[[str], Path]) -> None:
    from ogb.utils import smiles2graph

    with raw_file("molecules_csv/bbbp.csv").open(newline="") as file:
        smiles = [row["smiles"] for row in csv.DictReader(file)][:300]
    for text, graph in zip(smiles, featurise(smiles), strict=True):
        theirs = smiles2graph(text)
        assert graph.x[:, column("element")].tolist() == (theirs["node_feat"][:, 0] + 1).tolist()
        assert graph.x[:, column("hydrogens")].tolist() == theirs["node_feat"][:, 4].tolist()
        ours = set(map(tuple, graph.edge_index.T.tolist()))
        assert ours == set(map(tuple, theirs["edge_index"].T.tolist()))


def test_bonds_are_the_same_with_and_without_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    smiles = [
        "C1CCC2CC1CC2",
        "[Fe]~C(=O)C#N",
        "N->[Pt]",
        "C/C=C\\C",
        "C1" + "C" * 300 + "C1",
        "CC.O",
    ]
    before = to_arrays(read_all(smiles))
    for atoms in (0, 10_000):
        monkeypatch.setattr(featuriser, "_DENSE", atoms)
        after = to_arrays(read_all(smiles))
        assert all(np.array_equal(before[name], after[name]) for name in before)


def test_atoms_and_bonds_are_counted_as_rdkit_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSAT_LIMITS", "atoms=1,bonds=1")
    for smiles in ("CCO", "c1cc[nH]c1Br", "C%10CC%10Cl", "[13CH3][N+](C)(C)C", "C1CC1C1CC1"):
        molecule = Chem.MolFromSmiles(smiles)
        assert oversized_smiles(smiles).startswith(f"{molecule.GetNumAtoms()} atoms")
        monkeypatch.setenv("GSAT_LIMITS", "bonds=1")
        assert oversized_smiles(smiles).startswith(f"{molecule.GetNumBonds()} bonds")
        monkeypatch.setenv("GSAT_LIMITS", "atoms=1,bonds=1")
        for version in (False, True):
            block = Chem.MolToMolBlock(molecule, forceV3000=version)
            assert oversized_block(block).startswith(f"{molecule.GetNumAtoms()} atoms")


def test_a_molecule_beyond_the_limits_is_not_given_to_rdkit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO"), forceV3000=True)
    lying = block.replace("COUNTS 3 2", "COUNTS 20000 2")
    found = read_all([block, lying, block + "\n" * 16_000], kind="mol")
    assert found.rows == [0]
    assert "20000 atoms" in found.problems[0][1]
    monkeypatch.setenv("GSAT_LIMITS", "atoms=30000")
    found = read_all(["C" * 4999, "CC"])
    assert found.atoms == [4999, 2]


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("C1CC", "it is not a SMILES"),
        ("hello", "it is not a SMILES"),
        ("CCO>>CC=O", "it is not a SMILES"),
        ("CN(C)(C)(C)C", "valence"),
        ("c1cccc1", "kekulize"),
        ("C\0C", "NUL"),
        ("CC O", "a space"),
        ("C" * 5001, "5001 characters"),
        ("[H][H]", "no heavy atom"),
        ("*", "no heavy atom"),
        ("[Na+].[K+]", "only metal"),
        ("[Zn]", "only metal"),
    ],
)
def test_unusable_texts_are_listed_with_the_reason(
    smiles: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    found = read_all(["CC", smiles, "CO"])
    assert found.rows == [0, 2]
    assert [row for row, _ in found.problems] == [1]
    assert reason in found.problems[0][1]
    assert capfd.readouterr().err == ""
    with pytest.raises(DataError):
        featurise([smiles])


def test_salts() -> None:
    salt = "[Na+].OC(=O)c1ccccc1.Cl"
    assert featurise([salt])[0].num_nodes == 11
    part = featurise([salt], largest_fragment=True)
    assert part.texts("smiles") == ["OC(=O)c1ccccc1"]
    assert part[0].num_nodes == 9
    # A dot inside a ring closure does not separate.
    across = featurise(["C1.CC.C1"], largest_fragment=True)
    assert across[0].num_nodes == 2
    assert read_all([salt, "CC"]).components == [3, 1]


def test_canonical_smiles_and_scaffolds() -> None:
    found = read_all(
        ["OCC", "C(C)O", "[CH3:1][CH2:7]O", "[H]OCC", "c1ccccc1CC"], canonical=True, scaffold=True
    )
    assert found.canonical == ["CCO"] * 4 + ["CCc1ccccc1"]
    assert found.scaffold == [""] * 4 + ["c1ccccc1"]


def test_mol_blocks() -> None:
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("Oc1ccccc1"))
    found = read_all([block, "nonsense", block], kind="mol")
    assert found.rows == [0, 2]
    assert found.smiles == ["Oc1ccccc1"] * 2
    assert "MOL block" in found.problems[0][1]


@pytest.mark.parametrize("fails", ["MolFromMolBlock", "DetectChemistryProblems", "MolToSmiles"])
def test_a_mol_block_that_breaks_rdkit_is_unusable(fails: str) -> None:
    class Fake:
        def __getattr__(self, name: str) -> Any:
            return self._break_down if name == fails else getattr(Chem, name)

        def _break_down(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("Pre-condition Violation")

    block = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO"))
    if fails == "DetectChemistryProblems":  # called only for impossible molecules
        loose = Chem.MolFromSmiles("C(C)(C)(C)(C)C", sanitize=False)
        loose.UpdatePropertyCache(strict=False)
        block = Chem.MolToMolBlock(loose, kekulize=False)
    with pytest.raises(featuriser._Unusable, match="MOL block"):
        featuriser._from_mol_block(block, Fake())
