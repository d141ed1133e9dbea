"""``gsat predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import YOUR_DATA, app, examples
from gsat.cli.options import Data, RunFolder, Split


@app.command(
    rich_help_panel=YOUR_DATA,
    epilog=examples(
        "gsat predict runs/x new-graphs.jsonl --out predictions.csv",
        "gsat predict runs/x --split valid",
    ),
)
def predict(
    run: RunFolder,
    data: Data = None,
    split: Split = "test",
    out: Annotated[Path | None, typer.Option(help="A CSV file. [default: standard output]")] = None,
) -> None:
    """Predict graphs or nodes, as CSV.

    One line per graph (or node), with the prediction and the probability of each class.
    """
    from gsat.runs import open_run

    table = open_run(run).predict(data, split)
    text = table.to_csv(out)
    if out is None:
        typer.echo(text, nl=False)
    else:
        typer.echo(f"{len(table)} {table.level}s · {out}")
