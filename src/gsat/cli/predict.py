"""``gsat predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gsat.cli.app import YOUR_DATA, command
from gsat.cli.options import Data, RunFolder, Split, limit_option, own_classes
from gsat.cli.own_data import table_options
from gsat.core.terminal import echo


@command(
    YOUR_DATA,
    "gsat predict runs/x new-graphs.jsonl --out predictions.csv",
    "gsat predict runs/bbbp new-molecules.csv --out predictions.csv",
    "gsat predict runs/x --split valid",
)
@limit_option
@own_classes
@table_options("smiles")
def predict(
    run: RunFolder,
    data: Data = None,
    split: Split = "test",
    out: Annotated[
        Path | None, typer.Option(help="File to write: .csv or .tsv. [default: standard output]")
    ] = None,
    **table: Any,
) -> None:
    """Predict graphs, nodes or molecules, as CSV.

    Each graph (or node) is one line with its prediction and the probability of each class. A table
    of molecules keeps its rows and columns; rows that can't be read get a note.
    """
    from gsat.molecules.table import is_table
    from gsat.training.run import open_run

    if data is not None and is_table(data):
        predicted = open_run(run).predict_table(data, smiles=table["smiles"] or "")
        if out is None:
            echo(predicted.to_csv(), nl=False)
            return
        predicted.save(out)
        unread = f", {predicted.unread} could not be read" if predicted.unread else ""
        echo(f"{len(predicted)} molecules{unread} · {out}")
        return
    predictions = open_run(run).predict(data, split)
    text = predictions.to_csv(out)
    if out is None:
        echo(text, nl=False)
    else:
        echo(f"{len(predictions)} {predictions.level}s · {out}")
