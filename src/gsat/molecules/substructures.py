"""SMARTS of users: parsed and matched within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gsat.errors import DataError, shown
from gsat.molecules.smiles import import_rdkit, short

MOST_SMARTS: Final = 20
MOST_CHARACTERS: Final = 200  # of one SMARTS
MOST_MATCHES: Final = 10_000  # in one molecule, symmetric ones counted separately


def check_smarts(smarts: Sequence[str]) -> None:
    """Check the number and the length of SMARTS; nothing is parsed.

    Args:
        smarts: The SMARTS.

    Raises:
        DataError: If there is none, or there are too many, or one is too long.
    """
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
    """Parse SMARTS.

    Args:
        smarts: The SMARTS.

    Returns:
        An RDKit query for each.

    Raises:
        DataError: If one is not a SMARTS, or a bound of :func:`check_smarts` is exceeded.
        MissingExtraError: If RDKit is not installed.
    """
    check_smarts(smarts)
    chem = import_rdkit("a search for substructures")
    from rdkit import rdBase

    queries = []
    for text in smarts:
        # RDKit takes text after a space for a name, and a text without atoms for a valid query.
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
    """Find the substructures that a query matches.

    Args:
        molecule: An RDKit ``Mol``.
        query: An RDKit query.
        smarts: The SMARTS of the query, for messages.

    Returns:
        The atoms of each match; matches with the same atoms count once.

    Raises:
        DataError: If there are more than ``MOST_MATCHES``.
    """
    found = molecule.GetSubstructMatches(query, uniquify=False, maxMatches=MOST_MATCHES + 1)
    if len(found) > MOST_MATCHES:
        raise DataError(
            f"the SMARTS {short(smarts)} has more than {MOST_MATCHES} matches in one molecule; "
            "use a more specific one"
        )
    return list(dict.fromkeys(map(frozenset, found)))
