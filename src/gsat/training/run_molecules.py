"""Molecules of another table, read and predicted by a trained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from gsat.core.errors import DataError, GSATError, RunError
from gsat.datasets import molecule_tables
from gsat.draw.files import write
from gsat.graphs import GraphStore
from gsat.models import InterpretableModel
from gsat.molecules import featuriser
from gsat.molecules.columns import find_columns
from gsat.molecules.options import TableSettings
from gsat.molecules.parallel import read_many
from gsat.molecules.rejected import write_csv
from gsat.molecules.smiles import SMILES
from gsat.molecules.table import open_table
from gsat.training.prediction_table import spread_names

NOTE = "note"


@dataclass(frozen=True)
class PredictedTable:
    """A table with predictions.

    Attributes:
        columns: Those of the input, then the predictions and a note.
        rows: The cells of each row, in the order of the input.
        unread: How many rows could not be read; they have a note in place of a prediction.
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
        write(path, self.to_csv("\t" if path.suffix == ".tsv" else ",").encode())
        return path


def read_like_training(model: InterpretableModel, path: Path) -> GraphStore:
    """Read a table as the one that a model was trained on; labels are read where it has them."""
    given = _input(model)
    table = given["table"]
    store = molecule_tables.read(
        path,
        TableSettings(
            smiles=table["smiles"],
            label=list(table["labels"]),
            id=table["id"],
            task=table["kind"],
            classes=list(given.get("classes", ())),
            largest_fragment=table["largest_fragment"],
            duplicates="keep",
            labelled=False,
            scaffold=False,
        ),
    )
    names = {name: given[name] for name in ("classes", "labels") if name in given}
    return GraphStore(store.arrays, {"classes": [], **store.meta, **names}, store.index)


def read_smiles(model: InterpretableModel, smiles: Sequence[str]) -> GraphStore:
    """Make graphs of SMILES, with the features that a model was trained on."""
    given = _input(model)
    cut = given["table"]["largest_fragment"]
    store = featuriser.featurise(smiles, largest_fragment=cut)
    store.meta.update({name: given[name] for name in ("classes", "labels") if name in given})
    return store


def with_labels(store: GraphStore) -> GraphStore:
    """The molecules that have a label."""
    labels = store.labels("graph")
    known = labels >= 0 if labels.ndim == 1 else ~np.isnan(labels).all(axis=1)
    if not known.any():
        raise DataError("no molecule of the table has a label that the model knows")
    return store.select(known)


def predict_table(model: InterpretableModel, path: Path, smiles: str = "") -> PredictedTable:
    """Predict the molecules of a table; see :meth:`gsat.Run.predict_table`."""
    given = _input(model)
    table = open_table(path)
    known = given["table"]["smiles"]
    try:
        columns = find_columns(
            table, smiles or (known if table.columns.count(known) == 1 else ""), labelled=False
        )
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    found, parts = read_many(
        table.blocks or table.column(columns.smiles),
        kind=SMILES if table.blocks is None else "mol",
        largest_fragment=given["table"]["largest_fragment"],
    )
    store = featuriser.to_store(parts, {SMILES: found.smiles})
    header, answers = _answers(model, store, given)
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
    model: InterpretableModel, store: GraphStore, given: Mapping[str, Any]
) -> tuple[list[str], list[list[str]]]:
    """The names of the added columns, and what stands in them for each molecule."""
    header, answers, spread = _plain_answers(model, store, given)
    if spread is None:
        return header, answers
    names = [name[2:-1] for name in header if name.startswith("p(")]
    wide = spread.reshape(len(store), -1)
    more = [[f"{value:.6g}" for value in row] for row in wide.tolist()]
    header = [*header, *spread_names(names, wide.shape[1])]
    return header, [[*row, *own] for row, own in zip(answers, more, strict=True)]


def _plain_answers(
    model: InterpretableModel, store: GraphStore, given: Mapping[str, Any]
) -> tuple[list[str], list[list[str]], Tensor | None]:
    """The same without the spread over members, and that spread."""
    predicted, spread = model.predict_with_spread(store)
    task, labels = model.task, given["table"]["labels"]
    probabilities = [[f"{p:.6f}" for p in row] for row in predicted.probabilities.tolist()]
    if task.kind == "regression":
        numbers = predicted.labels.reshape(len(store), -1).tolist()
        answers = [[f"{number:.6g}" for number in row] for row in numbers]
        return _named("prediction", labels if task.classes > 1 else []), answers, spread
    if task.kind == "multilabel":
        header = [*_named("prediction", labels), *(f"p({name})" for name in labels)]
        decided = [[str(value) for value in row] for row in predicted.labels.tolist()]
        return header, [[*a, *p] for a, p in zip(decided, probabilities, strict=True)], spread
    names = given.get("classes") or [str(number) for number in range(task.classes)]
    header = ["prediction", *(f"p({name})" for name in names)]
    chosen = [names[number] for number in predicted.labels.tolist()]
    return header, [[a, *p] for a, p in zip(chosen, probabilities, strict=True)], spread


def _named(what: str, labels: list[str]) -> list[str]:
    return [f"{what}({name})" for name in labels] or [what]


def _free(name: str, taken: set[str]) -> str:
    """The name, or the first of name_2, name_3, … that the table does not have."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(free)
    return free


def _input(model: InterpretableModel) -> Mapping[str, Any]:
    """What the model says about its input; raises unless this version makes the same features."""
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
