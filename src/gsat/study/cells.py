"""The cells of a table: recorded runs beside the paper's number, and what is set in bold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gsat.methods import METHODS
from gsat.study.formatting import format_method
from gsat.study.records import RecordedRuns, Records
from gsat.study.study import VARIANTS, MeanStd, TablePart, TableRow, TableStudy
from gsat.training.results import summarise

# Marks of data that is not the paper's, by ``matches_paper`` of a run.
DATA_MARKS = {"yes": "", "rebuilt": "°", "different": "†"}
DATA_MARK_NOTES = {
    "°": "° graphs generated again by the paper's rules.",
    "†": "† other data, or another split, than the paper's.",
}
FAR_ABOVE = "‡"  # the paper prints a dagger, which marks other data here
GSAT_METHODS = ("gsat", "gsat-star")
PAPER_SEEDS, PAPER_SEEDS_OF = 10, {"ib-subgraph": 5}
# The rules of the paper's captions; tables 4, 6 and 7 state none and use that of table 1.
BOLD_RULES = {
    "best-baseline": "Underlined: the best baseline. Bold: GSAT with a mean above the best "
    f"baseline's; {FAR_ABOVE} by more than two of its own standard deviations. Both only where all "
    "baselines of the column have runs.",
    "backbone": "Bold: the mean is more than one standard deviation above that of the backbone "
    "trained by itself (ERM).",
    "backbone-mean": "Bold: the mean is above that of the backbone trained by itself (ERM).",
}


@dataclass(frozen=True)
class MeasuredCell:
    """A cell with its recorded runs.

    Attributes:
        runs: The recorded runs.
        values: The metric by seed in per cent; empty if it is undefined for any seed.
        paper: The paper's number; None for a floor.
        paper_seeds: Number of seeds behind the paper's number; None if unknown.
    """

    runs: RecordedRuns
    values: Mapping[int, float]
    paper: MeanStd | None
    paper_seeds: int | None = PAPER_SEEDS

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
        """Ours minus the paper's, in standard errors of that difference.

        None where that error is unknown: fewer than two seeds of ours, no published deviation, or
        an unknown number of seeds behind it.
        """
        errors = self._squared_errors()
        if self.ours is None or self.paper is None or errors is None or sum(errors) == 0:
            return None
        return (self.ours[0] - self.paper[0]) / math.sqrt(sum(errors))

    @property
    def p(self) -> float | None:
        """Two-sided p value of Welch's test of equal means; None as for :attr:`difference`."""
        errors, difference = self._squared_errors(), self.difference
        if errors is None or difference is None or self.paper_seeds is None:
            return None
        from scipy import stats  # takes a second to import

        degrees_of_freedom = sum(errors) ** 2 / sum(
            error**2 / (n - 1)
            for error, n in zip(errors, (len(self.values), self.paper_seeds), strict=True)
        )
        return float(2 * stats.t.sf(abs(difference), degrees_of_freedom))

    def _squared_errors(self) -> tuple[float, float] | None:
        """Squared standard errors of our mean and of the paper's."""
        if self.ours is None or len(self.values) < 2:
            return None
        if self.paper is None or self.paper[1] is None or self.paper_seeds is None:
            return None
        # The deviations are of the population: s² / n of the sample is σ² / (n − 1).
        return (
            self.ours[1] ** 2 / (len(self.values) - 1),
            self.paper[1] ** 2 / (self.paper_seeds - 1),
        )

    @property
    def data_mark(self) -> str:
        """The mark of data that is not the paper's; empty for the paper's data."""
        matches = [run["matches_paper"] for run in self.runs.done.values()]
        return DATA_MARKS[matches[0]] if matches else ""


@dataclass(frozen=True)
class Emphasis:
    """How a number is set.

    Attributes:
        style: ``"bold"``, ``"underline"``, or empty for plain. (default: plain)
        sign: A sign behind the number. (default: none)
    """

    style: str = ""
    sign: str = ""


