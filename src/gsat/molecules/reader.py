"""Conversion of tables to graphs: columns, labels, duplicates and rejected rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError, shown
from gsat.graphs import GraphStore
from gsat.molecules.columns import Columns, column_named, find_columns
from gsat.molecules.featuriser import Arrays, Molecules, to_store
from gsat.molecules.label_values import Labels, is_missing, read_labels
from gsat.molecules.options import TableSettings
from gsat.molecules.parallel import read_many
from gsat.molecules.rejected import RejectedRow
from gsat.molecules.smiles import SMILES
from gsat.molecules.table import Table, open_table

VERSION: Final = 1  # to be incremented when the result of reading a table changes
# Names of splits in a table.
MARKS: Final = {
    "train": 0, "training": 0, "valid": 1, "val": 1, "validation": 1, "dev": 1, "test": 2,
    "testing": 2, "holdout": 2, "external": 2,
}  # fmt: skip


@dataclass
class _Rows:
    """The rows of a table while they are being read."""

    table: Table
    columns: Columns
    rejected: list[RejectedRow] = field(default_factory=list)

    def refuse(self, row: int, reason: str) -> None:
        cells = self.table.rows[row]
        named = "" if self.columns.id is None else cells[self.columns.id]
        smiles = cells[self.columns.smiles]
        self.rejected.append(RejectedRow(self.table.lines[row], named, smiles, reason).short())


def read_table(path: Path, settings: TableSettings, *, quiet: bool = False) -> GraphStore:
    """Read a table of molecules."""
    try:
        table = open_table(path)
        columns = _columns(table, settings)
        work = _Rows(table, columns)
        for line, reason, cells in table.problems:
            work.rejected.append(RejectedRow(line, "", "".join(cells[:1]), reason).short())
        labels = _labels(table, columns, settings)
        texts = table.blocks or table.column(columns.smiles)
        molecules, parts = read_many(
            texts,
            quiet=quiet,
            kind=SMILES if table.blocks is None else "mol",
            largest_fragment=settings.largest_fragment,
            canonical=settings.duplicates == "merge",
            scaffold=settings.scaffold,
        )
    except DataError as error:
        raise type(error)(f"{path}: {error}") if str(path) not in str(error) else error from None
    return _build(path, work, settings, labels, molecules, parts)


def _build(
    path: Path,
    work: _Rows,
    settings: TableSettings,
    labels: Labels | None,
    molecules: Molecules,
    parts: Sequence[Arrays],
) -> GraphStore:
    """Reject unusable rows, merge duplicates, and make the graphs."""
    table, columns = work.table, work.columns
    if table.blocks is not None:
        for row, smiles in zip(molecules.rows, molecules.smiles, strict=True):
            table.rows[row][0] = smiles
    for row, reason in molecules.problems:
        work.refuse(row, f"SMILES: {reason}" if table.blocks is None else reason)
    keep = np.ones(len(molecules.rows), dtype=bool)
    rows = np.array(molecules.rows, dtype=np.int64)
    notes = [*table.notes, *_in_words(table, columns, labels)]
    y: NDArray[np.float64] | None = None
    if labels is not None:
        y = labels.values[rows]
        if settings.labelled:
            for place, row in enumerate(molecules.rows):
                if row in labels.problems:
                    keep[place] = False
                    work.refuse(row, labels.problems[row])
        if settings.duplicates == "merge":
            notes += _merge(work, molecules, y, keep, labels.kind)
    if not keep.any():
        reasons = sorted(work.rejected)
        first = f"; line {reasons[0].line}: {reasons[0].reason}" if reasons else ""
        raise DataError(f"{path}: none of its {len(table.rows)} rows can be used{first}")
    salts = sum(np.array(molecules.components)[keep] > 1)
    if salts:
        kept = "only the largest is kept" if settings.largest_fragment else "all are kept"
        notes.append(f"{salts} molecules have several fragments (salts, mixtures); {kept}")
    store = to_store(parts, _fields(work, settings, molecules, rows), y)
    store.meta["table"] = _described(table, columns, labels, settings)
    store.meta.update(
        notes=notes,
        rejected=[list(row) for row in sorted(work.rejected)],
        **({"classes": list(labels.classes)} if labels is not None and labels.classes else {}),
        **({"labels": store.meta["table"]["labels"]} if len(columns.labels) > 1 else {}),
    )
    return store if keep.all() else store.select(keep).compact()


def _columns(table: Table, settings: TableSettings) -> Columns:
    if settings.labelled:
        return find_columns(table, settings.smiles, settings.label, settings.id)
    # The names are those of the training table; they are optional here.
    names = set(table.columns)
    label = settings.label if set(settings.label) <= names else []
    smiles, id = (name if name in names else "" for name in (settings.smiles, settings.id))
    return find_columns(table, smiles, label, id, labelled=False)


def _labels(table: Table, columns: Columns, settings: TableSettings) -> Labels | None:
    if not columns.labels:
        return None
    try:
        return read_labels(
            [table.column(number) for number in columns.labels],
            [table.columns[number] for number in columns.labels],
            settings.task,
            table.decimal_comma,
            settings.classes,
        )
    except DataError:
        if settings.labelled:
            raise
        return None  # predictions do not need labels


def _fields(
    work: _Rows, settings: TableSettings, molecules: Molecules, rows: NDArray[np.int64]
) -> dict[str, Any]:
    """The further per-graph arrays."""
    table, columns = work.table, work.columns
    fields: dict[str, Any] = {SMILES: molecules.smiles, "line": np.array(table.lines)[rows]}
    if columns.id is not None:
        # The longest text determines the width of the array.
        fields["id"] = [table.rows[row][columns.id].strip()[:200] for row in molecules.rows]
    if settings.scaffold:
        fields["scaffold"] = molecules.scaffold
    if settings.split:
        number = column_named(table, settings.split)
        fields["split"] = [_mark(table, row, number) for row in molecules.rows]
    return fields


def _mark(table: Table, row: int, number: int) -> int:
    """The split of a row: 0 train, 1 valid, 2 test, −1 none."""
    text = table.rows[row][number].strip()
    if is_missing(text):
        return -1
    try:
        return MARKS[text.lower()]
    except KeyError:
        raise DataError(
            f"line {table.lines[row]}: the split {text[:40]!r} in the column "
            f"'{shown(table.columns[number], 60)}' is not train, valid or test"
        ) from None


def _merge(
    work: _Rows,
    molecules: Molecules,
    y: NDArray[np.float64],
    keep: NDArray[np.bool_],
    kind: str,
) -> list[str]:
    """Merge rows with the same molecule into the first, and return notes about it.

    Numbers are averaged. Conflicting classes become missing; rows without any label are left out.
    """
    groups: dict[str, list[int]] = {}
    for place in np.flatnonzero(keep).tolist():
        groups.setdefault(molecules.canonical[place], []).append(place)
    lines, repeated, disagreeing = work.table.lines, 0, 0
    for places in groups.values():
        if len(places) == 1:
            continue
        first, *others = places
        repeated += len(others)
        mean, differs = _joined(y[places])
        disagreeing += bool(differs.any())
        y[first] = mean if kind == "regression" else np.where(differs, np.nan, mean)
        how = ""
        if differs.any():
            how = ", averaged with it" if kind == "regression" else ", with another label"
        for place in others:
            keep[place] = False
            line = lines[molecules.rows[first]]
            work.refuse(molecules.rows[place], f"it repeats the molecule in line {line}{how}")
        if np.isnan(y[first]).all():
            keep[first] = False
            line = lines[molecules.rows[others[0]]]
            work.refuse(molecules.rows[first], f"it repeats the molecule in line {line}{how}")
    if not repeated:
        return []
    conflict = ""
    if disagreeing:
        done = "averaged" if kind == "regression" else "left out"
        conflict = f"; {disagreeing} molecules have different labels, which are {done}"
    return [f"{repeated} row{' repeats' if repeated == 1 else 's repeat'} a molecule{conflict}"]


def _joined(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Means of labels ``[R, T]`` without missing ones, ``[T]``, and whether they differ."""
    present = ~np.isnan(values)
    lowest = np.where(present, values, np.inf).min(axis=0)
    highest = np.where(present, values, -np.inf).max(axis=0)
    count = present.sum(axis=0)
    total = np.where(present, values, 0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan), lowest < highest


