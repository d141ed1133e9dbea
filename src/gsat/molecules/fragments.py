"""Chemically whole pieces of molecules: functional groups, ring systems and what is left.

A ring system is a set of rings that share atoms, with the atoms that it has double bonds to. A
functional group may hold atoms of a ring that is not aromatic (the nitrogen of an amide in a
piperidine), so that both are whole; aromatic rings are never cut. Carbon chains between them are
pieces of their own. Every atom is in one piece or more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, Literal

from gsat.molecules.functional_groups import CHAINS, GROUPS, RINGS
from gsat.molecules.smiles import import_rdkit

Kind = Literal["group", "ring", "chain"]
# Groups that say nothing beyond the ring they lie in.
_PART_OF_RING: Final = frozenset({"alkene", "allene", "alkyne", "acetal", "imine"})

# Elements that SMILES writes without brackets.
_PLAIN: Final = frozenset(("B", "C", "N", "O", "P", "S", "F", "Cl", "Br", "I", *"bcnops*"))


@dataclass(frozen=True)
class Fragment:
    """A piece of a molecule.

    Attributes:
        name: Such as ``"nitro"`` or ``"pyridine"``; its SMILES where it has no common name.
        kind: ``"group"``, ``"ring"`` or ``"chain"``.
        atoms: Its atoms, ascending; explicit hydrogens among them.
        smiles: Its SMILES; ``*`` is where the rest of the molecule is, but for rings.
    """

    name: str
    kind: Kind
    atoms: tuple[int, ...]
    smiles: str


def fragments(molecule: Any) -> list[Fragment]:
    """Split a molecule into chemically whole pieces.

    Args:
        molecule: An RDKit ``Mol``. Its hydrogens may be atoms: they follow their neighbour.

    Returns:
        Functional groups, then ring systems, then chains, each by its first atom.

    Example:
        >>> from rdkit import Chem
        >>> for piece in fragments(Chem.MolFromSmiles("Nc1ccc(C(=O)N2CCCCC2)cc1")):
        ...     print(piece.name, piece.smiles, piece.atoms)
        primary aromatic amine *N (0,)
        amide *C(=O)N(*)* (5, 6, 7)
        benzene c1ccccc1 (1, 2, 3, 4, 13, 14)
        piperidine C1CCNCC1 (7, 8, 9, 10, 11, 12)
    """
    rings = _ring_systems(molecule)
    groups = _groups(molecule, rings)
    found: list[tuple[frozenset[int], str, Kind]] = [
        (atoms, name, "group") for atoms, name in groups
    ]
    whole = {atoms for atoms, _ in groups}  # an epoxide is a group and no ring besides
    found += [(atoms, "", "ring") for atoms in rings if atoms not in whole]
    covered = frozenset[int]().union(*(atoms for atoms, _, _ in found))
    rest = {
        atom.GetIdx()
        for atom in molecule.GetAtoms()
        if atom.GetIdx() not in covered and not _follows(atom)
    }
    hetero = {i for i in rest if molecule.GetAtomWithIdx(i).GetAtomicNum() != 6}
    found += [(part, "", "group") for part in _connected(molecule, hetero)]
    found += [(part, "", "chain") for part in _connected(molecule, rest - hetero)]
    order = {"group": 0, "ring": 1, "chain": 2}
    found.sort(key=lambda piece: (order[piece[2]], min(piece[0])))
    return [_fragment(molecule, *piece) for piece in found]


def _fragment(molecule: Any, atoms: frozenset[int], name: str, kind: Kind) -> Fragment:
    smiles = _ring_smiles(molecule, atoms) if kind == "ring" else _group_smiles(molecule, atoms)
    if kind == "ring":
        name = RINGS.get(smiles, smiles)
    elif kind == "chain":
        name = CHAINS.get(smiles, f"alkyl C{len(atoms)}")
    hydrogens = (
        beside.GetIdx()
        for i in atoms
        for beside in molecule.GetAtomWithIdx(i).GetNeighbors()
        if _follows(beside)
    )
    return Fragment(name or smiles, kind, tuple(sorted({*atoms, *hydrogens})), smiles)


def _follows(atom: Any) -> bool:
    """Whether an atom is a hydrogen that belongs to the piece of its only neighbour."""
    if atom.GetAtomicNum() != 1 or atom.GetDegree() != 1:
        return False
    return atom.GetNeighbors()[0].GetAtomicNum() != 1


def _ring_systems(molecule: Any) -> list[frozenset[int]]:
    """Unite the rings that share atoms, and add the atoms that they have double bonds to."""
    systems: list[set[int]] = []
    for ring in molecule.GetRingInfo().AtomRings():
        joined = set(ring)
        apart = []
        for system in systems:
            if system & joined:
                joined |= system
            else:
                apart.append(system)
        systems = [*apart, joined]
    out = []
    for system in systems:
        beside = {
            other.GetIdx()
            for i in system
            for bond in molecule.GetAtomWithIdx(i).GetBonds()
            for other in [bond.GetOtherAtom(molecule.GetAtomWithIdx(i))]
            if other.GetIdx() not in system and other.GetDegree() == 1 and _belongs(bond, other)
        }
        out.append(frozenset(system | beside))
    return out


def _belongs(bond: Any, atom: Any) -> bool:
    """Whether an atom at a ring is part of it: C=O, C=S, C=N, and the oxygen of an N-oxide."""
    double = bond.GetBondTypeAsDouble() == 2 and atom.GetAtomicNum() != 6
    other = bond.GetOtherAtom(atom)
    return double or (
        other.GetIsAromatic() and other.GetFormalCharge() > 0 and atom.GetFormalCharge() < 0
    )


def _groups(molecule: Any, rings: list[frozenset[int]]) -> list[tuple[frozenset[int], str]]:
    """Find the functional groups; an atom belongs to the first of the table."""
    out: list[tuple[frozenset[int], str]] = []
    claimed: set[int] = set()
    for name, query in _queries():
        for match in molecule.GetSubstructMatches(query):
            atoms = frozenset(match)
            if claimed & atoms:
                continue
            inside = any(atoms <= ring for ring in rings)
            if inside and atoms not in rings and (len(atoms) == 1 or name in _PART_OF_RING):
                continue
            claimed |= atoms
            out.append((atoms, name))
    return out


@cache
def _queries() -> tuple[tuple[str, Any], ...]:
    chem = import_rdkit("a functional group")
    return tuple((name, chem.MolFromSmarts(smarts)) for name, smarts in GROUPS)


def _connected(molecule: Any, atoms: set[int]) -> list[frozenset[int]]:
    """Split atoms into sets that are connected by bonds among them."""
    left, out = set(atoms), []
    while left:
        part, waiting = set[int](), [min(left)]
        while waiting:
            i = waiting.pop()
            if i in left:
                left.discard(i)
                part.add(i)
                waiting += [n.GetIdx() for n in molecule.GetAtomWithIdx(i).GetNeighbors()]
        out.append(frozenset(part))
    return out


def _ring_smiles(molecule: Any, atoms: frozenset[int]) -> str:
    """Write a ring system as if hydrogens were where the rest of the molecule is."""
    symbols = [_symbol(atom, atoms) for atom in molecule.GetAtoms()]
    return _canonical(_write(molecule, atoms, symbols, _bonds(molecule, atoms, both=True)))


@lru_cache(maxsize=1 << 14)
def _canonical(smiles: str) -> str:
    """Write a ring as RDKit writes a molecule; as it is where that is not a molecule."""
    chem = import_rdkit("a ring")
    from rdkit import rdBase

    with rdBase.BlockLogs():
        molecule = chem.MolFromSmiles(smiles)
    return smiles if molecule is None else chem.MolToSmiles(molecule)


def _group_smiles(molecule: Any, atoms: frozenset[int]) -> str:
    """Write a group with ``*`` where the rest of the molecule is."""
    beside = {
        other.GetIdx()
        for i in atoms
        for other in molecule.GetAtomWithIdx(i).GetNeighbors()
        if not _follows(other)
    } - atoms
    symbols = [_symbol(atom) if atom.GetIdx() in atoms else "*" for atom in molecule.GetAtoms()]
    ends = {*atoms, *beside}
    bonds = [
        bond
        for bond in _bonds(molecule, atoms, both=False)
        if {molecule.GetBondWithIdx(bond).GetBeginAtomIdx(),
            molecule.GetBondWithIdx(bond).GetEndAtomIdx()} <= ends
    ]  # fmt: skip
    return _write(molecule, ends, symbols, bonds)


def _bonds(molecule: Any, atoms: frozenset[int], both: bool) -> list[int]:
    """List the bonds with both ends, or at least one, among the atoms."""
    test = all if both else any
    return [
        bond.GetIdx()
        for bond in molecule.GetBonds()
        if test(end in atoms for end in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
    ]


def _write(molecule: Any, atoms: Iterable[int], symbols: list[str], bonds: list[int]) -> str:
    chem = import_rdkit("a SMILES")
    return chem.MolFragmentToSmiles(
        molecule, atomsToUse=sorted(atoms), bondsToUse=bonds, atomSymbols=symbols,
        isomericSmiles=False,
    )  # fmt: skip


def _symbol(atom: Any, ring: frozenset[int] | None = None) -> str:
    """Write one atom; an aromatic one of a ring gets hydrogens in place of what is cut off."""
    symbol, charge = atom.GetSymbol(), atom.GetFormalCharge()
    hydrogens = ""
    if atom.GetIsAromatic():
        symbol = symbol.lower()
        if ring is not None and symbol != "c":
            cut = sum(other.GetIdx() not in ring for other in atom.GetNeighbors())
            hydrogens = {0: "", 1: "H"}.get(atom.GetTotalNumHs() + cut, "H2")
    sign = {0: "", 1: "+", -1: "-"}.get(charge, f"{charge:+d}")
    plain = not sign and not hydrogens and symbol in _PLAIN
    return symbol if plain else f"[{symbol}{hydrogens}{sign}]"
