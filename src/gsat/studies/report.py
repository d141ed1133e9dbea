"""A study's tables, ours beside the paper's, and the results section of the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gsat.errors import GSATError
from gsat.studies.cells import (
    MARK_NOTES,
    OURS,
    PAPERS_SEEDS,
    PAPERS_SEEDS_OF,
    RULES,
    Emphasis,
    Measured,
    Sheet,
    common_seeds,
    measure,
    row_name,
)
from gsat.studies.other_runs import other_runs, paper_text, seeds_text, spread_text
from gsat.studies.records import Records
from gsat.studies.renderers import STYLES, Grid, Shown, markdown
from gsat.studies.statistics import Paired, holm, paired
from gsat.studies.study import PREDICTION, Table
from gsat.studies.tables import STUDIES

METRICS = {
    "explanation_auc": "Explanation AUC", "precision_at_5": "Precision@5", PREDICTION: "Prediction"
}  # fmt: skip
_NUMBERS = "Test set, mean ± standard deviation over seeds, in per cent."
_ERRORS = (
    "se: ours minus the paper's in standard errors of that difference, from the spread of both "
    f"(the paper has {PAPERS_SEEDS} seeds, of IB-subgraph {PAPERS_SEEDS_OF['ib-subgraph']}); none "
    "where we have fewer than two seeds, or the paper no deviation, or not its own figure."
)
_STATISTICS = (
    "Over the seeds that both have, n of them: mean difference ± its standard error in points, p "
    "of the paired t test (two-sided), the same corrected by Holm's method for all comparisons of "
    "the column, p of Wilcoxon's signed-rank test (six seeds or more), and the ratio of the two "
    "standard deviations: below 1, the first varies less."
)


def render(
    tables: Sequence[Table], records: Records, style: str, *, statistics: bool = False
) -> str:
    """Tables of the paper with our runs, as one document.

    Args:
        style: ``text``, ``markdown``, ``html`` (a page) or ``latex`` (needs booktabs).
        statistics: whether paired comparisons follow.
    """
    if style not in STYLES:
        raise GSATError(f"there is no style '{style}': there are {', '.join(STYLES)}")
    grids = []
    for table in tables:
        sheets = measure(table, records)
        grid = _grid(table, sheets)
        grids.append(replace(grid, notes=(*grid.notes, _NUMBERS, _ERRORS, *_marks(sheets))))
        if statistics and (compared := _statistics(table, sheets)):
            grids.append(compared)
    return STYLES[style](grids)


def results_section(records: Records) -> str:
    """Every table of the paper of which something was run, then all other runs, in Markdown."""
    grids, sheets = [], []
    for study in STUDIES.values():
        if isinstance(study, Table):
            measured = measure(study, records)
            if any(cell.runs.seeds for sheet in measured for cell in sheet.cells.values()):
                grids.append(_grid(study, measured, short=True))
                sheets += measured
    other = other_runs(records)
    if other:
        grids.append(other)
    marks = list(MARK_NOTES.values()) if other else _marks(sheets)
    notes = " ".join([_NUMBERS, _ERRORS, *marks])
    return f"{notes}\n\n{markdown(grids)}" if grids else "Nothing has been recorded yet.\n"


def write_between_marks(path: Path, section: str) -> None:
    """Replace what stands between the two result marks of a document."""
    begin, end = "<!-- results:begin -->\n", "<!-- results:end -->"
    text = path.read_text(encoding="utf-8")
    if begin not in text or end not in text:
        raise GSATError(f"{path} has no marks {begin.strip()} and {end} to put the table between")
    head, rest = text.split(begin, 1)
    path.write_text(f"{head}{begin}\n{section}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")


def _grid(table: Table, sheets: Sequence[Sheet], *, short: bool = False) -> Grid:
    """The table as it is printed; in short, lines and columns without any run are only named."""
    common = common_seeds(sheets)
    tried = {
        (row_name(sheet.part.rows[number]), column)
        for sheet in sheets
        for (number, column), cell in sheet.cells.items()
        if cell.runs.seeds or not short
    }
    columns = [name for name in table.columns if any(name == column for _, column in tried)]
    missing = [name for name in table.columns if name not in columns]
    rows: list[tuple[Shown, ...] | str] = []
    for sheet in sheets:
        lines: list[tuple[Shown, ...]] = []
        for number, row in enumerate(sheet.part.rows):
            if not any((row_name(row), column) in tried for column in columns):
                missing.append(row_name(row))
                continue
            cells = [Shown(row_name(row))]
            for column in columns:
                key = number, column
                cell = sheet.cells.get(key)
                cells.append(_shown(cell, sheet.emphasis[key], common) if cell else Shown("–"))
            lines.append(tuple(cells))
        if lines and len(sheets) > 1:
            rows.append(METRICS[sheet.part.metric])
        rows += lines
    notes = [table.note] if table.note else []
    if missing:
        notes.append(f"No run yet: {', '.join(dict.fromkeys(missing))}.")
    if common:
        seeds = f"Seeds 0 to {common - 1}" if common > 1 else "Seed 0 alone"
        notes.append(f"{seeds} unless a cell says otherwise in brackets.")
    rules = dict.fromkeys(sheet.part.bold for sheet in sheets)
    notes += [RULES[rule] for rule in rules if rule]
    return Grid(table.title, ("", *columns), tuple(rows), tuple(notes), table.name)


def _shown(cell: Measured, emphasis: Emphasis, common: int) -> Shown:
    paper = paper_text(cell.paper)
    if not cell.runs.seeds:
        return Shown("no run", "none", paper=paper)
    if not cell.runs.done:
        return Shown(f"{len(cell.runs.failed)} failed", "none", paper=paper)
    said = seeds_text(cell.runs)
    seeds = "" if said == str(common) else f" ({said})"
    if cell.ours is None:
        return Shown("undefined", "none", rest=seeds, paper=paper)
    mean, _, deviation = spread_text(*cell.ours, len(cell.values)).partition(" ± ")
    gap = cell.difference
    return Shown(
        mean,
        emphasis.how,
        emphasis.sign,
        (f" ± {deviation}" if deviation else "") + cell.mark + seeds,
        paper,
        f"{_signed(gap, 1)} se" if gap is not None else "",
    )


def _marks(sheets: Sequence[Sheet]) -> list[str]:
    used = {cell.mark for sheet in sheets for cell in sheet.cells.values()}
    return [note for mark, note in MARK_NOTES.items() if mark in used]


def _statistics(table: Table, sheets: Sequence[Sheet]) -> Grid | None:
    """GSAT against every other line of its network, and GSAT* against GSAT."""
    rows: list[tuple[Shown, ...] | str] = []
    for sheet in sheets:
        for column in table.columns:
            compared = _compared(sheet, column)
            if compared:
                metric = METRICS[sheet.part.metric] if len(sheets) > 1 else ""
                rows.append(", ".join(filter(None, (column, metric))))
            corrected = holm([found.p for found in compared.values()])
            for (name, found), p in zip(compared.items(), corrected, strict=True):
                error = "" if found.error is None else f" ± {found.error:.2f}"
                ratio = "–" if found.ratio is None else f"{found.ratio:.2f}"
                texts = (
                    name, str(found.n), _signed(found.difference, 2) + error,
                    *map(_probability, (found.p, p, found.wilcoxon)), ratio,
                )  # fmt: skip
                rows.append(tuple(map(Shown, texts)))
    if not rows:
        return None
    head = ("", "n", "difference", "p", "p (Holm)", "p (Wilcoxon)", "ratio of std")
    return Grid(
        f"{table.title}, paired comparisons",
        head,
        tuple(rows),
        (_STATISTICS,),
        f"{table.name}-statistics",
    )


def _compared(sheet: Sheet, column: str) -> Mapping[str, Paired]:
    found: dict[str, Paired] = {}
    rows = sheet.part.rows
    for i, first in enumerate(rows):
        if first.method not in OURS or first.variant:
            continue
        for j, second in enumerate(rows):
            plain = (second.method, second.variant) == ("gsat", "")
            wanted = plain if first.method == "gsat-star" else second.method != "gsat-star"
            if i == j or second.backbone != first.backbone or not wanted:
                continue
            one, two = sheet.cells.get((i, column)), sheet.cells.get((j, column))
            # On other graphs the same seed is no pair.
            if one and two and one.runs.data_hash == two.runs.data_hash:
                pair = paired(one.values, two.values)
                if pair:
                    found[f"{row_name(first)} against {row_name(second)}"] = pair
    return found


def _signed(value: float, digits: int) -> str:
    shown = f"{abs(value):.{digits}f}"
    return ("" if not float(shown) else "−" if value < 0 else "+") + shown


def _probability(p: float | None) -> str:
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"
