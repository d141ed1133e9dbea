"""Cell by cell: is the paper's number reproduced, and if not, by how much and why?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gsat.studies.cells import Measured, measure, row_name
from gsat.studies.records import Records
from gsat.studies.study import Row, Table
from gsat.studies.tables import STUDIES

# What is known about cells that differ: by method, network and data set, or by some of them.
WHY: Mapping[tuple[str, ...], str] = {}
_LIMIT = 2.0  # standard errors (or, with one seed, standard deviations of the paper)


def verdict(cell: Measured) -> str:
    """``reproduced``, ``better`` or ``worse``; with one seed ``in range``, ``above`` or ``below``
    the paper's spread; ``not compared`` where the paper gives none, ``not run`` without runs."""
    if cell.ours is None:
        return "not run"
    if cell.difference is not None:
        names, distance = ("better", "worse", "reproduced"), cell.difference
    elif cell.paper[1]:
        names, distance = (
            ("above", "below", "in range"),
            (cell.ours[0] - cell.paper[0]) / cell.paper[1],
        )
    else:
        return "not compared"
    return names[0] if distance > _LIMIT else names[1] if distance < -_LIMIT else names[2]


def why(row: Row, dataset: str) -> str:
    """What is known about a cell that differs; empty if nothing is."""
    about = (row.method, row.backbone, dataset, row.variant)
    return next((text for key, text in WHY.items() if set(key) <= set(about)), "")


def reproduction_page(records: Records) -> str:
    """Every cell that has runs, in Markdown, table by table."""
    lines: list[str] = []
    total: Counter[str] = Counter()
    for study in STUDIES.values():
        if not isinstance(study, Table):
            continue
        rows = []
        for sheet in measure(study, records):
            for (number, dataset), cell in sheet.cells.items():
                said = verdict(cell)
                total[said] += 1
                if cell.ours is None:
                    continue
                row = sheet.part.rows[number]
                off = cell.ours[0] - cell.paper[0]
                differs = said not in ("reproduced", "in range")
                rows.append(
                    f"| {dataset} | {row_name(row)} | {sheet.part.metric.replace('_', ' ')} | "
                    f"{cell.ours[0]:.1f} ({len(cell.values)}) | {cell.paper[0]:.1f} | "
                    f"{off:+.1f} | {said} | {why(row, dataset) if differs else ''} |"
                )
        if rows:
            lines += [
                f"### {study.name}: {study.title}", "",
                "| data | method | metric | ours (seeds) | paper | difference | verdict | why |",
                "| --- | --- | --- | --- | --- | --- | --- | --- |",
                *rows, "",
            ]  # fmt: skip
    counts = ", ".join(f"{count} {said}" for said, count in total.most_common())
    return f"{sum(total.values())} cells: {counts}.\n\n" + "\n".join(lines)
