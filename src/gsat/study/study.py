"""The data types of a study: experiments, and the table or figure of the paper they belong to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Literal

from gsat.core.errors import GSATError
from gsat.methods import METHODS
from gsat.training.recipe import Recipe, make_recipe

# Mean and standard deviation in per cent; the deviation is None where none is known.
MeanStd = tuple[float, float | None]
PREDICTION = "prediction"  # stands for the metric of the task: accuracy, ROC AUC or R²


@dataclass(frozen=True)
class Variant:
    """An ablation of a method.

    Attributes:
        title: What the paper prints behind the method's name.
        settings: Settings of the method that differ from its recipe, by name.
    """

    title: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


# Seeds 0 to 9 on one split are the members of the ensembles with seeds 0 and 1.
_ONE_SPLIT = {"data.split_seed": 0, "snapshots": 10}
_REFINED = {**_ONE_SPLIT, "refine": 1}
_RECALIBRATED = {**_ONE_SPLIT, "batch_norm": "recalibrated"}
VARIANTS: Mapping[str, Variant] = {
    "": Variant(),
    "beta0": Variant("-β=0", {"info_coef": 0.0}),
    "nostoch": Variant("-NoStoch", {"sampling": "none"}),
    "nostoch-beta0": Variant("-NoStoch-β=0", {"sampling": "none", "info_coef": 0.0}),
    "lin": Variant("-lin", {"variant": "lin"}),
    "sam": Variant("-sam", {"variant": "sam"}),
    "snapshots": Variant(", snapshots", _ONE_SPLIT),
    "ensemble": Variant(", ensemble of 5", {**_ONE_SPLIT, "members": 5}),
    "recalibrated": Variant(", batch norm recalibrated, snapshots", _RECALIBRATED),
    "recalibrated-ensemble": Variant(
        ", batch norm recalibrated, ensemble of 5", {**_RECALIBRATED, "members": 5}
    ),
    "refined": Variant(", snapshots, second look", _REFINED),
    "both-ways": Variant(
        ", edges both ways, snapshots, second look", {**_REFINED, "data.undirected": True}
    ),
    "both-ways-ensemble": Variant(
        ", edges both ways, ensemble of 5, second look",
        {**_REFINED, "data.undirected": True, "members": 5},
    ),
    "info-on-p": Variant(", information loss of p", {"info_on": "p"}),
    "same-trees": Variant(", trees as in DIR's generator", {"data.tree_heights": "same"}),
    "same-trees-train": Variant(
        ", DIR's trees in the training set alone", {"data.tree_heights": "same-train"}
    ),
    "same-trees-valid": Variant(
        ", DIR's trees in the validation set alone", {"data.tree_heights": "same-valid"}
    ),
    "undirected": Variant(", edges both ways", {"data.undirected": True}),
    "last-epoch": Variant(", the last epoch", {"selection": "last"}),
    "r-final-0.5": Variant(", r to 0.5", {"r_final": 0.5}),
    "r-final-0.7": Variant(", r to 0.7", {"r_final": 0.7}),
    "r-interval-10": Variant(", r falls every 10 epochs", {"r_interval": 10}),
    "draw-1": Variant(", graphs drawn again, seed 1", {"data.data_seed": 1}),
    "draw-2": Variant(", graphs drawn again, seed 2", {"data.data_seed": 2}),
    # For methods whose scores do not depend on what the network has learnt.
    "one-epoch": Variant(settings={"epochs": 1}),
}
# Settings that select the paper's own graphs, where the default of the data set is another.
_PAPER_SETTINGS: Mapping[str, Mapping[str, Any]] = {"ba2motifs": {"data.source": "published"}}
# What the authors of GMT set for single data sets, by backbone and data set; their recipes hold the
# rest.
_GMT_SETTINGS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("gin", "spmotif-0.7"): {"samples": 200, "info_coef": 0.1, "r_interval": 20},
    ("gin", "spmotif-0.9"): {"samples": 200, "info_coef": 0.1},
    ("pna", "spmotif-0.7"): {"samples": 100, "info_coef": 0.1, "r_final": 0.8},
}


@dataclass(frozen=True)
class Experiment:
    """What is trained with every seed: a shipped recipe, with some settings changed.

    Attributes:
        dataset: Name of the data set.
        method: Name of the method.
        backbone: Name of the backbone. (default: ``"gin"``)
        settings: Pairs of a setting's name and its value. (default: none)
    """

    dataset: str
    method: str
    backbone: str = "gin"
    settings: tuple[tuple[str, Any], ...] = ()

    def recipe(self, seed: int) -> Recipe:
        """Make the recipe of one seed."""
        own = {k: list(v) if isinstance(v, tuple) else v for k, v in self.settings}
        place = (self.backbone, self.dataset)
        published = _GMT_SETTINGS.get(place, {}) if self.method == "gmt" else {}
        return make_recipe(
            self.dataset,
            backbone=self.backbone,
            method=self.method,
            seed=seed,
            settings={**_PAPER_SETTINGS.get(self.dataset, {}), **published, **own},
        )

    @property
    def hash(self) -> str:
        """Hash of the recipe without its seed, by which recorded runs are found."""
        return _recipe_hash(self)

    @property
    def variant(self) -> str:
        """The key of ``VARIANTS`` with these settings, ``"plain"`` for none, else ``"other"``."""
        found = (name for name, one in VARIANTS.items() if one.settings == dict(self.settings))
        return next(found, "other") or "plain"

    def __str__(self) -> str:
        changed = "".join(f" {key}={value}" for key, value in self.settings)
        return f"{self.dataset} {self.backbone} {self.method}{changed}"


@cache  # rows make their experiments again and again
def _recipe_hash(experiment: Experiment) -> str:
    return experiment.recipe(0).hash()


@dataclass(frozen=True)
class TableRow:
    """A row of a table: a method on a backbone.

    Attributes:
        method: Name of the method.
        backbone: Name of the backbone.
        variant: A key of ``VARIANTS``. (default: the method itself)
        paper: The paper's numbers by data set; a data set without one has no cell in this row.
            (default: none)
    """

    method: str
    backbone: str
    variant: str = ""
    paper: Mapping[str, MeanStd] = field(default_factory=dict)

    def experiment(self, dataset: str) -> Experiment:
        """The experiment of one cell."""
        return Experiment(
            dataset, self.method, self.backbone, tuple(VARIANTS[self.variant].settings.items())
        )

    @property
    def is_registered(self) -> bool:
        """Whether the method is installed; without it, the row has no recipes."""
        return self.method in METHODS


@dataclass(frozen=True)
class TablePart:
    """Rows of a table that are measured by the same metric.

    Attributes:
        metric: A metric of the test data; ``PREDICTION`` stands for the task's own.
        rows: The paper's rows.
        bold: Name of the paper's rule for what is set in bold (``studies/cells.py``).
            (default: no rule)
        quoted: Methods whose numbers the paper takes from other publications, so that their
            number of seeds is unknown. (default: none)
        floors: Rows that the paper does not have: trivial methods that any explanation should
            beat. They are no baselines, and not among the paper's cells. (default: none)
    """

    metric: str
    rows: tuple[TableRow, ...]
    bold: str = ""
    quoted: tuple[str, ...] = ()
    floors: tuple[TableRow, ...] = ()


@dataclass(frozen=True)
class TableStudy:
    """A table of the paper, with data sets as columns and methods as rows.

    Attributes:
        name: As users type it.
        title: As it is printed.
        columns: Names of the data sets.
        parts: Groups of rows, one below the other.
        note: A remark below the table. (default: none)
        later: Whether it is no table of the paper: its cells do not count as the paper's.
            (default: ``False``)
        needs: What it is made from: recorded results.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    parts: tuple[TablePart, ...]
    note: str = ""
    later: bool = False
    needs: ClassVar = "results"

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """Everything that has to be run, each experiment once; the floors last."""
        paper = (experiment for *_, experiment in self.cells())
        floors = (experiment for *_, experiment in self.floor_cells())
        return tuple(dict.fromkeys((*paper, *floors)))

    def restricted(self, hashes: Collection[str]) -> TableStudy:
        """The table reduced to the cells of some recipes."""
        floors = [
            (row, column)
            for _, row, column, experiment in self.floor_cells()
            if experiment.hash in hashes
        ]
        parts = []
        for part in self.parts:
            rows = [
                replace(
                    row,
                    paper={d: c for d, c in row.paper.items() if row.experiment(d).hash in hashes},
                )
                for row in part.rows
            ]
            parts.append(
                replace(
                    part,
                    rows=tuple(row for row in rows if row.paper),
                    floors=tuple(f for f in part.floors if any(f is row for row, _ in floors)),
                )
            )
        columns = [
            c
            for c in self.columns
            if any(c in r.paper for p in parts for r in p.rows) or any(c == d for _, d in floors)
        ]
        kept = tuple(part for part in parts if part.rows or part.floors)
        return replace(self, columns=tuple(columns), parts=kept)

    def cells(self) -> Iterator[tuple[TablePart, TableRow, str, Experiment]]:
        """Iterate over the paper's cells, row by row."""
        for part in self.parts:
            for row in part.rows:
                for column in self.columns:
                    if column in row.paper:
                        yield part, row, column, row.experiment(column)

    def floor_cells(self) -> Iterator[tuple[TablePart, TableRow, str, Experiment]]:
        """Iterate over the cells of the floors whose methods are registered, as :meth:`cells`."""
        for part in self.parts:
            for row in part.floors:
                if row.is_registered:
                    for column in self.columns:
                        yield part, row, column, row.experiment(column)


