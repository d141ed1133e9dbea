"""The options of graphs of your own: what is predicted, and how they are split."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gsat.datasets.source import DatasetOptions
from gsat.molecules.options import TableOptions, TableSettings


class OwnDataOptions(DatasetOptions):
    """Options of graphs at a path or in memory; a run fills in what ``"auto"`` was inferred as."""

    task: Literal["auto", "binary", "multiclass", "multilabel", "regression"] = Field(
        "auto", description="what is predicted; 'auto' infers it from the labels"
    )
    level: Literal["auto", "graph", "node"] = Field("auto", description="what is labelled")
    metric: Literal["auto", "accuracy", "roc_auc", "r2", "mae", "rmse"] = Field(
        "auto", description="the metric that selects the best epoch"
    )
    classes: list[str | int] = Field(
        [], description="names of the classes, in the order of the outputs"
    )
    split: Literal["auto", "given", "random", "stratified", "scaffold", "kfold"] = Field(
        "auto",
        description="'auto': as given by the graphs, else stratified by class, else random",
    )
    train: float = Field(0.8, gt=0, lt=1, description="share of the training set")
    valid: float = Field(0.1, gt=0, lt=1, description="share of the validation set")
    test: float = Field(0.1, gt=0, lt=1, description="share of the test set")
    folds: int = Field(10, le=1000, ge=3, description="number of folds of split='kfold'")
    fold: int = Field(
        0, ge=0, description="the fold to test on with split='kfold'; the next one validates"
    )
    content: str = Field("", description="the hash the graphs must have; a run fills it in")


class MoleculeOptions(OwnDataOptions, TableOptions):
    """Options of a table of molecules; a run fills in what was found."""

    split: str = Field(  # type: ignore[assignment]
        "auto",
        pattern=r"^(auto|given|random|stratified|scaffold|kfold|column:.+)$",
        description="'scaffold', 'random', 'stratified', 'kfold', or 'column:NAME' for a column of "
        "train, valid and test; 'auto': by scaffold, or random where that leaves a class out",
    )
    balance: bool = Field(
        False, description="whether rare classes weigh as much in the loss as frequent ones"
    )

    def table_settings(self) -> TableSettings:
        """The settings of the table reader."""
        return TableSettings(
            **{name: getattr(self, name) for name in (*TableOptions.model_fields, "task")},
            classes=[str(name) for name in self.classes],
            split=self.split.removeprefix("column:") if self.split.startswith("column:") else "",
        )
