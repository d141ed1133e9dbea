"""Scatter plots of our numbers against the paper's, one dot per cell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gsat.study.records import Records
from gsat.study.render import metric_title
from gsat.study.study import Study, shipped_studies
from gsat.study.table import Cell, measure
from paper.dots import Dot, draw_dots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LEAST_SPAN = 20.0  # per cent, so that differences between seeds look small
_GROUPS = {"gsat": "GSAT", "gsat-star": "GSAT*", "erm": "ERM"}


def overview_panels(records: Records) -> list[tuple[str, list[Dot]]]:
    """Collect the cells that have runs, in one panel for each table and metric."""
    panels = []
    for study in shipped_studies():
        for section in measure(study, records) if study.in_paper else ():
            dots = [
                _dot(study, cell)
                for cell in section.cells.values()
                if cell.ours is not None and cell.published is not None
            ]
            if dots:
                panels.append((f"{study.name}, {metric_title(section.table.metric)}", dots))
    return panels


def draw_overview(records: Records, path: str | Path | None = None) -> Figure:
    """Draw our number of each cell against the paper's.

    Error bars are standard deviations over seeds; a hollow dot has one seed.
    """
    return draw_dots(overview_panels(records), "the paper", "ours", path, least_span=_LEAST_SPAN)


def _dot(study: Study, cell: Cell) -> Dot:
    assert cell.ours is not None
    assert cell.published is not None
    row = cell.row
    group = _GROUPS.get(row.method, "other systems")
    if row.variant and row.method in study.ours:
        group = "ablations"
    name = (
        f"{study.name} {cell.table.metric} {row.backbone} {row.method}{row.variant} {cell.dataset}"
    )
    return Dot(
        group, cell.published[0], cell.ours[0], cell.published[1],
        cell.ours[1] if len(cell.values) > 1 else None,
        f"{name}: {cell.ours[0]:.2f} of {len(cell.values)} against {cell.published[0]:.2f}",
    )  # fmt: skip