@dataclass(frozen=True)
class FigureStudy:
    """A figure of the paper; ``studies/figures.py`` draws it by its name.

    Attributes:
        name: As users type it.
        title: As it is printed.
        experiments: Everything that has to be run.
        needs: What it is drawn from: recorded ``results``, their ``curves`` over the epochs, or the
            trained ``models`` of seed 0. (default: ``"results"``)
    """

    name: str
    title: str
    experiments: tuple[Experiment, ...]
    needs: Literal["results", "curves", "models"] = "results"


Study = TableStudy | FigureStudy


def parse_rows(columns: str, lines: str) -> tuple[TableRow, ...]:
    """Read rows of a table from text."""
    rows = []
    for line in lines.strip().splitlines():
        name, backbone, *values = line.split()
        method, _, variant = name.partition("/")
        if variant not in VARIANTS:
            raise GSATError(f"there is no variant '{variant}': available: {', '.join(VARIANTS)}")
        cells = {
            column: _mean_std(value)
            for column, value in zip(columns.split(), values, strict=True)
            if value != "-"
        }
        rows.append(TableRow(method, backbone, variant, cells))
    return tuple(rows)


def _mean_std(text: str) -> MeanStd:
    mean, _, std = text.partition("±")
    return float(mean), float(std) if std else None
