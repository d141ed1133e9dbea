"""A study as a TOML file: which methods to compare on which data sets, and published numbers.

The studies of the paper's tables and figures are in ``gsat/studies``; docs/studies.md explains how
to write one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt

from gsat.core.errors import GSATError, shown
from gsat.core.files import read_toml
from gsat.core.parsing import ParseError, check_model, parse_toml
from gsat.core.registry import BACKBONES, METHODS, load_file
from gsat.datasets.registry import find_source, is_own_data, is_path
from gsat.training.recipe import Recipe, complete_recipe, load_data, make_recipe

# Mean and standard deviation, in per cent for scores; the deviation is None if unknown.
MeanStd = tuple[float, float | None]
PREDICTION = "prediction"  # stands for the metric of the task: accuracy, ROC AUC or R²
PAPER = "paper"  # ``published_by`` of the tables of the GSAT paper
Need = Literal["results", "curves", "models"]
_NEEDS: Mapping[str, Need] = {
    "bars": "results", "curves": "curves", "sweep": "results", "examples": "models"
}  # fmt: skip
_OLD_NAMES = {"readings": "interpretations"}


@dataclass(frozen=True)
class Experiment:
    """A shipped recipe with some settings changed, to be trained with several seeds."""

    dataset: str
    method: str
    backbone: str = "gin"
    settings: tuple[tuple[str, Any], ...] = ()
    variant: str = field(default="plain", compare=False)  # its name in the study, for filters

    def recipe(self, seed: int) -> Recipe:
        """Make the recipe of one seed."""
        recipe = make_recipe(
            self.dataset,
            backbone=self.backbone,
            method=self.method,
            seed=seed,
            settings={k: list(v) if isinstance(v, tuple) else v for k, v in self.settings},
            look_for_files=False,  # a study means the same on every machine
        )
        # Part of the recipe is inferred from the user's own data.
        return complete_recipe(recipe, load_data(recipe)) if is_own_data(self.dataset) else recipe

    @property
    def hash(self) -> str:
        """Hash of the recipe without its seed, which identifies recorded runs."""
        return _recipe_hash(self)

    def __str__(self) -> str:
        changed = "".join(f" {key}={value}" for key, value in self.settings)
        return f"{self.dataset} {self.backbone} {self.method}{changed}"


@cache
def _recipe_hash(experiment: Experiment) -> str:
    return experiment.recipe(0).hash()


def _checked(check: Callable[[str], object]) -> AfterValidator:
    """Validate a name by a function that raises an error for an unknown one."""

    def validate(name: str) -> str:
        try:
            check(name)
        except GSATError as error:
            raise ValueError(str(error)) from None
        return name

    return AfterValidator(validate)


def _check_dataset(name: str) -> None:
    if not is_path(name):
        find_source(name)


def _check_published(text: str) -> None:
    if text not in ("", "-") and not re.fullmatch(r"-?[\d.]+(±[\d.]+)?", text):
        raise GSATError('write a published number as "98.74±0.55" or "98.74", "-" for no cell')


DatasetName = Annotated[str, _checked(_check_dataset)]
MethodName = Annotated[str, _checked(METHODS.check)]
BackboneName = Annotated[str, _checked(BACKBONES.check)]
Published = Annotated[str, _checked(_check_published)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Variant(_Model):
    """Named settings that a row may use, such as those of an ablation."""

    title: str = ""  # printed behind the name of the method
    settings: dict[str, Any] = {}


class Override(_Model):
    """Settings of all experiments with this data set, method, backbone and variant."""

    dataset: DatasetName | None = None
    method: MethodName | None = None
    backbone: BackboneName | None = None
    variant: str | None = None  # "" for rows without one
    settings: dict[str, Any]


class Row(_Model):
    """A row of a table: a method on a backbone."""

    method: MethodName
    backbone: BackboneName = "gin"
    variant: str = ""
    title: str = ""  # in place of backbone, method and variant
    published: list[Published] = []  # for each data set "mean±std", "" (none) or "-" (no cell)
    published_seeds: PositiveInt | None = None  # if different from the study's
    trivial: bool = False  # a trivial baseline: printed, but not counted as a baseline


class Table(_Model):
    """Rows that are measured by the same metric."""

    metric: str = PREDICTION
    bold: Literal["", "best", "best-baseline", "backbone", "backbone-mean"] = ""
    rows: list[Row] = Field(min_length=1)


class Sweep(_Model):
    """Values of one setting, drawn along an axis."""

    setting: str
    values: list[float] = Field(min_length=1)
    title: str = ""
    settings: dict[str, Any] = {}  # the same at all points
    scale: Literal["linear", "log"] = "linear"


class ExamplePage(_Model):
    """How many graphs of a data set are drawn as examples, and their class names."""

    graphs: PositiveInt = 6
    columns: PositiveInt | None = None
    most_nodes: PositiveInt | None = None
    classes: list[str] | None = None


class Figure(_Model):
    """A figure of the study's data sets."""

    # Bars of the study's tables; curves over epochs; metrics over a setting; explained graphs.
    kind: Literal["bars", "curves", "sweep", "examples"]
    methods: list[MethodName] = []
    backbone: BackboneName = "gin"
    metrics: list[str] = ["explanation_auc"]
    columns: PositiveInt = 4
    sweep: list[Sweep] = []
    pages: dict[DatasetName, ExamplePage] = {}


