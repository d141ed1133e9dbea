"""Fragments of molecules, checked against RDKit's own fragment counts and against chemistry."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem, rdBase
from rdkit.Chem import Fragments
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from gsat.molecules import fragments as module
from gsat.molecules.fragments import Fragment, fragments
from gsat.molecules.functional_groups import GROUPS, RINGS

# Counts by RDKit of groups that are defined alike there.
COUNTED: dict[str, Callable[[Chem.Mol], int]] = {
    "nitrile": Fragments.fr_nitrile,
    "azide": Fragments.fr_azide,
    "epoxide": Fragments.fr_epoxide,
    "isothiocyanate": Fragments.fr_isothiocyan,
    "thiocyanate": Fragments.fr_thiocyan,
    "aldehyde": Fragments.fr_aldehyde,
}


def fragments_of(smiles: str) -> list[Fragment]:
    return fragments(Chem.MolFromSmiles(smiles))


def names(smiles: str) -> list[str]:
    return [fragment.name for fragment in fragments_of(smiles)]


@pytest.fixture(scope="module")
def molecules(raw_data: Path) -> list[Chem.Mol]:
    with (raw_data / "molecules_csv" / "bbbp.csv").open() as file, rdBase.BlockLogs():
        read = [Chem.MolFromSmiles(row["smiles"]) for row in csv.DictReader(file)]
    return [molecule for molecule in read if molecule is not None]


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("O=[N+]([O-])c1ccccc1", ["nitro", "benzene"]),
        ("O=N(=O)c1ccccc1", ["nitro", "benzene"]),
        ("Nc1ccc2ccccc2c1", ["primary aromatic amine", "naphthalene"]),
        ("NCc1ccccc1", ["primary amine", "benzene", "methylene"]),
        ("CN(C)N=O", ["nitrosamine", "methyl", "methyl"]),
        ("CC(=O)Oc1ccccc1C(=O)O", ["ester", "carboxylic acid", "benzene", "methyl"]),
        ("CC(=O)NC", ["amide", "methyl", "methyl"]),
        ("CC(=O)N1CCCCC1", ["amide", "piperidine", "methyl"]),
        ("C1CC(=O)NC1", ["amide", "2-pyrrolidone"]),
        ("NC(=O)Nc1ccccc1", ["urea", "benzene"]),
        ("C1OC1C", ["epoxide", "methyl"]),
        ("C1CCOCC1", ["tetrahydropyran"]),
        ("Clc1ccccc1CCl", ["aryl chloride", "alkyl chloride", "benzene", "methylene"]),
        ("FC(F)(F)c1ccncc1", ["trifluoromethyl", "pyridine"]),
        ("Cn1cccc1", ["pyrrole", "methyl"]),
        ("O=c1cc[nH]cc1", ["O=c1cc[nH]cc1"]),
        ("[O-][n+]1ccccc1", ["[O-][n+]1ccccc1"]),
        ("C[n+]1ccccc1", ["c1cc[nH+]cc1", "methyl"]),
        ("C[NH+]1CCCCC1", ["C1CC[NH2+]CC1", "methyl"]),
        ("[Na+].[Cl-]", ["[Na+]", "[Cl-]"]),
        ("[H][H]", ["[H][H]"]),
        ("CC(C)(C)O", ["alcohol", "tert-butyl"]),
        ("OCC(O)C", ["alcohol", "alcohol", "alkyl C3"]),
    ],
)
def test_molecules_fall_into_named_fragments(smiles: str, expected: list[str]) -> None:
    assert names(smiles) == expected


def test_the_smiles_of_a_fragment_shows_where_the_rest_is() -> None:
    nitro, benzene, methyl = fragments_of("Cc1ccccc1[N+](=O)[O-]")
    assert (nitro.smiles, benzene.smiles, methyl.smiles) == ("*[N+](=O)[O-]", "c1ccccc1", "*C")
    assert (nitro.kind, benzene.kind, methyl.kind) == ("group", "ring", "chain")


def test_hydrogens_that_are_atoms_follow_their_neighbour() -> None:
    molecule = Chem.AddHs(Chem.MolFromSmiles("Nc1ccccc1"))
    amine, benzene = fragments(molecule)
    assert [molecule.GetAtomWithIdx(i).GetSymbol() for i in amine.atoms] == ["N", "H", "H"]
    assert amine.name == "primary aromatic amine"
    assert len(benzene.atoms) == 6 + 5


@pytest.mark.parametrize(("smiles", "name"), RINGS.items())
def test_every_named_ring_is_found_under_its_name(smiles: str, name: str) -> None:
    assert name in names(smiles)
    assert name in names(f"{smiles}.C")


def test_the_smarts_are_valid_and_match_no_aromatic_atom() -> None:
    aromatic = Chem.MolFromSmiles("Cn1c(=O)c2c(ncn2C)n(C)c1=O.c1ccc2[nH]ccc2c1.c1cc[n+]([O-])cc1")
    for name, smarts in GROUPS:
        query = Chem.MolFromSmarts(smarts)
        assert query is not None, name
        for match in aromatic.GetSubstructMatches(query):
            assert not any(aromatic.GetAtomWithIdx(i).GetIsAromatic() for i in match), name


def test_real_molecules_are_covered_and_no_aromatic_ring_is_cut(molecules: list[Chem.Mol]) -> None:
    for molecule in molecules:
        found = fragments(molecule)
        covered = {i for fragment in found for i in fragment.atoms}
        assert covered == set(range(molecule.GetNumAtoms()))
        for ring in molecule.GetRingInfo().AtomRings():
            if all(molecule.GetAtomWithIdx(i).GetIsAromatic() for i in ring):
                for fragment in found:
                    assert not set(ring) & set(fragment.atoms) or set(ring) <= set(fragment.atoms)


def test_fragments_do_not_depend_on_the_order_of_atoms(molecules: list[Chem.Mol]) -> None:
    for molecule in molecules[::20]:
        turned = Chem.RenumberAtoms(molecule, list(reversed(range(molecule.GetNumAtoms()))))
        # In a barbiturate two imides share atoms; the first one takes them.
        one, other = (
            sorted(fragment.name for fragment in fragments(m)) for m in (molecule, turned)
        )
        assert one == other


@pytest.mark.parametrize("name", COUNTED)
def test_counts_of_groups_equal_rdkits(name: str, molecules: list[Chem.Mol]) -> None:
    for molecule in molecules:
        found = sum(fragment.name == name for fragment in fragments(molecule))
        assert found == COUNTED[name](molecule), Chem.MolToSmiles(molecule)


@pytest.mark.parametrize("smiles", ["CC(=O)NCc1ccccc1OC1CC1" * 20, ".".join(["CCOC", "C#N"] * 30)])
def test_connected_atoms_as_by_scipy(smiles: str) -> None:
    molecule = Chem.MolFromSmiles(smiles)
    carbons = {atom.GetIdx() for atom in molecule.GetAtoms() if atom.GetAtomicNum() == 6}
    matrix = Chem.GetAdjacencyMatrix(molecule)[np.ix_(sorted(carbons), sorted(carbons))]
    count, label = connected_components(csr_array(matrix), directed=False)
    expected = {
        frozenset(np.array(sorted(carbons))[label == part].tolist()) for part in range(count)
    }
    found = module._connected(molecule, carbons)
    assert len(found) == count
    assert set(found) == expected
