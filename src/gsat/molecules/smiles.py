"""SMILES of graphs: node i of a graph is atom i of its molecule.

A store of molecules has one SMILES per graph, in the per-graph array ``graph.smiles``.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gsat.core.errors import DataError, MissingExtraError

SMILES: Final = "smiles"  # name of the per-graph array

# Charges by the sum of bond orders, if all hydrogens are atoms of the graph.
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


def read_smiles(smiles: str) -> Any:
    """Parse a SMILES without RDKit's messages; None if it is empty or can't be read."""
    chem = import_rdkit("a molecule")
    from rdkit import rdBase

    with rdBase.BlockLogs():
        return chem.MolFromSmiles(smiles) if smiles else None


def molecule_of(smiles: str, atoms: int) -> Any:
    """Parse the molecule of a graph: node i of the graph is atom i of the molecule.

    Hydrogens that are written as atoms are left out, unless the graph has nodes for them.

    Args:
        smiles: The SMILES of the graph.
        atoms: Number of nodes of the graph.

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

    with rdBase.BlockLogs():  # the exception contains the reason
        molecule = chem.MolFromSmiles(smiles) if smiles else None
        if molecule is not None and molecule.GetNumAtoms() != atoms:
            parameters = chem.SmilesParserParams()
            parameters.removeHs = False
            molecule = chem.MolFromSmiles(smiles, parameters)
    if molecule is None:
        raise DataError(f"{short(smiles)} is not a SMILES that rdkit can read")
    if (count := molecule.GetNumAtoms()) != atoms:
        raise DataError(f"{short(smiles)} has {count} atoms, the graph has {atoms} nodes")
    return molecule


def write_smiles(symbols: Sequence[str], bonds: Iterable[tuple[int, int, int]]) -> str:
    """Write a SMILES with the atoms, including hydrogens, in the order of the nodes.

    All bonds are ring closures between disconnected atoms, such as ``[C]1.[O]1``. Charges follow
    from the bonds: a nitrogen with four bonds is positive.
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
            if node == second:  # the bond was opened at its first atom
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
        for number in done:  # no number is closed and reused at the same atom
            heapq.heappush(free, number)
        charge = _CHARGES.get(symbol, {}).get(sum(order for *_, order in ends[node]), 0)
        parts.append(f"[{symbol}{_SIGNS[charge]}]{digits}")
    return ".".join(parts)


def _digits(number: int) -> str:
    return str(number) if number < 10 else f"%{number}" if number < 100 else f"%({number})"


def short(smiles: str) -> str:
    """Quote a SMILES for a message, cut if it is long."""
    return repr(smiles if len(smiles) <= 60 else f"{smiles[:57]}…")
