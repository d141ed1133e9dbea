"""Similarity of molecules, against Tanimoto's formula on the bits of the fingerprints."""

from __future__ import annotations

import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from gsat.molecules.fingerprints import BITS, RADIUS, NearestMolecules

MOLECULES = ["CCO", "c1ccccc1O", "not a molecule", "CC(=O)Oc1ccccc1C(=O)O", "c1ccccc1N", ""]


def _bits(smiles: str) -> set[int]:
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    return set(generator.GetFingerprint(Chem.MolFromSmiles(smiles)).GetOnBits())


def test_the_nearest_molecules_come_first() -> None:
    near = NearestMolecules(MOLECULES)
    assert len(near) == 4
    found = near.nearest("Nc1ccccc1C", 4)
    assert [n.position for n in found[:1]] == [4]
    assert [n.similarity for n in found] == sorted((n.similarity for n in found), reverse=True)
    ours = _bits("Nc1ccccc1C")
    for neighbour in found:
        theirs = _bits(MOLECULES[neighbour.position])
        assert neighbour.similarity == pytest.approx(len(ours & theirs) / len(ours | theirs))


def test_a_molecule_equals_itself_in_any_notation() -> None:
    (found,) = NearestMolecules(MOLECULES).nearest("OC(=O)c1ccccc1OC(C)=O", 1)
    assert (found.position, found.similarity) == (3, 1.0)
    assert found.smiles == "CC(=O)Oc1ccccc1C(=O)O"


def test_explicit_hydrogens_make_no_difference() -> None:
    (found,) = NearestMolecules(["[C]123.[H]1.[H]2.[H]3", "[C]1234.[H]1.[H]2.[H]3.[H]4"]).nearest(
        "C", 1
    )
    assert (found.smiles, found.similarity) == ("C", 1.0)


def test_invalid_and_empty_searches_find_nothing() -> None:
    assert NearestMolecules(MOLECULES).nearest("C(C") == []
    assert NearestMolecules([]).nearest("CC") == []
