"""SMILES of graphs: written from tables of atoms and bonds, and read back atom by node.

A store of molecules holds one SMILES per graph, the per-graph array ``graph.smiles``. Node i of a
graph is atom i of :func:`molecule_of`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gsat.core.errors import DataError, MissingExtraError

SMILES: Final = "smiles"  # the per-graph array

# Charges by the sum of bond orders, of atoms whose hydrogens are all atoms of the graph.
_CHARGES: Final[dict[str, dict[int, int]]] = {
    "N": {2: -1, 4: 1},
    "P": {4: 1},
    "O": {1: -1, 3: 1},
    "S": {1: -1, 3: 1, 5: 1},
    **{metal: {0: 1} for metal in ("Li", "Na", "K")},
    "Ca": {0: 2},
    **{halogen: {0: -1} for halogen in ("F", "Cl", "Br", "I")},
}
_SIGNS: Final = {-1: "-", 0: "", 1: "+", 2: "+2"}
_BONDS: Final = {1: "", 2: "=", 3: "#"}


def import_rdkit(what: str) -> Any:
    """Import RDKit's ``Chem``."""
    try:
        from rdkit import Chem
    except ImportError:
        raise MissingExtraError("rdkit", "molecules", what) from None
    return Chem


def molecule_of(smiles: str, atoms: int) -> Any:
    """Read the molecule of a graph: node i of the graph is atom i of the molecule.

    Hydrogens that the SMILES writes as atoms are left out, as RDKit does by default, unless the
    graph has a node for each of them.

    Args:
        smiles: The SMILES of the graph.
        atoms: How many nodes the graph has.

    Returns:
        An RDKit ``Mol`` with that many atoms.

    Raises:
        DataError: If RDKit can't read the SMILES, or it has another number of atoms.
        MissingExtraError: If RDKit is not installed.

    Example:
        >>> molecule_of("OC", 2).GetAtomWithIdx(0).GetSymbol()
        'O'
        >>> molecule_of("[H]O[H]", 1).GetNumAtoms(), molecule_of("[H]O[H]", 3).GetNumAtoms()
        (1, 3)
    """
    chem = import_rdkit("a molecule")
    from rdkit import rdBase

    with rdBase.BlockLogs():  # its messages would stand beside our one line
        molecule = chem.MolFromSmiles(smiles) if smiles else None
        if molecule is not None and molecule.GetNumAtoms() != atoms:
            parameters = chem.SmilesParserParams()
            parameters.removeHs = False
            molecule = chem.MolFromSmiles(smiles, parameters)
    if molecule is None:
        raise DataError(f"{short(smiles)} is not a SMILES that rdkit can read")
    if (found := molecule.GetNumAtoms()) != atoms:
        raise DataError(f"{short(smiles)} has {found} atoms, the graph has {atoms} nodes")
    return molecule


def write_smiles(symbols: Sequence[str], bonds: Iterable[tuple[int, int, int]]) -> str:
    """Write a molecule with the atoms in the order of its nodes, hydrogens among them.

    Bonds are written as ring closures between atoms that are apart, which SMILES allows:
    ``[C]1.[O]1``. Charges follow from the bonds: nitrogen with four is positive.
    """
    ends: list[list[tuple[int, int, int]]] = [[] for _ in symbols]
    for a, b, order in bonds:
        if order not in _BONDS:
            raise DataError(f"a bond has the order {order}; it must be 1, 2 or 3")
        first, second = min(a, b), max(a, b)
        ends[first].append((second, first, order))
        ends[second].append((second, first, order))
    free, fresh = list[int](), 1
    closing: dict[tuple[int, int], int] = {}
    parts = []
    for node, symbol in enumerate(symbols):
        digits, done = "", []
        for second, first, order in sorted(ends[node]):
            if node == second:  # written at its first atom already
                number = closing[second, first]
                done.append(number)
                digits += _digits(number)
                continue
            if free:
                number = heapq.heappop(free)
            else:
                number, fresh = fresh, fresh + 1
            closing[second, first] = number
            digits += _BONDS[order] + _digits(number)
        for number in done:  # only now: a number closed and opened at one atom would be confusing
            heapq.heappush(free, number)
        charge = _CHARGES.get(symbol, {}).get(sum(order for *_, order in ends[node]), 0)
        parts.append(f"[{symbol}{_SIGNS[charge]}]{digits}")
    return ".".join(parts)


def _digits(number: int) -> str:
    return str(number) if number < 10 else f"%{number}" if number < 100 else f"%({number})"


def short(smiles: str) -> str:
    """Quote a SMILES for a message, cut if it is long."""
    return repr(smiles if len(smiles) <= 60 else f"{smiles[:57]}…")
