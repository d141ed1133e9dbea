"""The paper's tables with our recorded runs beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gsat.core.errors import GSATError
from gsat.study.cells import (
    BOLD_RULES,
    DATA_MARK_NOTES,
    PAPER_SEEDS,
    PAPER_SEEDS_OF,
    Emphasis,
    MeasuredCell,
    MeasuredPart,
    common_seeds,
    floor_name,
    measure,
    row_name,
)
from gsat.study.comparisons import METRIC_HEADINGS, comparison_table
from gsat.study.formatting import format_mean_std, format_paper, format_seeds, format_signed
from gsat.study.printed import PrintedCell, PrintedRow, PrintedTable
from gsat.study.records import Records
from gsat.study.renderers import RENDERERS
from gsat.study.study import TableStudy

NUMBERS_NOTE = "Test set, mean ± standard deviation over seeds, in per cent."
ERRORS_NOTE = (
    "se: ours minus the paper's, in standard errors of that difference, from the deviations of "
    f"both (the paper has {PAPER_SEEDS} seeds, {PAPER_SEEDS_OF['ib-subgraph']} of IB-subgraph); "
    "left out where we have fewer than two seeds, and where the paper gives no deviation or "
    "quotes other publications."
)
FLOORS_NOTE = (
    "Floors are trivial scores that any explanation should beat; the paper has none, and they do "
    "not count as baselines."
)


def render(
    tables: Sequence[TableStudy],
    records: Records,
    format_name: str,
    *,
    statistics: bool = False,
) -> str:
    """Render tables of the paper, with our runs beside the paper's numbers, as one document."""
    if format_name not in RENDERERS:
        raise GSATError(f"there is no format '{format_name}': available: {', '.join(RENDERERS)}")
    printed = []
    for table in tables:
        parts = measure(table, records)
        ours = print_table(table, parts)
        notes = (*ours.notes, NUMBERS_NOTE, ERRORS_NOTE, *data_notes(parts))
        printed.append(replace(ours, notes=notes))
        if statistics and (compared := comparison_table(table, parts)):
            printed.append(compared)
    return RENDERERS[format_name](printed)


def print_table(
    table: TableStudy, parts: Sequence[MeasuredPart], *, short: bool = False
) -> PrintedTable:
    """Turn a measured table into texts."""
    common = common_seeds(parts)
    shown = {
        (row_name(measured.part.rows[number]), column)
        for measured in parts
        for (number, column), cell in measured.cells.items()
        if cell.runs.seeds or not short
    }
    has_floors = any(measured.floors for measured in parts)
    columns = [
        name
        for name in table.columns
        if any(name == column for _, column in shown) or _has_floor(parts, name, short)
    ]
    missing = [name for name in table.columns if name not in columns]
    rows: list[PrintedRow] = []
    for measured in parts:
        lines: list[PrintedRow] = []
        for number, row in enumerate(measured.part.rows):
            if not any((row_name(row), column) in shown for column in columns):
                missing.append(row_name(row))
                continue
            cells = [PrintedCell(row_name(row))]
            for column in columns:
                key = number, column
                cell = measured.cells.get(key)
                shown_cell = PrintedCell("–")
                if cell:
                    shown_cell = _print_cell(cell, measured.emphasis[key], common)
                cells.append(replace(shown_cell, beside="published" if table.later else "paper"))
            lines.append(tuple(cells))
        for number, row in enumerate(measured.part.floors):
            floors = (measured.floors[number, column] for column in columns)
            cells = [_print_cell(cell, Emphasis(), common) for cell in floors]
            lines.append((PrintedCell(floor_name(row)), *cells))
        if lines and len(parts) > 1:
            rows.append(METRIC_HEADINGS[measured.part.metric])
        rows += lines
    notes = [table.note] if table.note else []
    if missing:
        notes.append(f"No run yet: {', '.join(dict.fromkeys(missing))}.")
    if common:
        seeds = f"Seeds 0 to {common - 1}" if common > 1 else "Seed 0 only"
        notes.append(f"{seeds}, unless a cell gives another number in brackets.")
    rules = dict.fromkeys(measured.part.bold for measured in parts)
    notes += [BOLD_RULES[rule] for rule in rules if rule]
    if has_floors:
        notes.append(FLOORS_NOTE)
    return PrintedTable(table.title, ("", *columns), tuple(rows), tuple(notes), table.name)


def data_notes(parts: Sequence[MeasuredPart]) -> list[str]:
    """Explanations of the marks of data that is not the paper's, as far as they are used."""
    cells = [c for p in parts for c in (*p.cells.values(), *p.floors.values())]
    used = {cell.data_mark for cell in cells}
    return [note for mark, note in DATA_MARK_NOTES.items() if mark in used]


def _has_floor(parts: Sequence[MeasuredPart], column: str, short: bool) -> bool:
    """Whether a floor is to be shown in a column: in short, one with runs."""
    return any(
        place == column and (cell.runs.seeds or not short)
        for measured in parts
        for (_, place), cell in measured.floors.items()
    )


def _print_cell(cell: MeasuredCell, emphasis: Emphasis, common: int) -> PrintedCell:
    paper = format_paper(cell.paper)
    if not cell.runs.seeds:
        return PrintedCell("no run", "missing", paper=paper)
    if not cell.runs.done:
        return PrintedCell(f"{len(cell.runs.failed)} failed", "missing", paper=paper)
    counted = format_seeds(cell.runs)
    seeds = "" if counted == str(common) else f" ({counted})"
    if cell.ours is None:
        return PrintedCell("undefined", "missing", rest=seeds, paper=paper)
    mean, _, deviation = format_mean_std(*cell.ours, len(cell.values)).partition(" ± ")
    difference = cell.difference
    return PrintedCell(
        mean,
        emphasis.style,
        emphasis.sign,
        (f" ± {deviation}" if deviation else "") + cell.data_mark + seeds,
        paper,
        f"{format_signed(difference, 1)} se" if difference is not None else "",
    )
