"""What was reproduced, at a glance: ours against the paper's, a dot for each cell, by table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gsat.study.cells import GSAT_METHODS, MeasuredCell, measure
from gsat.study.comparisons import METRIC_HEADINGS
from gsat.study.records import Records
from gsat.study.study import TablePart, TableRow, TableStudy
from gsat.study.tables import STUDIES
from paper.dots import Dot, draw_dots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_SPAN = 20.0  # per cent: a difference that seeds alone make shall look small
_GROUPS = {"gsat": "GSAT", "gsat-star": "GSAT*", "erm": "ERM"}


def overview_panels(records: Records) -> list[tuple[str, list[Dot]]]:
    """Collect the cells that have runs, in one panel for each table and metric."""
    panels = []
    for study in STUDIES.values():
        if not isinstance(study, TableStudy) or study.later:  # numbers of other papers
            continue
        for measured in measure(study, records):
            part = measured.part
            dots = [
                _dot(study.name, part, part.rows[number], dataset, cell)
                for (number, dataset), cell in measured.cells.items()
                if cell.ours is not None and cell.paper is not None
            ]
            if dots:
                panels.append((f"{study.name}, {METRIC_HEADINGS[part.metric]}", dots))
    return panels


def draw_overview(records: Records, path: str | Path | None = None) -> Figure:
    """Draw our number of each cell against the paper's.

    Error bars are standard deviations over seeds; a hollow dot has one seed.
    """
    return draw_dots(overview_panels(records), "the paper", "ours", path, least_span=_LEAST_SPAN)


def _dot(table: str, part: TablePart, row: TableRow, dataset: str, cell: MeasuredCell) -> Dot:
    assert cell.ours is not None
    assert cell.paper is not None
    group = _GROUPS.get(row.method, "other systems")
    if row.variant and row.method in GSAT_METHODS:
        group = "ablations"
    name = f"{table} {part.metric} {row.backbone} {row.method}{row.variant} {dataset}"
    return Dot(
        group, cell.paper[0], cell.ours[0], cell.paper[1],
        cell.ours[1] if len(cell.values) > 1 else None,
        f"{name}: {cell.ours[0]:.2f} of {len(cell.values)} against {cell.paper[0]:.2f}",
    )  # fmt: skip
