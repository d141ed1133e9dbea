"""Atom and bond features: from SMILES to the arrays of graphs.

Features depend on the molecule and not on how its SMILES is written: stereoisomers differ by R and
S or E and Z, never by the order of neighbours. A saved model stores the version of the features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError
from gsat.molecules.sizes import oversized_block, oversized_smiles
from gsat.molecules.smiles import SMILES, import_rdkit, short

if TYPE_CHECKING:
    from gsat.graphs import GraphStore
    from gsat.molecules.large import LargeMolecules

VERSION: Final = 1

# Number of categories of each atom feature; the last category includes all larger values.
ATOM_FEATURES: Final = {
    "element": 119,  # the atomic number; 0 is a dummy atom
    "hydrogens": 6,
    "charge": 5,  # -2 or less, …, 2 or more
    "chirality": 4,  # none, R, S, not known
    "radicals": 3,
    "isotope": 2,
    "degree": 8,
    "hybridisation": 8,  # s, sp, sp2, sp3, sp3d, sp3d2 from 1 on
    "aromatic": 2,
    "ring": 7,  # size of the smallest ring: none, 3, 4, 5, 6, 7, 8 or more
}
# Offsets from numbers to categories.
_SHIFT: Final = {"charge": 2, "ring": -2}
# Bond features, each 0 or 1.
BOND_FEATURES: Final = ("single", "double", "triple", "aromatic", "other", "ring", "E", "Z")

# Atoms up to which a dense matrix of bonds is faster than a loop over them.
_DENSE: Final = 256
_ORDERS: Final = {1.0: 0, 2.0: 1, 3.0: 2, 1.5: 3}
_OTHER, _RING, _STEREO = 4, 5, {"STEREOE": 6, "STEREOZ": 7, "STEREOTRANS": 6, "STEREOCIS": 7}
_ONE_ORDER: Final = [[int(at == k) for at in range(len(BOND_FEATURES))] for k in range(_OTHER + 1)]
_CHIRALITY: Final = {"R": 1, "S": 2, "r": 1, "s": 2}
# Atomic numbers of non-metals and half-metals such as boron and silicon.
_NON_METALS: Final = frozenset(
    (2, 5, 6, 7, 8, 9, 10, 14, 15, 16, 17, 18, 32, 33, 34, 35, 36, 51, 52, 53, 54, 85, 86)
)


@dataclass
class Molecules:
    """Features of several molecules as flat lists, and the texts that could not be used."""

    # One entry per molecule; canonical SMILES and Bemis–Murcko scaffolds only if requested.
    rows: list[int] = field(default_factory=list)
    smiles: list[str] = field(default_factory=list)
    canonical: list[str] = field(default_factory=list)
    scaffold: list[str] = field(default_factory=list)
    components: list[int] = field(default_factory=list)  # 2 for a salt
    atoms: list[int] = field(default_factory=list)
    bonds: list[int] = field(default_factory=list)
    x: list[list[int]] = field(default_factory=list)  # feature after feature
    ends: list[list[int]] = field(default_factory=list)  # first and second atom of each bond
    edge_attr: list[list[int]] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)  # row and reason

    def extend(self, other: Molecules, first: int) -> None:
        """Append molecules whose rows are counted from ``first``."""
        self.rows += [first + row for row in other.rows]
        self.problems += [(first + row, reason) for row, reason in other.problems]
        for name in vars(self).keys() - {"rows", "problems"}:
            getattr(self, name).extend(getattr(other, name))


def featurise(smiles: Sequence[str], *, largest_fragment: bool = False) -> GraphStore:
    """Convert molecules to graphs: node i is atom i, and each bond is two consecutive edges.

    Args:
        smiles: One SMILES per molecule.
        largest_fragment: Whether only the largest component of a salt is kept. (default: ``False``)

    Returns:
        Graphs with categorical atom features ``[N, 10]``, bond features ``[E, 8]`` and ``smiles``.

    Raises:
        DataError: If a molecule can't be used; the message gives the reason.
        MissingExtraError: If RDKit is not installed.

    Example:
        >>> store = featurise(["CCO", "c1ccccc1"])
        >>> store
        GraphStore(2 graphs, 9 nodes, 16 edges)
        >>> store[0].x[:, 0].tolist()
        [6, 6, 8]
    """
    molecules = read_all(smiles, largest_fragment=largest_fragment)
    for row, reason in molecules.problems:
        raise DataError(f"{short(smiles[row])} can't be used: {reason}")
    return to_store([to_arrays(molecules)], {SMILES: molecules.smiles})


def description() -> dict[str, Any]:
    """The features as plain values, for a saved model."""
    return {"version": VERSION, "atoms": dict(ATOM_FEATURES), "bonds": list(BOND_FEATURES)}


def read_all(
    texts: Iterable[str],
    *,
    kind: str = SMILES,
    largest_fragment: bool = False,
    canonical: bool = False,
    scaffold: bool = False,
    large: LargeMolecules | None = None,
) -> Molecules:
    """Read molecules; texts that can't be used are listed with the reason.

    ``large`` reads the large ones, in a process of its own.
    """
    chem = import_rdkit("reading molecules")
    from rdkit import rdBase
    from rdkit.Chem.Scaffolds import MurckoScaffold

    features = _Features(chem)
    out = Molecules()
    with rdBase.BlockLogs():  # rejected.csv contains the reasons
        for row, text in enumerate(texts):
            if large is not None and large.take(text):
                out.extend(large.read(text), row)
                continue
            try:
                smiles = _from_mol_block(text, chem) if kind == "mol" else text.strip()
                molecule = _parse(smiles, chem)
                components = _components(smiles)
                if largest_fragment and components > 1:
                    smiles, molecule = _largest(smiles, molecule, chem)
                features.add(out, smiles, molecule)
            except _Unusable as error:
                out.problems.append((row, str(error)))
                continue
            out.rows.append(row)
            out.smiles.append(smiles)
            out.components.append(components)
            if canonical:
                out.canonical.append(_canonical(smiles, molecule, chem))
            if scaffold:
                murcko = MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=True)
                out.scaffold.append(murcko)
    return out


Arrays = dict[str, NDArray[Any]]


def to_arrays(molecules: Molecules) -> Arrays:
    """Concatenate the features: ``atoms``, ``bonds``, ``x``, ``ends`` and ``edge_attr``."""
    width = len(ATOM_FEATURES)
    numbers = [np.array(flat, dtype=np.int32).reshape(width, -1).T for flat in molecules.x]
    x = np.concatenate([*numbers, np.zeros((0, width), np.int32)])
    for column, (name, size) in enumerate(ATOM_FEATURES.items()):
        x[:, column] = np.clip(x[:, column] + _SHIFT.get(name, 0), 0, size - 1)
    return {
        "atoms": np.array(molecules.atoms, dtype=np.int64),
        "bonds": np.array(molecules.bonds, dtype=np.int64),
        "x": x.astype(np.uint8),
        "ends": _joined(molecules.ends, np.int32, 2),
        "edge_attr": _joined(molecules.edge_attr, np.uint8, len(BOND_FEATURES)),
    }


def to_store(
    parts: Sequence[Arrays], fields: dict[str, Any], y: NDArray[Any] | None = None
) -> GraphStore:
    """Make a store of the arrays of :func:`to_arrays`."""
    # Imported here: workers that only read molecules do not need torch.
    from gsat.graphs import GraphStore
    from gsat.graphs.build import offsets

    atoms, bonds, x, ends, edge_attr = (
        np.concatenate([part[name] for part in parts])
        for name in ("atoms", "bonds", "x", "ends", "edge_attr")
    )
    both = np.stack([ends, ends[:, ::-1]], axis=1).reshape(-1, 2)
    return GraphStore.from_arrays(
        node_ptr=offsets(atoms),
        edge_ptr=offsets(2 * bonds),
        edge_index=both.T,
        x=x.astype(np.int64),
        edge_attr=np.repeat(edge_attr, 2, axis=0).astype(np.float32),
        y=y,
        graph_fields=fields,
        meta=store_meta(),
    )


def store_meta() -> dict[str, Any]:
    """Plain values that describe the features of a store of molecules."""
    chem = import_rdkit("reading molecules")
    table = chem.GetPeriodicTable()
    return {
        "categories": list(ATOM_FEATURES.values()),
        "node_types": [table.GetElementSymbol(n) for n in range(ATOM_FEATURES["element"])],
        "featuriser": description(),
    }


class _Unusable(Exception):
    """Reason why a text can't be used as a molecule."""


