"""Predictions with the numbers of their graphs or nodes and the names of their classes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

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

NOTE = "note"


@dataclass(frozen=True)
class PredictionTable:
    """Predictions for M graphs, or for M nodes of a node-level task, and where they belong.

    Attributes:
        logits: Outputs of the model, ``[M, L]``.
        probabilities: One per class or label, ``[M, C]``; ``[M, 0]`` in regression.
        labels: The predicted class ``[M]``, labels ``[M, T]`` or numbers ``[M]``.
        level: Whether these are of graphs or of nodes.
        graph: The number of the graph of each prediction, within the split, ``[M]``.
        node: The number of the node of each prediction, ``[M]``; None at graph level.
        class_names: Names of the classes, of the labels or of several numbers; None where they have
            no names.
        spread: Standard deviation of the probabilities, ``[M, C]``, or of the numbers in a
            regression, over the members of an ensemble; None for a single model.
            (default: ``None``)
    """

    logits: Tensor
    probabilities: Tensor
    labels: Tensor
    level: Literal["graph", "node"]
    graph: NDArray[np.int64]
    node: NDArray[np.int64] | None
    class_names: Sequence[str] | None
    spread: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        classes = self.probabilities.shape[1]
        return f"PredictionTable({len(self)} {self.level}s" + (
            f", {classes} probabilities each)" if classes else ")"
        )

    def rows(self) -> Iterator[list[str]]:
        """The header and the lines of a table: place, prediction, probabilities."""
        labels = self.labels if self.labels.ndim > 1 else self.labels[:, None]
        count, classes = labels.shape[1], range(self.probabilities.shape[1])
        places = [self.graph] if self.node is None else [self.graph, self.node]
        names = self.class_names or list(map(str, classes))
        yield [
            *(("graph",) if self.node is None else ("graph", "node")),
            *self.prediction_names(count),
            *(f"p({names[i]})" for i in classes),
            *([] if self.spread is None else spread_names(names if classes else (), count)),
        ]
        spread = labels[:, :0] if self.spread is None else self.spread.reshape(len(self), -1)
        lines = zip(
            np.stack(places, axis=1).tolist(),
            labels.tolist(),
            self.probabilities.tolist(),
            spread.tolist(),
            strict=True,
        )
        for place, label, probability, deviation in lines:
            predicted = (f"{v:.6g}" if isinstance(v, float) else str(v) for v in label)
            numbers = [*(f"{p:.6f}" for p in probability), *(f"{d:.6g}" for d in deviation)]
            yield [*map(str, place), *predicted, *numbers]

    def prediction_names(self, count: int) -> list[str]:
        """Names of the prediction columns, one per label or number."""
        if count == 1:
            return ["prediction"]
        names = self.class_names or ()
        if len(names) == count:
            return [f"prediction({name})" for name in names]
        return [f"prediction_{number}" for number in range(count)]

    def to_csv(self, path: str | Path | None = None) -> str:
        """Write a line per graph or node.

        Args:
            path: The file. (default: none is written)

        Returns:
            The text of the file.

        Raises:
            GSATError: If the file can't be written.
        """
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self.rows())
        if path is not None:
            write_output(path, text.getvalue().encode())
        return text.getvalue()


def spread_names(names: Sequence[str], count: int) -> list[str]:
    """Name the columns of standard deviations over the members of an ensemble."""
    if names:
        return [f"sd({name})" for name in names]
    return ["sd"] if count == 1 else [f"sd_{number}" for number in range(count)]


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
    described = _input(model)
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


def read_smiles(model: InterpretableModel, smiles: Sequence[str]) -> GraphStore:
    """Make graphs of SMILES, with the features that a model was trained on."""
    described = _input(model)
    cut = described["table"]["largest_fragment"]
    store = featuriser.featurise(smiles, largest_fragment=cut)
    names = {name: described[name] for name in ("classes", "labels") if name in described}
    store.meta.update(names)
    return store


def with_labels(store: GraphStore) -> GraphStore:
    """The molecules that have a label."""
    labels = store.labels("graph")
    labelled = labels >= 0 if labels.ndim == 1 else ~np.isnan(labels).all(axis=1)
    if not labelled.any():
        raise DataError("no molecule of the table has a label that the model knows")
    return store.select(labelled)


def predict_table(model: InterpretableModel, path: Path, smiles: str = "") -> PredictedTable:
    """Predict the molecules of a table; see :meth:`gsat.Run.predict_table`."""
    described = _input(model)
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


def _input(model: InterpretableModel) -> Mapping[str, Any]:
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
