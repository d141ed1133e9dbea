"""The cells of a table: our runs beside the paper's figure, and what stands out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gsat.methods import METHODS
from gsat.studies.records import Records, Runs
from gsat.studies.study import VARIANTS, Cell, Part, Row, Table
from gsat.training.results import summarise

NETWORKS = {"gin": "GIN", "pna": "PNA", "leconv": "LEConv"}
MARKS = {"yes": "", "rebuilt": "°", "different": "†"}
MARK_NOTES = {
    "°": "° the graphs are made again by the paper's rules.",
    "†": "† not the paper's data or split.",
}
FAR = "‡"  # the paper's dagger, which marks other data here
PAPERS_SEEDS, PAPERS_SEEDS_OF = 10, {"ib-subgraph": 5}
OURS = ("gsat", "gsat-star")
# The rules of the paper's captions; tables 4, 6 and 7 state none and have that of table 1.
RULES = {
    "best-baseline": "Underlined: the best baseline. Bold: GSAT whose mean is above that of the "
    f"best baseline; {FAR} by more than two of its standard deviations. Only where all baselines "
    "of a column have runs.",
    "backbone": "Bold: the mean is more than one standard deviation above that of the network by "
    "itself (ERM).",
    "backbone-mean": "Bold: the mean is above that of the network by itself (ERM).",
}


@dataclass(frozen=True)
class Measured:
    """One cell.

    Attributes:
        runs: what was recorded. values: the metric by seed in per cent, empty if undefined for any.
        paper: the paper's figure. papers_seeds: how many seeds that is the mean of, if it is known.
    """

    runs: Runs
    values: Mapping[int, float]
    paper: Cell
    papers_seeds: int | None = PAPERS_SEEDS

    @property
    def ours(self) -> tuple[float, float] | None:
        """Mean and population standard deviation, if there are any runs."""
        return summarise(self.values.values())

    @property
    def spread(self) -> Cell | None:
        """The same with no deviation where there is but one run: no rule may take it for 0."""
        return self.ours if self.ours is None or len(self.values) > 1 else (self.ours[0], None)

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in standard errors of that difference.

        None where there is no such error: fewer than two seeds, no published deviation, or of an
        unknown number of seeds.
        """
        errors = self._squared_errors()
        if self.ours is None or errors is None or sum(errors) == 0:
            return None
        return (self.ours[0] - self.paper[0]) / math.sqrt(sum(errors))

    @property
    def p(self) -> float | None:
        """Of Welch's test that both have one mean (two-sided); None as for :attr:`difference`."""
        errors, difference = self._squared_errors(), self.difference
        if errors is None or difference is None or self.papers_seeds is None:
            return None
        from scipy import stats  # slow to import

        freedom = sum(errors) ** 2 / sum(
            error**2 / (n - 1)
            for error, n in zip(errors, (len(self.values), self.papers_seeds), strict=True)
        )
        return float(2 * stats.t.sf(abs(difference), freedom))

    def _squared_errors(self) -> tuple[float, float] | None:
        """Squares of the standard errors of both means."""
        known = self.ours is not None and len(self.values) > 1
        if not known or self.paper[1] is None or self.papers_seeds is None:
            return None
        assert self.ours is not None
        # The deviations are of the population: s² / n of the sample is σ² / (n − 1).
        return (
            self.ours[1] ** 2 / (len(self.values) - 1),
            self.paper[1] ** 2 / (self.papers_seeds - 1),
        )

    @property
    def mark(self) -> str:
        """Whether the data is the paper's own."""
        matches = [run["matches_paper"] for run in self.runs.done.values()]
        return MARKS[matches[0]] if matches else ""


@dataclass(frozen=True)
class Emphasis:
    """How a figure stands out: ``bold``, ``underline`` or not at all, and a sign behind it."""

    how: str = ""
    sign: str = ""


@dataclass(frozen=True)
class Sheet:
    """A part of a table, measured: cells and what stands out, by row number and data set."""

    part: Part
    cells: Mapping[tuple[int, str], Measured]
    emphasis: Mapping[tuple[int, str], Emphasis] = field(default_factory=dict)


def measure(table: Table, records: Records) -> list[Sheet]:
    """All parts of a table, from recorded runs."""
    sheets = []
    for part in table.parts:
        cells = {
            (number, column): _measured(part, row, column, records)
            for number, row in enumerate(part.rows)
            for column in table.columns
            if column in row.paper
        }
        emphasis = {}
        for column in table.columns:
            ours = [
                cells[number, column].spread if (number, column) in cells else None
                for number in range(len(part.rows))
            ]
            for number, how in enumerate(stand_out(part, ours)):
                emphasis[number, column] = how
        sheets.append(Sheet(part, cells, emphasis))
    return sheets


def stand_out(part: Part, column: Sequence[Cell | None]) -> list[Emphasis]:
    """What stands out in one column by the paper's rule, for each row of the part.

    Args:
        column: mean and standard deviation of each row; None where there is none.
    """
    found = [Emphasis() for _ in part.rows]
    if part.bold == "best-baseline":
        baselines = [i for i, row in enumerate(part.rows) if row.method not in OURS]
        known = [(cell[0], i) for i in baselines if (cell := column[i]) is not None]
        if not known or len(known) < len(baselines):
            return found
        best, place = max(known)
        found[place] = Emphasis("underline")
        for i, row in enumerate(part.rows):
            cell = column[i]
            if row.method in OURS and cell is not None and cell[0] > best:
                far = cell[1] is not None and cell[0] - 2 * cell[1] > best
                found[i] = Emphasis("bold", FAR if far else "")
    elif part.bold:
        by_mean = part.bold == "backbone-mean"
        plain = {
            row.backbone: cell
            for row, cell in zip(part.rows, column, strict=True)
            if row.method == "erm"
        }
        for i, row in enumerate(part.rows):
            cell, alone = column[i], plain.get(row.backbone)
            if row.method == "erm" or cell is None or alone is None:
                continue
            margin = 0.0 if by_mean else cell[1]
            if margin is not None and cell[0] - margin > alone[0]:
                found[i] = Emphasis("bold")
    return found


def common_seeds(sheets: Sequence[Sheet]) -> int:
    """The number of seeds most cells have, of equals the larger; 0 without any runs."""
    counts = Counter(len(c.values) for s in sheets for c in s.cells.values() if c.values)
    return max(counts, key=lambda number: (counts[number], number), default=0)


def row_name(row: Row) -> str:
    """Network and method, as the paper names them."""
    return f"{NETWORKS[row.backbone]} + {METHODS[row.method].title}{VARIANTS[row.variant].title}"


def _measured(part: Part, row: Row, column: str, records: Records) -> Measured:
    runs = records.of(row.experiment(column))
    values = {s: 100 * v for s, v in runs.values(part.metric).items() if v is not None}
    if len(values) < len(runs.done):
        values = {}
    quoted = row.method in part.quoted
    seeds = None if quoted else PAPERS_SEEDS_OF.get(row.method, PAPERS_SEEDS)
    return Measured(runs, values, row.paper[column], seeds)
