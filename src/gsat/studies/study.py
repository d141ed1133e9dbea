"""What a study is: experiments, each run with several seeds, and how the paper shows them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from gsat.errors import GSATError
from gsat.training.recipe import Recipe, make_recipe

# Mean and standard deviation in per cent; the deviation is None where none was published.
Cell = tuple[float, float | None]
PREDICTION = "prediction"  # the task's own metric: accuracy, or ROC AUC


@dataclass(frozen=True)
class Variant:
    """An ablation: how the paper prints it behind the method's name, and settings of the method."""

    title: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


VARIANTS: Mapping[str, Variant] = {
    "": Variant(),
    "beta0": Variant("-β=0", {"info_coef": 0.0}),
    "nostoch": Variant("-NoStoch", {"sampling": "none"}),
    "nostoch-beta0": Variant("-NoStoch-β=0", {"sampling": "none", "info_coef": 0.0}),
}
# What makes a data set the paper's own, where it is not so by itself.
_PAPERS_OWN: Mapping[str, Mapping[str, Any]] = {"ba2motifs": {"data.source": "published"}}


@dataclass(frozen=True)
class Experiment:
    """What is run with every seed: a method on a network and a data set, by the shipped recipe with
    some settings changed."""

    dataset: str
    method: str
    backbone: str = "gin"
    settings: tuple[tuple[str, Any], ...] = ()

    def recipe(self, seed: int) -> Recipe:
        """The recipe of one seed."""
        own = {k: list(v) if isinstance(v, tuple) else v for k, v in self.settings}
        return make_recipe(
            self.dataset,
            backbone=self.backbone,
            method=self.method,
            seed=seed,
            settings={**_PAPERS_OWN.get(self.dataset, {}), **own},
        )

    @cached_property
    def hash(self) -> str:
        """The recipe's name without its seed: how recorded runs are found."""
        return self.recipe(0).hash()

    def __str__(self) -> str:
        changed = "".join(f" {key}={value}" for key, value in self.settings)
        return f"{self.dataset} {self.backbone} {self.method}{changed}"


@dataclass(frozen=True)
class Row:
    """A line of a table: a method on a network, with the paper's cells by data set."""

    method: str
    backbone: str
    variant: str = ""
    paper: Mapping[str, Cell] = field(default_factory=dict)

    def experiment(self, dataset: str) -> Experiment:
        """What is run for one of its cells."""
        return Experiment(
            dataset, self.method, self.backbone, tuple(VARIANTS[self.variant].settings.items())
        )


@dataclass(frozen=True)
class Part:
    """Rows that are measured alike.

    Attributes:
        metric: of the test data; ``prediction`` stands for the task's own. bold: the paper's rule
            for what stands out, by name (see ``studies/cells.py``).
        quoted: methods whose figures the paper takes from others: of how many seeds is not known.
    """

    metric: str
    rows: tuple[Row, ...]
    bold: str = ""
    quoted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table of the paper: data sets beside each other, methods below."""

    name: str
    title: str
    columns: tuple[str, ...]
    parts: tuple[Part, ...]
    note: str = ""

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """All that has to be run, each once."""
        return tuple(dict.fromkeys(experiment for *_, experiment in self.cells()))

    needs: ClassVar = "results"

    def restricted(self, hashes: Collection[str]) -> Table:
        """The table with no other cells than those of these recipes."""
        parts = []
        for part in self.parts:
            rows = [
                replace(
                    row,
                    paper={d: c for d, c in row.paper.items() if row.experiment(d).hash in hashes},
                )
                for row in part.rows
            ]
            parts.append(replace(part, rows=tuple(row for row in rows if row.paper)))
        columns = [c for c in self.columns if any(c in r.paper for p in parts for r in p.rows)]
        kept = tuple(part for part in parts if part.rows)
        return replace(self, columns=tuple(columns), parts=kept)

    def cells(self) -> Iterator[tuple[Part, Row, str, Experiment]]:
        """Every cell the paper fills, row by row: part, row, data set, and what is run for it."""
        for part in self.parts:
            for row in part.rows:
                for column in self.columns:
                    if column in row.paper:
                        yield part, row, column, row.experiment(column)


@dataclass(frozen=True)
class Figure:
    """A figure of the paper; ``studies/figures.py`` draws it by its name.

    Attributes:
        needs: what it is drawn from: recorded ``results``, their ``curves`` over the epochs, or the
            trained ``models`` of seed 0.
    """

    name: str
    title: str
    experiments: tuple[Experiment, ...]
    needs: Literal["results", "curves", "models"] = "results"


Study = Table | Figure


def parse_rows(columns: str, lines: str) -> tuple[Row, ...]:
    """Rows from lines of ``method[/variant] backbone mean±std …``, a number for each column;
    ``-`` where the paper has none."""
    rows = []
    for line in lines.strip().splitlines():
        name, backbone, *values = line.split()
        method, _, variant = name.partition("/")
        if variant not in VARIANTS:
            raise GSATError(f"there is no variant '{variant}': there are {', '.join(VARIANTS)}")
        cells = {
            column: _cell(value)
            for column, value in zip(columns.split(), values, strict=True)
            if value != "-"
        }
        rows.append(Row(method, backbone, variant, cells))
    return tuple(rows)


def _cell(text: str) -> Cell:
    mean, _, std = text.partition("±")
    return float(mean), float(std) if std else None
