"""Rejected rows of a table with their reasons, and CSV files that are safe for spreadsheets."""

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
    """A row that was not used."""

    line: int  # first line in the file
    id: str  # may be empty
    smiles: str
    reason: str

    def short(self) -> RejectedRow:
        """The row with long texts cut and control characters escaped."""
        return RejectedRow(self.line, *(shown(text, _LONGEST) for text in self[1:]))


class RejectedRows(tuple[RejectedRow, ...]):
    """The rejected rows of a table, in the order of the file."""

    __slots__ = ()

    def summary(self) -> str:
        """Summarise the number of rows and the most common reasons in one line."""
        if not self:
            return ""
        # Group reasons without the details of each row.
        counts = Counter(re.sub(r" in line \d+|: [^:]*# .*", "", row.reason) for row in self)
        named = [f"{reason} ({count})" for reason, count in counts.most_common(3)]
        more = f" and {len(counts) - 3} other reasons" if len(counts) > 3 else ""
        return f"{len(self)} row{'s' * (len(self) > 1)} not used: {'; '.join(named)}{more}"

    def to_csv(self) -> str:
        """Write a table with the columns ``line``, ``id``, ``smiles`` and ``reason``."""
        return write_csv(RejectedRow._fields, ([str(row.line), *row[1:]] for row in self))


def write_csv(header: Sequence[str], rows: Iterable[Sequence[str]], delimiter: str = ",") -> str:
    """Write CSV in which spreadsheets find texts and numbers but no formulas."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow([_harmless(name) for name in header])
    writer.writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def _harmless(cell: str) -> str:
    formula = cell[:1] in ("=", "+", "-", "@", "\t", "\r") and len(cell) > 1
    return f"'{cell}" if formula and to_number(cell, decimal_comma=True) is None else cell