@dataclass(frozen=True)
class StudyCell:
    """A cell of a table: an experiment, and its published number if there is one."""

    table: Table
    row: Row
    dataset: str
    published: MeanStd | None
    published_seeds: int | None  # None if unknown
    experiment: Experiment


class Study(_Model):
    """Tables and a figure of the same data sets."""

    name: str = ""  # as users type it
    title: str
    note: str = ""  # printed below the tables
    datasets: list[DatasetName] = Field(min_length=1)
    titles: dict[str, str] = {}  # of data sets
    seeds: PositiveInt = 10
    ours: list[str] = ["gsat", "gsat-star"]  # methods compared with all others, the first foremost
    published_by: str = "published"  # printed beside published numbers
    published_seeds: PositiveInt | None = None
    quoted: list[str] = []  # methods with numbers from other publications, of unknown seeds
    settings: dict[str, Any] = {}  # of all experiments
    override: list[Override] = []
    variants: dict[str, Variant] = {}
    table: list[Table] = []
    figure: Figure | None = None

    @property
    def in_paper(self) -> bool:
        """Whether the published numbers are those of the GSAT paper."""
        return self.published_by == PAPER

    def title_of(self, dataset: str) -> str:
        """The title of a data set as a column: by default its name, or that of its file."""
        name = Path(dataset).name
        return self.titles.get(name, name)

    @cached_property
    def cells(self) -> tuple[StudyCell, ...]:
        """The cells of all tables, row by row."""
        return tuple(
            cell
            for table in self.table
            for row in table.rows
            for cell in self.row_cells(table, row)
        )

    def row_cells(self, table: Table, row: Row) -> Iterator[StudyCell]:
        """Iterate over the cells of a row."""
        numbers = row.published or [""] * len(self.datasets)
        if len(numbers) != len(self.datasets):
            raise GSATError(
                f"row {row.method} has {len(numbers)} published numbers, but {len(self.datasets)} "
                'data sets; write "-" where there is no cell'
            )
        seeds = None if row.method in self.quoted else row.published_seeds or self.published_seeds
        for dataset, number in zip(self.datasets, numbers, strict=True):
            if number != "-":
                mean, _, std = number.partition("±")
                published = (float(mean), float(std) if std else None) if mean else None
                made = self.experiment(dataset, row.method, row.backbone, row.variant)
                yield StudyCell(table, row, dataset, published, seeds, made)

    def experiment(
        self,
        dataset: str,
        method: str,
        backbone: str = "gin",
        variant: str = "",
        settings: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """Make an experiment with the settings of the study, then those of a variant, then own."""
        if variant and variant not in self.variants:
            known = ", ".join(self.variants) or "none"
            raise GSATError(f"there is no variant '{shown(variant)}' in this study: {known}")
        every = dict(self.settings)
        for one in self.override:
            wanted = (
                one.dataset or dataset,
                one.method or method,
                one.backbone or backbone,
                variant if one.variant is None else one.variant,
            )
            if wanted == (dataset, method, backbone, variant):
                every |= one.settings
        every |= self.variants[variant].settings if variant else {}
        every |= settings or {}
        name = variant or ", ".join(f"{k}={v}" for k, v in (settings or {}).items()) or "plain"
        pairs = ((k, tuple(v) if isinstance(v, list) else v) for k, v in every.items())
        return Experiment(dataset, method, backbone, tuple(pairs), name)

    def point(
        self, dataset: str, method: str, sweep: Sweep | None = None, value: float = 0.0
    ) -> Experiment:
        """An experiment of the figure, at a value of a sweep if it has any."""
        assert self.figure is not None
        own = {**sweep.settings, sweep.setting: value} if sweep else {}
        return self.experiment(dataset, method, self.figure.backbone, settings=own)

    @cached_property
    def needs(self) -> tuple[tuple[Experiment, Need], ...]:
        """Every experiment to run, and the part of its runs that is used."""
        used: list[tuple[Experiment, Need]] = [(cell.experiment, "results") for cell in self.cells]
        if self.figure is not None:
            need = _NEEDS[self.figure.kind]
            sweeps: list[Sweep | None] = [*self.figure.sweep] or [None]
            used += [
                (self.point(dataset, method, sweep, value), need)
                for dataset in self.datasets
                for method in self.figure.methods
                for sweep in sweeps
                for value in (sweep.values if sweep else [0.0])
            ]
        return tuple(used)

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """All experiments to run, each once."""
        return tuple(dict.fromkeys(experiment for experiment, _ in self.needs))


def find_study(name: str) -> Study:
    """Find a shipped study by its name, or read a user's TOML file."""
    if name.endswith(".toml"):
        return read_study(Path(name))
    names = study_names()
    name = _OLD_NAMES.get(name, name)
    if name not in names:
        raise GSATError(
            f"there is no study '{shown(name, 80)}': available: {', '.join(names)}, or the path of "
            "a .toml file"
        )
    return _shipped(name)


@cache
def study_names() -> tuple[str, ...]:
    """Names of the shipped studies, the tables first."""
    names = (entry.name for entry in (files("gsat") / "studies").iterdir())
    stems = [name.removesuffix(".toml") for name in names if name.endswith(".toml")]
    return tuple(sorted(stems, key=lambda name: (not name.startswith("table"), name)))


def shipped_studies() -> list[Study]:
    """All studies of this package."""
    return [_shipped(name) for name in study_names()]


@cache
def _shipped(name: str) -> Study:
    text = (files("gsat") / "studies" / f"{name}.toml").read_text(encoding="utf-8")
    return check_model(Study, {**parse_toml(text), "name": name})


def read_study(path: Path) -> Study:
    """Read a study of a user; its files are relative to it, and ``file.py:Class`` is imported."""
    values = read_toml(path, error=GSATError, links=True)
    try:
        study = check_model(Study, {"name": path.stem, **_with_files(values, path.parent)})
        for experiment in study.experiments:
            _ = experiment.hash  # checks the settings
    except (ParseError, GSATError) as error:
        raise GSATError(f"{path}: {error}") from None
    if not study.experiments:
        raise GSATError(f"{path} is not a study: it needs a [[table]] with rows, or a [figure]")
    return study


_METHODS = ("method", "methods", "ours", "quoted")
_DATASETS = ("dataset", "datasets")


def _with_files(value: Any, folder: Path, key: str = "") -> Any:
    """Register the classes of files and complete relative paths."""
    if isinstance(value, Mapping):
        return {name: _with_files(inner, folder, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_files(inner, folder, key) for inner in value]
    if isinstance(value, str) and key in (*_METHODS, *_DATASETS, "backbone"):
        if ".py:" in value:
            return load_file(str(folder / value))
        if key in _DATASETS and is_path(value):
            return str((folder / value).absolute())
    return value
