"""Rows of a table that were not used, with their reasons, and tables that are safe to open."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gsat.core.errors import shown
from gsat.molecules.label_values import to_number

_LONGEST = 200


class RejectedRow(NamedTuple):
    """A row that was not used.

    Attributes:
        line: The line of the file at which it begins.
        id: Its identifier, if it has one.
        smiles: Its SMILES.
        reason: Why it was not used.
    """

    line: int
    id: str
    smiles: str
    reason: str

    def short(self) -> RejectedRow:
        """The row with its texts cut to a readable length, control characters escaped."""
        return RejectedRow(self.line, *(shown(text, _LONGEST) for text in self[1:]))


class RejectedRows(tuple[RejectedRow, ...]):
    """The rows of a table that were not used, in the order of the file."""

    __slots__ = ()

    def summary(self) -> str:
        """Say in one line how many there are, and why."""
        if not self:
            return ""
        # Without what differs from row to row.
        counts = Counter(re.sub(r" in line \d+|: [^:]*# .*", "", row.reason) for row in self)
        named = [f"{reason} ({count})" for reason, count in counts.most_common(3)]
        more = f" and {len(counts) - 3} other reasons" if len(counts) > 3 else ""
        return f"{len(self)} row{'s' * (len(self) > 1)} not used: {'; '.join(named)}{more}"

    def to_csv(self) -> str:
        """Write a table with the columns ``line``, ``id``, ``smiles`` and ``reason``."""
        return write_csv(RejectedRow._fields, ([str(row.line), *row[1:]] for row in self))


def write_csv(header: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str = ",") -> str:
    """Write a table that a spreadsheet takes for texts and numbers, never for formulas."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow([_harmless(name) for name in header])
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(cell: str) -> str:
    formula = cell[:1] in ("=", "+", "-", "@", "\t", "\r") and len(cell) > 1
    return f"'{cell}" if formula and to_number(cell, decimal_comma=True) is None else cell
