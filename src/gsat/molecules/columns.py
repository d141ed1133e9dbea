"""Detection of the columns with SMILES, labels and identifiers, by name and content."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gsat.core.errors import DataError, shown
from gsat.molecules.label_values import is_missing, to_number
from gsat.molecules.smiles import read_smiles
from gsat.molecules.table import Table

_SAMPLE: Final = 200  # rows that are inspected
_SMILES_NAMES: Final = ("smiles", "smile", "smi", "mol", "molecule", "structure", "compound")
_LABEL_NAMES: Final = (
    "label", "y", "target", "activity", "active", "class", "outcome", "value", "measured",
    "response", "property", "result", "endpoint",
)  # fmt: skip
_ID_NAMES: Final = (
    "id", "name", "title", "compound", "compoundid", "compoundname", "molid", "molname",
    "moleculeid", "moleculename", "chemblid", "moleculechemblid", "cid", "pubchemcid", "zincid",
    "cas", "casrn", "drugname", "num", "index", "identifier", "key",
)  # fmt: skip
# Columns that describe a molecule or a row and are not labels.
_OTHER_NAMES: Final = (
    "inchi", "inchikey", "formula", "molformula", "iupac", "iupacname", "source", "reference",
    "doi", "split", "set", "fold", "subset", "scaffold", "comment", "comments", "note", "notes",
    "date", "unnamed0", "weight", "molweight", "mw",
)  # fmt: skip


@dataclass(frozen=True)
class Columns:
    """Positions of columns in a table."""

    smiles: int
    labels: tuple[int, ...]
    id: int | None  # column of identifiers


def find_columns(
    table: Table,
    smiles: str = "",
    label: Sequence[str] = (),
    id: str = "",
    *,
    labelled: bool = True,
) -> Columns:
    """Find the given columns by name and detect the others."""
    at = 0 if table.blocks is not None else _find_smiles(table, smiles)
    if table.blocks is None and not smiles and _is_molecule(table.columns[at]):
        name = shown(table.columns[at], 40)
        raise DataError(f"the first line must name the columns, but '{name}' is a molecule")
    chosen_id = column_named(table, id) if id else _find_id(table, at)
    if label:
        labels = tuple(column_named(table, name) for name in label)
        if len(set(labels)) < len(labels) or at in labels:
            raise DataError(
                f"the labels {shown(', '.join(label))} must be different columns, not SMILES"
            )
        return Columns(at, labels, chosen_id if chosen_id not in labels else None)
    labels = _find_labels(table, at, chosen_id) if labelled else ()
    # Runs store the names of the labels, which must therefore be unique.
    labels = tuple(column_named(table, table.columns[number]) for number in labels)
    return Columns(at, labels, chosen_id)


def column_named(table: Table, name: str) -> int:
    """Return the number of a column."""
    matches = [n for n, column in enumerate(table.columns) if column == name]
    matches = matches or [n for n, c in enumerate(table.columns) if _plain(c) == _plain(name)]
    if not matches:
        raise DataError(f"there is no column '{shown(name, 60)}'; the columns are {_listed(table)}")
    if len(matches) > 1:
        numbers = shown(" and ".join(str(n + 1) for n in matches), 40)
        raise DataError(f"columns {numbers} are called '{shown(name, 60)}'; rename one of them")
    return matches[0]


def _find_smiles(table: Table, name: str) -> int:
    if name:
        return column_named(table, name)
    named = [n for n, column in enumerate(table.columns) if "smiles" in _plain(column)]
    named += [n for n, c in enumerate(table.columns) if _plain(c) in _SMILES_NAMES]
    shares = {n: _share_of_smiles(table, n) for n in dict.fromkeys(named)}
    likely = [n for n, share in shares.items() if share >= 0.5]
    if likely:
        best = max(likely, key=lambda n: ("smiles" in _plain(table.columns[n]), shares[n]))
        return column_named(table, table.columns[best])
    others = [
        n for n in range(len(table.columns)) if n not in shares and _mean_length(table, n) > 3
    ]
    other_shares = {n: _share_of_smiles(table, n) for n in others}
    likely = [n for n, share in other_shares.items() if share >= 0.8]
    if likely:
        return max(likely, key=lambda n: other_shares[n])
    if shares:  # the name says SMILES; invalid rows are rejected one by one
        return max(shares, key=lambda n: shares[n])
    raise DataError(
        f"no column holds SMILES: the columns are {_listed(table)}; name it with smiles='NAME'"
    )


def _share_of_smiles(table: Table, number: int) -> float:
    """Fraction of a column's cells that RDKit can read."""
    cells = [cell.strip() for cell in _sample(table, number) if cell.strip()]
    return sum(map(_is_smiles, cells)) / len(cells) if cells else 0.0


