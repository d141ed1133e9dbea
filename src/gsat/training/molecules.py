"""Molecules for a model that was trained on a table: read in the same way, predicted by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gsat.core.errors import DataError, GSATError, RunError
from gsat.core.writing import write_output
from gsat.datasets import molecule_tables
from gsat.graphs import GraphStore
from gsat.models import InterpretableModel
from gsat.molecules import featuriser
from gsat.molecules.columns import find_columns
from gsat.molecules.options import TableSettings
from gsat.molecules.parallel import read_many
from gsat.molecules.rejected import write_csv
from gsat.molecules.smiles import SMILES
from gsat.molecules.table import open_table
from gsat.training.prediction_table import PredictionTable

NOTE = "note"


@dataclass(frozen=True)
class PredictedTable:
    """A table with predictions.

    Attributes:
        columns: Those of the input, then the predictions and a note.
        rows: The cells of each row, in the order of the input.
        unread: Number of rows that could not be read; a note says why.
    """

    columns: list[str]
    rows: list[list[str]]
    unread: int

    def __len__(self) -> int:
        return len(self.rows)

    def to_csv(self, delimiter: str = ",") -> str:
        """Write the table as text; a cell that a spreadsheet would run as a formula is quoted."""
        return write_csv(self.columns, self.rows, delimiter)

    def save(self, path: str | Path) -> Path:
        """Write the table."""
        path = Path(path)
        if path.suffix not in (".csv", ".tsv"):
            raise GSATError(f"predictions are written as .csv or .tsv, not to {path.name}")
        write_output(path, self.to_csv("\t" if path.suffix == ".tsv" else ",").encode())
        return path


def read_like_training(model: InterpretableModel, path: Path) -> GraphStore:
    """Read a table as the one that a model was trained on; labels are read where it has them."""
    described = input_description(model)
    table = described["table"]
    store = molecule_tables.read(
        path,
        TableSettings(
            smiles=table["smiles"],
            label=list(table["labels"]),
            id=table["id"],
            task=table["kind"],
            classes=list(described.get("classes", ())),
            largest_fragment=table["largest_fragment"],
            duplicates="keep",
            labelled=False,
            scaffold=False,
        ),
    )
    names = {name: described[name] for name in ("classes", "labels") if name in described}
    return GraphStore(store.arrays, {"classes": [], **store.meta, **names}, store.index)


def with_names(store: GraphStore, described: Mapping[str, Any]) -> GraphStore:
    """Give the molecules of a store the names of classes and labels of a model."""
    store.meta.update(
        {name: described[name] for name in ("classes", "labels") if name in described}
    )
    return store


def read_smiles(model: InterpretableModel, smiles: Sequence[str]) -> GraphStore:
    """Make graphs of SMILES, with the features that a model was trained on."""
    described = input_description(model)
    cut = described["table"]["largest_fragment"]
    return with_names(featuriser.featurise(smiles, largest_fragment=cut), described)


def with_labels(store: GraphStore) -> GraphStore:
    """The molecules that have a label."""
    labels = store.labels("graph")
    labelled = labels >= 0 if labels.ndim == 1 else ~np.isnan(labels).all(axis=1)
    if not labelled.any():
        raise DataError("no molecule of the table has a label that the model knows")
    return store.select(labelled)


def readable_names(names: list[str], model: InterpretableModel) -> list[str]:
    """Name numbers by their columns, and classes that are mere numbers, too: ``p_np = 1``."""
    columns = (model.input or {}).get("table", {}).get("labels", [])
    if model.task.kind == "regression":
        return list(columns) if len(columns) == len(names) else names
    if len(columns) != 1 or not all(name.isdigit() for name in names):
        return names
    return [f"{columns[0]} = {name}" for name in names]


def predict_table(model: InterpretableModel, path: Path, smiles: str = "") -> PredictedTable:
    """Predict the molecules of a table; see :meth:`gsat.Run.predict_table`."""
    described = input_description(model)
    table = open_table(path)
    trained_on = described["table"]["smiles"]
    if not smiles and table.columns.count(trained_on) == 1:
        smiles = trained_on
    try:
        columns = find_columns(table, smiles, labelled=False)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    found, parts = read_many(
        table.blocks or table.column(columns.smiles),
        kind=SMILES if table.blocks is None else "mol",
        largest_fragment=described["table"]["largest_fragment"],
    )
    store = featuriser.to_store(parts, {SMILES: found.smiles})
    header, answers = _answers(model, store, described)
    empty = [""] * len(header)
    cells = {line: [*row, *empty, ""] for line, row in zip(table.lines, table.rows, strict=True)}
    for row, answer in zip(found.rows, answers, strict=True):
        cells[table.lines[row]][len(table.columns) :] = [*answer, ""]
    if table.blocks is not None:
        for row, text in zip(found.rows, found.smiles, strict=True):
            cells[table.lines[row]][0] = text
    for row, reason in found.problems:
        cells[table.lines[row]][-1] = f"not predicted: {reason}"
    for line, reason, row_cells in table.problems:
        kept, more = row_cells[: len(table.columns)], row_cells[len(table.columns) :]
        cells[line] = [*kept, *empty, f"not predicted: {reason}, beyond it {', '.join(more)}"]
    taken = set(table.columns)
    return PredictedTable(
        [*table.columns, *(_free(name, taken) for name in (*header, NOTE))],
        [cells[line] for line in sorted(cells)],
        len(found.problems) + len(table.problems),
    )


def _answers(
    model: InterpretableModel, store: GraphStore, described: Mapping[str, Any]
) -> tuple[list[str], list[list[str]]]:
    """The names of the added columns, and their cells for each molecule."""
    predicted, spread = model.predict_with_spread(store)
    several = model.task.kind in ("multilabel", "regression")
    names = described["table"]["labels"] if several else described.get("classes")
    rows = PredictionTable(
        *predicted,
        level="graph",
        graph=np.arange(len(store)),
        node=None,
        class_names=names or None,
        spread=spread,
    ).rows()
    header = next(rows)[1:]  # without the number of the graph
    answers = [row[1:] for row in rows]
    if names and not several:  # classes by name
        answers = [[names[int(number)], *rest] for number, *rest in answers]
    return header, answers


def _free(name: str, taken: set[str]) -> str:
    """The name, or the first of name_2, name_3, … that the table does not have."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(free)
    return free


def input_description(model: InterpretableModel) -> Mapping[str, Any]:
    """The model's description of its input; raises if its features are of another version."""
    if model.input is None or "table" not in model.input:
        raise RunError(
            "this model was not trained on a table of molecules, so it can't read one; train it "
            "with: gsat train molecules.csv"
        )
    needed, here = model.input["features"], featuriser.description()
    if needed != here:
        raise RunError(
            f"the model needs molecule features of version {needed.get('version')}, this gsat "
            f"makes version {here['version']}; install the version it was trained with"
        )
    return model.input
