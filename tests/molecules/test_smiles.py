"""SMILES of graphs: node i is atom i, in data sets and in written SMILES."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gsat.core.errors import DataError, MissingExtraError
from gsat.datasets.load import load_dataset
from gsat.graphs import GraphStore
from gsat.molecules.featuriser import featurise
from gsat.molecules.smiles import molecule_of, write_smiles

Chem = pytest.importorskip("rdkit.Chem")


def test_atoms_are_in_the_order_of_the_nodes() -> None:
    # Nitrobenzene with its hydrogens, the nodes in an order no SMILES writer would choose.
    symbols = ["H", "O", "C", "C", "H", "N", "C", "C", "O", "C", "H", "C", "H", "H"]
    bonds = [
        *((2, 3, 2), (3, 6, 1), (6, 7, 2), (7, 9, 1), (9, 11, 2), (11, 2, 1)),
        *((2, 5, 1), (5, 1, 1), (8, 5, 2)),
        *((0, 3, 1), (4, 6, 1), (10, 7, 1), (12, 9, 1), (11, 13, 1)),
    ]
    molecule = molecule_of(write_smiles(symbols, bonds), len(symbols))
    assert [atom.GetSymbol() for atom in molecule.GetAtoms()] == symbols
    found = {tuple(sorted((b.GetBeginAtomIdx(), b.GetEndAtomIdx()))) for b in molecule.GetBonds()}
    assert found == {tuple(sorted(bond[:2])) for bond in bonds}
    assert Chem.MolToSmiles(Chem.RemoveHs(molecule)) == "O=[N+]([O-])c1ccccc1"


def test_more_than_a_hundred_ring_closures_are_open_at_once() -> None:
    # All bonds between carbons, which come first, and hydrogens are open at the same time.
    n = 120
    symbols = ["C"] * n + ["H"] * (2 * n + 2)
    chain = [(i, i + 1, 1) for i in range(n - 1)]
    ends = [i for i in range(n) for _ in range(2)] + [0, n - 1]
    smiles = write_smiles(symbols, chain + [(c, n + h, 1) for h, c in enumerate(ends)])
    assert "%(" in smiles
    assert Chem.MolToSmiles(Chem.RemoveHs(molecule_of(smiles, len(symbols)))) == "C" * n


@pytest.mark.parametrize(
    ("symbols", "bonds", "written"),
    [
        (["Na", "Cl"], [], "[Cl-].[Na+]"),
        (["Ca", "O"], [(0, 1, 2)], "[O]=[Ca]"),
        (["N", "H", "H", "H", "H"], [(0, k, 1) for k in range(1, 5)], "[NH4+]"),
        (["C", "N"], [(0, 1, 3)], "[C]#N"),
    ],
)
def test_charges(symbols: list[str], bonds: list[tuple[int, int, int]], written: str) -> None:
    molecule = molecule_of(write_smiles(symbols, bonds), len(symbols))
    assert Chem.MolToSmiles(Chem.RemoveHs(molecule)) == written


def test_hydrogens_are_atoms_if_the_graph_has_nodes_for_them() -> None:
    assert molecule_of("[H]C([H])([H])O", 2).GetNumAtoms() == 2
    assert molecule_of("[H]C([H])([H])O", 5).GetNumAtoms() == 5


@pytest.mark.parametrize("smiles", ["", "C1CC", "c1cc", "N(C)(C)(C)(C)C"])
def test_invalid_smiles(smiles: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match=re.escape(repr(smiles))):
        molecule_of(smiles, 3)
    assert capfd.readouterr().err == ""


def test_another_number_of_atoms() -> None:
    with pytest.raises(DataError, match=r"'CCO' .*3 .*2"):
        molecule_of("CCO", 2)
    with pytest.raises(DataError, match="4"):
        write_smiles(["C", "C"], [(0, 1, 4)])


def check_atoms(store: GraphStore, elements: Callable[[np.ndarray], list[str]]) -> list[str]:
    """Every node is the atom of that element, and every bond is two edges; what RDKit refuses."""
    refused = []
    for graph, smiles in zip(store, store.texts("smiles"), strict=True):
        try:
            molecule = molecule_of(smiles, graph.num_nodes)
        except DataError:
            refused.append(smiles)
            continue
        assert [a.GetSymbol() for a in molecule.GetAtoms()] == elements(graph.x.numpy()), smiles
        bonds = {(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds()}
        both = bonds | {(v, u) for u, v in bonds}
        assert set(map(tuple, graph.edge_index.T.tolist())) == both, smiles
    return refused


@pytest.mark.medium
@pytest.mark.parametrize("name", ["bbbp", "bace", "clintox", "tox21", "sider"])
def test_molecules_of_ogb(name: str, raw_file: Callable[[str], Path]) -> None:
    raw_file(f"ogbg_mol/ogbg_mol{name}/mapping/mol.csv.gz")
    store = load_dataset(f"ogbg-mol{name}").store
    symbols = store.meta["node_types"]
    refused = check_atoms(store, lambda x: [symbols[k] for k in x[:, 0]])
    # Since OGB made its files, RDKit has come to refuse aluminium with five bonds.
    assert all("[Al" in smiles for smiles in refused)


@pytest.mark.medium
def test_molecules_of_mutag(raw_file: Callable[[str], Path]) -> None:
    raw_file("mutagenicity/Mutagenicity.zip")
    data = load_dataset("mutag")
    symbols = data.store.meta["node_types"]
    assert not check_atoms(data.store, lambda x: [symbols[k] for k in x.argmax(axis=1)])
    # The hash of recorded results, from before there were SMILES.
    assert data.hash == "f96df09c89951fd3"
    nitro, amine = map(Chem.MolFromSmarts, ("[N+](=O)[O-]", "[NX3H2]"))
    graphs = data.test
    molecules = [
        molecule_of(s, n) for s, n in zip(graphs.texts("smiles"), graphs.node_counts, strict=True)
    ]
    marked = [
        m.HasSubstructMatch(nitro) or Chem.RemoveHs(m).HasSubstructMatch(amine) for m in molecules
    ]
    assert np.mean(marked) > 0.99


def test_without_rdkit_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    for work in (lambda: molecule_of("CC", 2), lambda: featurise(["CC"])):
        with pytest.raises(MissingExtraError, match=r"torch-gsat\[molecules\]"):
            work()
