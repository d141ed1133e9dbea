"""Tables of a study in numbers: recorded runs beside published numbers, and their comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gsat.datasets.registry import paper_match
from gsat.methods import METHODS
from gsat.metric_names import LOWER_IS_BETTER
from gsat.study.records import RecordedRuns, Records
from gsat.study.statistics import PairedComparison, compare_paired
from gsat.study.study import MeanStd, Row, Study, StudyCell, Table
from gsat.training.results import summarise

BACKBONE_TITLES = {"gin": "GIN", "pna": "PNA", "leconv": "LEConv", "dmpnn": "D-MPNN"}
# Marks of data that is not the paper's, by ``matches_paper`` of a run.
DATA_MARKS = {"yes": "", "rebuilt": "°", "different": "†"}
FAR_ABOVE = "‡"  # the paper prints a dagger, which marks other data here


@dataclass(frozen=True)
class Cell(StudyCell):
    """A cell with its recorded runs."""

    runs: RecordedRuns
    values: Mapping[int, float]  # by seed, scores in per cent; empty if any seed has none
    style: str = ""  # "bold", "underline" or plain
    sign: str = ""  # printed behind the number

    @property
    def ours(self) -> tuple[float, float] | None:
        """Mean and population standard deviation; None without runs."""
        return summarise(self.values.values())

    @property
    def spread(self) -> MeanStd | None:
        """As :attr:`ours`, but with no deviation for a single run, which would be 0."""
        return self.ours if self.ours is None or len(self.values) > 1 else (self.ours[0], None)

    @property
    def difference(self) -> float | None:
        """Ours minus the published mean, in standard errors of that difference.

        None where that error is unknown: fewer than two seeds of ours, no published deviation, or
        an unknown number of seeds behind it.
        """
        errors = self._squared_errors()
        if self.ours is None or self.published is None or errors is None or sum(errors) == 0:
            return None
        return (self.ours[0] - self.published[0]) / math.sqrt(sum(errors))

    @property
    def p(self) -> float | None:
        """Two-sided p value of Welch's test of equal means; None as for :attr:`difference`."""
        errors, difference = self._squared_errors(), self.difference
        if errors is None or difference is None or self.published_seeds is None:
            return None
        from scipy import stats  # takes a second to import

        degrees_of_freedom = sum(errors) ** 2 / sum(
            error**2 / (n - 1)
            for error, n in zip(errors, (len(self.values), self.published_seeds), strict=True)
        )
        return float(2 * stats.t.sf(abs(difference), degrees_of_freedom))

    def _squared_errors(self) -> tuple[float, float] | None:
        """Squared standard errors of our mean and of the published one."""
        if self.ours is None or len(self.values) < 2:
            return None
        if self.published is None or self.published[1] is None or (self.published_seeds or 0) < 2:
            return None
        # The deviations are of the population: s² / n of the sample is σ² / (n − 1).
        return (
            self.ours[1] ** 2 / (len(self.values) - 1),
            self.published[1] ** 2 / ((self.published_seeds or 0) - 1),
        )

    @property
    def data_mark(self) -> str:
        """The mark of a data set of the paper with other graphs, beside published numbers."""
        matches = [run["matches_paper"] for run in self.runs.done.values()]
        if not matches or self.published is None:
            return ""
        return DATA_MARKS[paper_match(self.dataset, matches[0]) or "yes"]


@dataclass(frozen=True)
class Section:
    """A table of a study with its recorded runs; cells by number of the row and data set."""

    table: Table
    cells: Mapping[tuple[int, str], Cell]

    def column(self, dataset: str) -> dict[int, Cell]:
        """The cells of a data set by row, without trivial baselines."""
        return {
            number: cell
            for (number, column), cell in self.cells.items()
            if column == dataset and not cell.row.trivial
        }


def measure(study: Study, records: Records, hashes: Collection[str] | None = None) -> list[Section]:
    """Find the recorded runs of all cells of a study, or of those with certain recipes."""
    sections = []
    for table in study.table:
        cells = {
            (number, planned.dataset): _measure(planned, records)
            for number, row in enumerate(table.rows)
            for planned in study.row_cells(table, row)
            if hashes is None or planned.experiment.hash in hashes
        }
        section, emphasised = Section(table, cells), dict(cells)
        for dataset in study.datasets:
            column = section.column(dataset)
            rows, numbers = [c.row for c in column.values()], [c.spread for c in column.values()]
            styles = emphasise(table, study.ours, rows, numbers)
            for (number, cell), (style, sign) in zip(column.items(), styles, strict=True):
                emphasised[number, dataset] = replace(cell, style=style, sign=sign)
        sections.append(Section(table, emphasised))
    return [section for section in sections if section.cells]