def _parse(smiles: str, chem: Any) -> Any:
    """Parse a SMILES; as usual in RDKit, hydrogens that are written as atoms are left out."""
    if not smiles:
        raise _Unusable("it is empty")
    if why := oversized_smiles(smiles):
        raise _Unusable(f"it has {why}")
    if "\0" in smiles:
        raise _Unusable("it contains a NUL byte")
    head, *rest = smiles.split(maxsplit=1)
    if rest and not rest[0].startswith("|"):  # RDKit would read it as a name
        raise _Unusable("it contains a space")
    molecule = chem.MolFromSmiles(smiles)
    if molecule is not None:
        return molecule
    loose = chem.MolFromSmiles(head, sanitize=False)
    if loose is None:
        raise _Unusable("it is not a SMILES")
    problems = [problem.Message() for problem in chem.DetectChemistryProblems(loose)]
    raise _Unusable(f"it is not a molecule: {problems[0]}" if problems else "it is not a molecule")


def _from_mol_block(block: str, chem: Any) -> str:
    """Convert a MOL block to SMILES."""
    if why := oversized_block(block):
        raise _Unusable(f"it has {why}")
    try:
        molecule = chem.MolFromMolBlock(block)
        if molecule is not None:
            return str(chem.MolToSmiles(molecule))
        loose = chem.MolFromMolBlock(block, sanitize=False)
        problems = [] if loose is None else chem.DetectChemistryProblems(loose)
    except RuntimeError:  # RDKit's checks fail on some damaged blocks
        problems = []
    reason = f": {problems[0].Message()}" if problems else ""
    raise _Unusable(f"its MOL block can't be read{reason}")


