"""Paired comparisons of the methods of a table, over the seeds they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gsat.study.cells import GSAT_METHODS, MeasuredPart, row_name
from gsat.study.formatting import format_signed
from gsat.study.printed import PrintedCell, PrintedRow, PrintedTable
from gsat.study.statistics import PairedComparison, compare_paired, holm
from gsat.study.study import PREDICTION, TableStudy

METRIC_HEADINGS = {
    "explanation_auc": "Explanation AUC", "precision_at_5": "Precision@5", PREDICTION: "Prediction"
}  # fmt: skip
_HEAD = ("", "n", "difference", "p", "p (Holm)", "p (Wilcoxon)", "ratio of std")
_NOTE = (
    "Over the n seeds that both have: mean difference ± its standard error in points, p of the "
    "paired t test (two-sided), the same corrected by Holm's method for all comparisons of the "
    "column, p of Wilcoxon's signed-rank test (six seeds or more), and the ratio of the two "
    "standard deviations: below 1, the first varies less."
)


def comparison_table(table: TableStudy, parts: Sequence[MeasuredPart]) -> PrintedTable | None:
    """Compare GSAT with every other row of its backbone, and GSAT* with GSAT."""
    rows: list[PrintedRow] = []
    for measured in parts:
        for column in table.columns:
            compared = _compare(measured, column)
            if compared:
                metric = METRIC_HEADINGS[measured.part.metric] if len(parts) > 1 else ""
                rows.append(", ".join(filter(None, (column, metric))))
            corrected = holm([found.p for found in compared.values()])
            for (name, found), p in zip(compared.items(), corrected, strict=True):
                error = "" if found.error is None else f" ± {found.error:.2f}"
                ratio = "–" if found.ratio is None else f"{found.ratio:.2f}"
                texts = (
                    name, str(found.n), format_signed(found.difference, 2) + error,
                    *map(_format_p, (found.p, p, found.wilcoxon)), ratio,
                )  # fmt: skip
                rows.append(tuple(map(PrintedCell, texts)))
    if not rows:
        return None
    return PrintedTable(
        f"{table.title}, paired comparisons",
        _HEAD,
        tuple(rows),
        (_NOTE,),
        f"{table.name}-statistics",
    )


def _compare(measured: MeasuredPart, column: str) -> Mapping[str, PairedComparison]:
    """The comparisons of one column, by their names."""
    found: dict[str, PairedComparison] = {}
    rows = measured.part.rows
    for i, first in enumerate(rows):
        if first.method not in GSAT_METHODS or first.variant:
            continue
        for j, second in enumerate(rows):
            is_gsat = (second.method, second.variant) == ("gsat", "")
            compared = is_gsat if first.method == "gsat-star" else second.method != "gsat-star"
            if i == j or second.backbone != first.backbone or not compared:
                continue
            one, two = measured.cells.get((i, column)), measured.cells.get((j, column))
            # On other graphs, the same seed is no pair.
            if one and two and one.runs.data_hash == two.runs.data_hash:
                pair = compare_paired(one.values, two.values)
                if pair:
                    found[f"{row_name(first)} against {row_name(second)}"] = pair
    return found


def _format_p(p: float | None) -> str:
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"