@dataclass(frozen=True)
class MeasuredPart:
    """A part of a table with its recorded runs. Keys are a row's number and a data set.

    Attributes:
        part: The part.
        cells: The paper's cells.
        emphasis: How their numbers are set.
        floors: The cells of the floors.
    """

    part: TablePart
    cells: Mapping[tuple[int, str], MeasuredCell]
    emphasis: Mapping[tuple[int, str], Emphasis] = field(default_factory=dict)
    floors: Mapping[tuple[int, str], MeasuredCell] = field(default_factory=dict)


def measure(table: TableStudy, records: Records) -> list[MeasuredPart]:
    """Find the recorded runs of all cells of a table."""
    measured = []
    for part in table.parts:
        cells = {
            (number, column): _measure_cell(part, row, column, records)
            for number, row in enumerate(part.rows)
            for column in table.columns
            if column in row.paper
        }
        floors = {
            (number, column): _measure_cell(part, row, column, records)
            for number, row in enumerate(part.floors)
            for column in table.columns
        }
        emphasis = {}
        for column in table.columns:
            ours = [
                cells[number, column].spread if (number, column) in cells else None
                for number in range(len(part.rows))
            ]
            for number, how in enumerate(emphasise(part, ours)):
                emphasis[number, column] = how
        measured.append(MeasuredPart(part, cells, emphasis, floors))
    return measured


def emphasise(part: TablePart, column: Sequence[MeanStd | None]) -> list[Emphasis]:
    """Apply the paper's rule for bold and underlined numbers to one column."""
    if part.bold == "best-baseline":
        return _against_best_baseline(part, column)
    if part.bold:
        return _against_backbone(part, column, by_mean=part.bold == "backbone-mean")
    return [Emphasis() for _ in part.rows]


def _against_best_baseline(part: TablePart, column: Sequence[MeanStd | None]) -> list[Emphasis]:
    found = [Emphasis() for _ in part.rows]
    baselines = [i for i, row in enumerate(part.rows) if row.method not in GSAT_METHODS]
    known = [(cell[0], i) for i in baselines if (cell := column[i]) is not None]
    if not known or len(known) < len(baselines):
        return found
    best, number = max(known)
    found[number] = Emphasis("underline")
    for i, row in enumerate(part.rows):
        cell = column[i]
        if row.method in GSAT_METHODS and cell is not None and cell[0] > best:
            far = cell[1] is not None and cell[0] - 2 * cell[1] > best
            found[i] = Emphasis("bold", FAR_ABOVE if far else "")
    return found


def _against_backbone(
    part: TablePart, column: Sequence[MeanStd | None], by_mean: bool
) -> list[Emphasis]:
    found = [Emphasis() for _ in part.rows]
    plain = {
        row.backbone: cell
        for row, cell in zip(part.rows, column, strict=True)
        if row.method == "erm"
    }
    for i, row in enumerate(part.rows):
        cell, backbone = column[i], plain.get(row.backbone)
        if row.method == "erm" or cell is None or backbone is None:
            continue
        margin = 0.0 if by_mean else cell[1]
        if margin is not None and cell[0] - margin > backbone[0]:
            found[i] = Emphasis("bold")
    return found


def common_seeds(parts: Sequence[MeasuredPart]) -> int:
    """The number of seeds that most cells have, the larger of equals; 0 without any runs."""
    counts = Counter(len(c.values) for p in parts for c in p.cells.values() if c.values)
    return max(counts, key=lambda number: (counts[number], number), default=0)


def row_name(row: TableRow) -> str:
    """Backbone, method and ablation, as the paper prints them."""
    return format_method(row.method, row.backbone) + VARIANTS[row.variant].title


def floor_name(row: TableRow) -> str:
    """The name of a floor, whose scores do not depend on the backbone."""
    title = METHODS[row.method].title if row.is_registered else row.method.capitalize()
    return f"{title} (floor)"


def _measure_cell(part: TablePart, row: TableRow, column: str, records: Records) -> MeasuredCell:
    runs = records.of(row.experiment(column)) if row.is_registered else RecordedRuns()
    values = {s: 100 * v for s, v in runs.values(part.metric).items() if v is not None}
    if len(values) < len(runs.done):
        values = {}
    quoted = row.method in part.quoted
    seeds = None if quoted else PAPER_SEEDS_OF.get(row.method, PAPER_SEEDS)
    return MeasuredCell(runs, values, row.paper.get(column), seeds)