def _measure(planned: StudyCell, records: Records) -> Cell:
    metric, runs = planned.table.metric, records.of(planned.experiment)
    unit = 1.0 if metric in LOWER_IS_BETTER else 100.0
    values = {s: unit * v for s, v in runs.values(metric).items() if v is not None}
    return Cell(**vars(planned), runs=runs, values=values if len(values) == len(runs.done) else {})


def emphasise(
    table: Table, ours: Sequence[str], rows: Sequence[Row], column: Sequence[MeanStd | None]
) -> list[tuple[str, str]]:
    """Apply a table's rule for bold and underlined numbers: style and sign of each in a column."""
    unit = -1.0 if table.metric in LOWER_IS_BETTER else 1.0
    means = [None if number is None else unit * number[0] for number in column]
    spreads = [None if number is None else number[1] for number in column]
    styles = [("", "")] * len(rows)
    if table.bold == "best":
        best = max((mean for mean in means if mean is not None), default=None)
        return [("bold", "") if mean is not None and mean == best else ("", "") for mean in means]
    if table.bold == "best-baseline":
        baselines = [means[i] for i, row in enumerate(rows) if row.method not in ours]
        ranked = [mean for mean in baselines if mean is not None]
        if not ranked or len(ranked) < len(baselines):
            return styles
        best = max(ranked)
        for i, (row, mean, std) in enumerate(zip(rows, means, spreads, strict=True)):
            if row.method in ours and mean is not None and mean > best:
                far = std is not None and mean - 2 * std > best
                styles[i] = ("bold", FAR_ABOVE if far else "")
        last = max(i for i, row in enumerate(rows) if row.method not in ours and means[i] == best)
        styles[last] = ("underline", "")
    elif table.bold:
        alone = {row.backbone: means[i] for i, row in enumerate(rows) if row.method == "erm"}
        for i, (row, mean, std) in enumerate(zip(rows, means, spreads, strict=True)):
            reference = alone.get(row.backbone)
            margin = 0.0 if table.bold == "backbone-mean" else std
            if row.method == "erm" or mean is None or reference is None or margin is None:
                continue
            if mean - margin > reference:
                styles[i] = ("bold", "")
    return styles


def compare(study: Study, section: Section, dataset: str) -> dict[str, PairedComparison]:
    """Compare our methods with the others of a column, over the seeds that both have.

    The first of our methods is compared with every other row of its backbone, the others with the
    first.
    """
    comparisons: dict[str, PairedComparison] = {}
    column = section.column(dataset)
    for i, one in column.items():
        if one.row.method not in study.ours or one.row.variant:
            continue
        for j, two in column.items():
            if one.row.method == study.ours[0]:
                compared = two.row.method not in study.ours[1:]
            else:
                compared = (two.row.method, two.row.variant) == (study.ours[0], "")
            # On other graphs, runs of the same seed are not pairs.
            same_graphs = one.runs.data_hash == two.runs.data_hash
            if i == j or two.row.backbone != one.row.backbone or not (compared and same_graphs):
                continue
            pair = compare_paired(one.values, two.values)
            if pair:
                names = row_name(study, one.row), row_name(study, two.row)
                comparisons[f"{names[0]} against {names[1]}"] = pair
    return comparisons


def common_seeds(sections: Sequence[Section]) -> int:
    """The number of seeds that most cells have, the larger of equals; 0 without any runs."""
    cells = [cell for section in sections for cell in section.cells.values()]
    counts = Counter(len(cell.values) for cell in cells if cell.values and not cell.row.trivial)
    return max(counts, key=lambda number: (counts[number], number), default=0)


def method_title(method: str, backbone: str) -> str:
    """Backbone and method as the paper prints them."""
    return f"{BACKBONE_TITLES.get(backbone, backbone)} + {METHODS[method].title}"


def row_name(study: Study, row: Row) -> str:
    """The title of a row: by default, backbone, method and variant."""
    if row.title:
        return row.title
    if row.trivial:  # its scores do not depend on the backbone
        return f"{METHODS[row.method].title} (trivial)"
    variant = study.variants[row.variant].title if row.variant else ""
    return method_title(row.method, row.backbone) + variant