def _in_words(table: Table, columns: Columns, labels: Labels | None) -> list[str]:
    """Describe the columns in words."""
    names = [shown(name, 60) for name in table.columns]
    parts = [f"SMILES in '{names[columns.smiles]}'"] if table.blocks is None else []
    if labels is not None:
        listed = ", ".join(f"'{names[n]}'" for n in columns.labels[:6])
        more = f" and {len(columns.labels) - 6} more" if len(columns.labels) > 6 else ""
        classes = [shown(name, 40) for name in labels.classes[:6]]
        named = f" ({', '.join(classes)})" if classes else ""
        parts.append(
            f"{labels.kind} label{'s' * (len(columns.labels) > 1)} in {listed}{more}{named}"
        )
    if columns.id is not None:
        parts.append(f"identifiers in '{names[columns.id]}'")
    return [", ".join(parts)] if parts else []


def _described(
    table: Table, columns: Columns, labels: Labels | None, settings: TableSettings
) -> Mapping[str, Any]:
    """The columns as plain values for the store and for saved models."""
    names = [table.columns[number] for number in columns.labels]
    return {
        "smiles": table.columns[columns.smiles],
        "labels": names,
        "id": "" if columns.id is None else table.columns[columns.id],
        "kind": "" if labels is None else labels.kind,
        "units": [_unit(name) for name in names],
        "largest_fragment": settings.largest_fragment,
    }


def _unit(name: str) -> str:
    """Unit at the end of a column's name, such as ``mol/L`` in ``solubility (mol/L)``."""
    match = re.search(r"[(\[]([^()\[\]]{1,30})[)\]]\s*$", name)
    return match[1].strip() if match else ""