def _components(smiles: str) -> int:
    return smiles.split(maxsplit=1)[0].count(".") + 1


def _largest(smiles: str, molecule: Any, chem: Any) -> tuple[str, Any]:
    """The first component with the most heavy atoms, written as in the SMILES."""
    parts = smiles.split(maxsplit=1)[0].split(".")
    read: list[Any] = [chem.MolFromSmiles(part) if part else None for part in parts]
    if any(part is None for part in read):  # ring closures across the dots
        read = list(chem.GetMolFrags(molecule, asMols=True))
        parts = [chem.MolToSmiles(part) for part in read]
        read = [chem.MolFromSmiles(part) for part in parts]
    at = max(range(len(parts)), key=lambda i: (read[i].GetNumHeavyAtoms(), -i))
    return parts[at], read[at]


def _check_elements(numbers: set[int]) -> None:
    if not numbers - {0, 1}:
        raise _Unusable("it has no heavy atom")
    if not numbers & _NON_METALS:
        raise _Unusable("it has only metal atoms")


def _canonical(smiles: str, molecule: Any, chem: Any) -> str:
    if ":" in smiles:  # atom numbers, which do not change the molecule
        molecule = chem.Mol(molecule)
        for atom in molecule.GetAtoms():
            atom.SetAtomMapNum(0)
    return str(chem.MolToSmiles(molecule))


