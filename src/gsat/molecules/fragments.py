"""Chemically whole fragments of molecules: functional groups, ring systems and chains.

A ring system consists of rings that share atoms, and of the atoms double-bonded to them. A
functional group may share atoms with a non-aromatic ring (the nitrogen of an amide in a
piperidine), so that both are complete; aromatic rings are never divided. The remaining carbon
chains are fragments, too. Every atom is in at least one fragment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final, Literal

from gsat.molecules.functional_groups import CHAINS, GROUPS, RINGS
from gsat.molecules.smiles import import_rdkit

Kind = Literal["group", "ring", "chain"]
# Groups that are ignored within a ring.
_PART_OF_RING: Final = frozenset({"alkene", "allene", "alkyne", "acetal", "imine"})

# Elements that SMILES writes without brackets.
_PLAIN: Final = frozenset(("B", "C", "N", "O", "P", "S", "F", "Cl", "Br", "I", *"bcnops*"))


@dataclass(frozen=True)
class Fragment:
    """A fragment of a molecule."""

    name: str  # such as "nitro" or "pyridine"; the SMILES if there is no common name
    kind: Kind
    atoms: tuple[int, ...]  # in ascending order, with explicit hydrogens
    smiles: str  # with * at the bonds to the rest of the molecule, except for rings


def fragments(molecule: Any) -> list[Fragment]:
    """Split a molecule into chemically whole fragments."""
    rings = _ring_systems(molecule)
    groups = _groups(molecule, rings)
    parts: list[tuple[frozenset[int], str, Kind]] = [
        (atoms, name, "group") for atoms, name in groups
    ]
    group_atoms = {atoms for atoms, _ in groups}  # an epoxide is a group and not a ring
    parts += [(atoms, "", "ring") for atoms in rings if atoms not in group_atoms]
    covered = frozenset[int]().union(*(atoms for atoms, _, _ in parts))
    rest = {
        atom.GetIdx()
        for atom in molecule.GetAtoms()
        if atom.GetIdx() not in covered and not _follows(atom)
    }
    hetero = {i for i in rest if molecule.GetAtomWithIdx(i).GetAtomicNum() != 6}
    parts += [(part, "", "group") for part in _connected(molecule, hetero)]
    parts += [(part, "", "chain") for part in _connected(molecule, rest - hetero)]
    order = {"group": 0, "ring": 1, "chain": 2}
    parts.sort(key=lambda part: (order[part[2]], min(part[0])))
    return [_fragment(molecule, *part) for part in parts]


def _fragment(molecule: Any, atoms: frozenset[int], name: str, kind: Kind) -> Fragment:
    smiles = _smiles(molecule, atoms, ring=kind == "ring")
    if kind == "ring":
        name = RINGS.get(smiles, smiles)
    elif kind == "chain":
        name = CHAINS.get(smiles, f"alkyl C{len(atoms)}")
    hydrogens = (
        neighbour.GetIdx()
        for i in atoms
        for neighbour in molecule.GetAtomWithIdx(i).GetNeighbors()
        if _follows(neighbour)
    )
    return Fragment(name or smiles, kind, tuple(sorted({*atoms, *hydrogens})), smiles)


def _follows(atom: Any) -> bool:
    """Whether an atom is a hydrogen that belongs to the fragment of its only neighbour."""
    if atom.GetAtomicNum() != 1 or atom.GetDegree() != 1:
        return False
    return atom.GetNeighbors()[0].GetAtomicNum() != 1


def _ring_systems(molecule: Any) -> list[frozenset[int]]:
    """Unite the rings that share atoms, and add the atoms that they have double bonds to."""
    out = []
    for system in _united(molecule.GetRingInfo().AtomRings()):
        attached = {
            other.GetIdx()
            for i in system
            for bond in molecule.GetAtomWithIdx(i).GetBonds()
            for other in [bond.GetOtherAtom(molecule.GetAtomWithIdx(i))]
            if other.GetIdx() not in system and other.GetDegree() == 1 and _belongs(bond, other)
        }
        out.append(system | attached)
    return out


def _belongs(bond: Any, atom: Any) -> bool:
    """Whether an atom next to a ring belongs to it: C=O, C=S, C=N, and the oxygen of an N-oxide."""
    double = bond.GetBondTypeAsDouble() == 2 and atom.GetAtomicNum() != 6
    other = bond.GetOtherAtom(atom)
    return double or (
        other.GetIsAromatic() and other.GetFormalCharge() > 0 and atom.GetFormalCharge() < 0
    )


def _groups(molecule: Any, rings: list[frozenset[int]]) -> list[tuple[frozenset[int], str]]:
    """Find the functional groups; an atom belongs to the first matching group."""
    out: list[tuple[frozenset[int], str]] = []
    claimed: set[int] = set()
    ring_of = {i: ring for ring in rings for i in ring}
    for name, query in _queries():
        for match in molecule.GetSubstructMatches(query):
            atoms = frozenset(match)
            if claimed & atoms:
                continue
            ring = ring_of.get(match[0], frozenset())
            if atoms < ring and (len(atoms) == 1 or name in _PART_OF_RING):
                continue
            claimed |= atoms
            out.append((atoms, name))
    return out


@cache
def _queries() -> tuple[tuple[str, Any], ...]:
    chem = import_rdkit("a functional group")
    return tuple((name, chem.MolFromSmarts(smarts)) for name, smarts in GROUPS)


def _connected(molecule: Any, atoms: set[int]) -> list[frozenset[int]]:
    """Split atoms into connected sets."""
    near = ({n.GetIdx() for n in molecule.GetAtomWithIdx(i).GetNeighbors()} for i in atoms)
    return _united({i} | (others & atoms) for i, others in zip(atoms, near, strict=True))


def _united(sets: Iterable[Iterable[int]]) -> list[frozenset[int]]:
    """Unite the sets that share elements, in linear time."""
    parent: dict[int, int] = {}

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = i = parent[parent[i]]
        return i

    for each in sets:
        first, *others = each
        parent.setdefault(first, first)
        for other in others:
            parent[root(parent.setdefault(other, other))] = root(first)
    united: dict[int, set[int]] = {}
    for i in parent:
        united.setdefault(root(i), set()).add(i)
    return [frozenset(part) for part in united.values()]


Ends = tuple[tuple[int, int], ...]  # of an atom: its bonds, and the atoms at their other ends


def _smiles(molecule: Any, atoms: frozenset[int], ring: bool) -> str:
    """Write a fragment; bonds to other atoms end in hydrogens for rings and in ``*`` otherwise."""
    place = {i: local for local, i in enumerate(sorted(atoms))}
    symbols: list[str] = []
    ends: list[Ends] = []
    for i in place:
        atom = molecule.GetAtomWithIdx(i)
        bonds = [(int(bond.GetBondType()), bond.GetOtherAtom(atom)) for bond in atom.GetBonds()]
        outside = [
            kind for kind, other in bonds if other.GetIdx() not in place and not _follows(other)
        ]
        symbols.append(_symbol(atom, len(outside) if ring else None))
        inside = [
            (kind, place[o.GetIdx()]) for kind, o in bonds if place.get(o.GetIdx(), -1) > place[i]
        ]
        ends.append((*inside, *(() if ring else ((kind, -1) for kind in outside))))
    return _written(tuple(symbols), tuple(ends))


@lru_cache(maxsize=1 << 16)
def _written(symbols: tuple[str, ...], ends: tuple[Ends, ...]) -> str:
    """Write atoms and their bonds; cached because fragments recur."""
    chem = import_rdkit("a SMILES")
    from rdkit import rdBase

    written = chem.RWMol()
    for symbol in symbols:
        written.AddAtom(chem.AtomFromSmiles(symbol))
    for i, bonds in enumerate(ends):
        for kind, other in bonds:
            end = written.AddAtom(chem.AtomFromSmiles("*")) if other < 0 else other
            written.AddBond(i, end, chem.BondType.values[kind])
    with rdBase.BlockLogs():
        smiles = chem.MolToSmiles(written)
        molecule = chem.MolFromSmiles(smiles)
    return smiles if molecule is None else chem.MolToSmiles(molecule)


def _symbol(atom: Any, cut: int | None) -> str:
    """Write one atom; in brackets, hydrogens replace the ``cut`` bonds of a ring atom."""
    symbol, charge = atom.GetSymbol(), atom.GetFormalCharge()
    hydrogens = 0
    if cut is not None and (charge or (atom.GetIsAromatic() and symbol != "C")):
        hydrogens = atom.GetTotalNumHs(True) + cut
    if atom.GetIsAromatic():
        symbol = symbol.lower()
    if not charge and not hydrogens and symbol in _PLAIN:
        return symbol
    count = "" if not hydrogens else "H" if hydrogens == 1 else f"H{hydrogens}"
    sign = {0: "", 1: "+", -1: "-"}.get(charge, f"{charge:+d}")
    return f"[{symbol}{count}{sign}]"
