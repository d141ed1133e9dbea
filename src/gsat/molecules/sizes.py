"""Atoms and bonds of a molecule, counted in its text before RDKit reads it."""

from __future__ import annotations

import re
from typing import Final

from gsat.core.limits import limits, too_many

# An atom in brackets, or one of those that are written without.
_ATOM: Final = re.compile(r"\[[^\]]*\]|Cl|Br|[BCNOPSFIbcnops*]")
_CLOSURE: Final = re.compile(r"%\(\d+\)|%\d\d|\d")
_COUNTS: Final = re.compile(r"M  V30 COUNTS\s+(\d{1,9})\s+(\d{1,9})")
_COUNTS_V2000: Final = re.compile(r"(?:[^\n]*\n){3}([ \d]{2}\d)([ \d]{2}\d)")


def oversized_smiles(smiles: str) -> str:
    """Why a SMILES is not read; empty if it is within the limits."""
    allowed = limits()
    if len(smiles) > allowed.characters:
        return too_many(len(smiles), "characters")
    if len(smiles) <= min(allowed.atoms, allowed.bonds):  # every atom and bond takes a character
        return ""
    text = smiles.split(maxsplit=1)[0] if smiles.strip() else ""
    atoms = sum(1 for _ in _ATOM.finditer(text))
    closures = sum(1 for _ in _CLOSURE.finditer(_ATOM.sub("", text)))
    return too_many(atoms, "atoms") or too_many(max(0, atoms - 1) + closures // 2, "bonds")


def oversized_block(block: str) -> str:
    """Why a MOL block is not read; empty if it is within the limits.

    A block can declare other numbers than it has; no block has more atoms and bonds than lines.
    """
    allowed = limits()
    lines = block.count("\n")
    atoms = bonds = 0
    if match := _COUNTS.search(block) or _COUNTS_V2000.match(block):
        atoms, bonds = int(match[1]), int(match[2])
    why = too_many(atoms, "atoms") or too_many(bonds, "bonds")
    if not why and lines > allowed.atoms + allowed.bonds + 100:
        why = too_many(lines - allowed.bonds, "atoms")
    return why