def _is_molecule(name: str) -> bool:
    """Whether the name of a column is itself a SMILES and not a usual name."""
    usual = _plain(name) in _SMILES_NAMES or "smiles" in _plain(name) or len(name) < 3
    return not usual and _is_smiles(name)


def _is_smiles(text: str) -> bool:
    return len(text) < 1000 and read_smiles(text) is not None


def _find_id(table: Table, smiles: int) -> int | None:
    plain = [_plain(column) for column in table.columns]
    for name in _ID_NAMES:
        if plain.count(name) == 1 and plain.index(name) != smiles:
            return plain.index(name)
    return None


def _find_labels(table: Table, smiles: int, id: int | None) -> tuple[int, ...]:
    candidates = [
        number
        for number, name in enumerate(table.columns)
        if number not in (smiles, id)
        and _plain(name) not in (*_ID_NAMES, *_OTHER_NAMES)
        and "smiles" not in _plain(name)
        and _could_be_label(table, number)
    ]
    # Prefer columns with several values; if there are none, reading the labels raises an error.
    candidates = [n for n in candidates if len(_values(table, n)) > 1] or candidates
    if not candidates:
        raise DataError(
            f"no column could be the label: the columns are {_listed(table)}; name it with "
            "label='NAME'"
        )
    if len(candidates) == 1:
        return tuple(candidates)
    named = [n for n in candidates if _plain(table.columns[n]) in _LABEL_NAMES]
    if len(named) == 1:
        return tuple(named)
    # Several columns of zeros and ones are several tasks, as in Tox21.
    if {to_number(cell) for n in candidates for cell in _values(table, n)} <= {0.0, 1.0}:
        return tuple(candidates)
    names = ", ".join(f"'{shown(table.columns[n], 30)}'" for n in candidates[:8])
    more = f" and {len(candidates) - 8} more" if len(candidates) > 8 else ""
    raise DataError(
        f"several columns could be the label: {names}{more}; choose with label='NAME', or with a "
        "list of names"
    )


def _could_be_label(table: Table, number: int) -> bool:
    """Whether a column holds numbers, but not row numbers, or a few different words."""
    cells = [cell for cell in _sample(table, number) if not is_missing(cell)]
    numbers = [n for cell in cells if (n := to_number(cell, table.decimal_comma)) is not None]
    if not cells:
        return False
    if len(numbers) >= 0.8 * len(cells):
        return len(numbers) <= 2 or any(b - a != 1 for a, b in pairwise(numbers))
    return len(set(cells)) <= max(2, min(50, len(cells) // 2))


def _values(table: Table, number: int) -> set[str]:
    """Distinct values of a column, without missing ones."""
    return {cell.strip() for cell in table.column(number) if not is_missing(cell)}


def _sample(table: Table, number: int) -> list[str]:
    """Cells at regular intervals, because tables are often sorted."""
    step = max(1, len(table.rows) // _SAMPLE)
    return [row[number] for row in table.rows[::step]]


def _mean_length(table: Table, number: int) -> float:
    cells = _sample(table, number)
    return sum(len(cell) for cell in cells) / max(1, len(cells))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _listed(table: Table) -> str:
    names = ", ".join(f"'{shown(name, 30)}'" for name in table.columns[:8])
    return f"{names} and {len(table.columns) - 8} more" if len(table.columns) > 8 else names
