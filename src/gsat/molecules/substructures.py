"""Users' SMARTS, parsed and matched within limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gsat.core.errors import DataError, shown
from gsat.molecules.smiles import import_rdkit, short

MOST_SMARTS: Final = 20
MOST_CHARACTERS: Final = 200  # per SMARTS
MOST_MATCHES: Final = 10_000  # per molecule, symmetric matches counted separately


def check_smarts(smarts: Sequence[str]) -> None:
    """Check the number and the length of SMARTS without parsing them."""
    if not 1 <= len(smarts) <= MOST_SMARTS:
        raise DataError(
            f"data option 'smarts' must list 1 to {MOST_SMARTS} SMARTS, not {len(smarts)}; "
            "for example smarts=['C#N']"
        )
    for text in smarts:
        if len(text) > MOST_CHARACTERS:
            raise DataError(
                f"the SMARTS {short(text)} has {len(text)} characters; at most {MOST_CHARACTERS} "
                "are allowed: shorten it"
            )


def read_smarts(smarts: Sequence[str]) -> list[Any]:
    """Parse SMARTS."""
    check_smarts(smarts)
    chem = import_rdkit("a search for substructures")
    from rdkit import rdBase

    queries = []
    for text in smarts:
        # RDKit reads text after a space as a name, and accepts queries without atoms.
        plain = text.isascii() and text.isprintable() and " " not in text
        with rdBase.BlockLogs():
            query = chem.MolFromSmarts(text) if plain else None
        if query is None or not query.GetNumAtoms():
            raise DataError(
                f"{shown(repr(text))} is not a SMARTS that RDKit can read; correct it, or leave it "
                "out"
            )
        queries.append(query)
    return queries


def find_matches(molecule: Any, query: Any, smarts: str) -> list[frozenset[int]]:
    """Find the substructures that a query matches."""
    matches = molecule.GetSubstructMatches(query, uniquify=False, maxMatches=MOST_MATCHES + 1)
    if len(matches) > MOST_MATCHES:
        raise DataError(
            f"the SMARTS {short(smarts)} has more than {MOST_MATCHES} matches in one molecule; "
            "use a more specific one"
        )
    return list(dict.fromkeys(map(frozenset, matches)))