class _Features:
    """Computes features with few calls into RDKit, which are slow."""

    def __init__(self, chem: Any) -> None:
        kinds = chem.HybridizationType
        named = (kinds.S, kinds.SP, kinds.SP2, kinds.SP3, kinds.SP3D, kinds.SP3D2)
        self.hybridisation = {kind: place for place, kind in enumerate(named, start=1)}
        self.no_tag = chem.ChiralType.CHI_UNSPECIFIED
        self.adjacency: Callable[..., NDArray[Any]] = chem.GetAdjacencyMatrix

    def add(self, out: Molecules, smiles: str, molecule: Any) -> None:
        """Append the features of a molecule."""
        # Faster than the iterator molecule.GetAtoms().
        atoms = [*map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms()))]
        numbers = [atom.GetAtomicNum() for atom in atoms]
        _check_elements(set(numbers))
        ends, kinds = self._bonds(molecule, len(atoms))
        rings = molecule.GetRingInfo().AtomRings()
        attributes = [_ONE_ORDER[_ORDERS.get(kind, _OTHER)].copy() for kind in kinds]
        places = {pair: place for place, pair in enumerate(ends)}
        ring_size = [0] * len(atoms)
        for ring in rings:
            size = len(ring)
            before = ring[-1]
            for atom in ring:
                attributes[places[(atom, before) if atom < before else (before, atom)]][_RING] = 1
                if not 0 < ring_size[atom] <= size:
                    ring_size[atom] = size
                before = atom
        if "/" in smiles or "\\" in smiles:
            for bond in molecule.GetBonds():
                if column := _STEREO.get(str(bond.GetStereo())):
                    u, v = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
                    attributes[places[(u, v) if u < v else (v, u)]][column] = 1
        degree, aromatic = [0] * len(atoms), [0] * len(atoms)
        for (u, v), kind in zip(ends, kinds, strict=True):
            degree[u] += 1
            degree[v] += 1
            if kind == 1.5:
                aromatic[u] = aromatic[v] = 1
        hybridisation = self.hybridisation
        columns = (
            numbers,
            [atom.GetTotalNumHs() for atom in atoms],
            *self._rare(atoms, "[" in smiles),
            degree,
            [hybridisation.get(atom.GetHybridization(), 7) for atom in atoms],
            aromatic,
            ring_size,
        )
        out.atoms.append(len(atoms))
        out.bonds.append(len(ends))
        out.x.append([*chain.from_iterable(columns)])
        out.ends.append([*chain.from_iterable(ends)])
        out.edge_attr.append([*chain.from_iterable(attributes)])

    def _bonds(self, molecule: Any, atoms: int) -> tuple[list[tuple[int, int]], list[float]]:
        """First and second atom of each bond, in ascending order, and its order."""
        if atoms <= _DENSE:
            orders = self.adjacency(molecule, useBO=True)
            first, second = orders.nonzero()
            once = first < second
            first, second = first[once], second[once]
            if len(first) == molecule.GetNumBonds():
                kinds = orders[first, second].tolist()
                return list(zip(first.tolist(), second.tolist(), strict=True)), kinds
        listed = []
        for bond in molecule.GetBonds():
            u, v = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            listed.append(((u, v) if u < v else (v, u), bond.GetBondTypeAsDouble()))
        if all(kind for _, kind in listed):  # graphs with a bond of order 0 keep RDKit's order
            listed.sort()
        return [pair for pair, _ in listed], [kind for _, kind in listed]

    def _rare(self, atoms: list[Any], bracket: bool) -> tuple[list[int], ...]:
        """Charge, chirality, radicals and isotope, which only atoms in brackets have."""
        if not bracket:
            nothing = [0] * len(atoms)
            return nothing, nothing, nothing, nothing
        chirality = [
            0 if atom.GetChiralTag() == self.no_tag else _chirality(atom) for atom in atoms
        ]
        return (
            [atom.GetFormalCharge() for atom in atoms],
            chirality,
            [atom.GetNumRadicalElectrons() for atom in atoms],
            [atom.GetIsotope() for atom in atoms],
        )


def _chirality(atom: Any) -> int:
    """Category of an atom with a chiral tag: R, S or unknown."""
    return _CHIRALITY.get(atom.GetProp("_CIPCode"), 3) if atom.HasProp("_CIPCode") else 3


def _joined(parts: list[list[int]], kind: Any, width: int) -> NDArray[Any]:
    return np.fromiter(chain.from_iterable(parts), dtype=kind).reshape(-1, width)
