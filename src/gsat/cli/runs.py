"""``gsat runs``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import HOUSEKEEPING, command
from gsat.cli.options import Json
from gsat.core.errors import printable
from gsat.core.terminal import echo


@command(
    HOUSEKEEPING, "gsat runs", "gsat runs runs/bench --sort explanation_auc", "gsat runs --json"
)
def runs(
    folder: Annotated[Path, typer.Argument(help="Folder to search.")] = Path("runs"),
    sort: Annotated[
        str | None, typer.Option(metavar="METRIC", help="Sort by this metric, best first.")
    ] = None,
    json_: Json = False,
) -> None:
    """List the runs in a folder, with their scores."""
    from gsat.metric_names import shown_metrics
    from gsat.training.list_runs import list_runs

    listed = list_runs(folder, sort=sort)
    if json_:
        echo(json.dumps([run.as_dict() for run in listed]))
        return
    rows = []
    for run in listed:
        scores = shown_metrics(run.test, has_truth=False)
        state = ", ".join(f"{k} {v:.4f}" for k, v in scores.items() if v is not None)
        if run.state != "finished":
            state = f"{run.state}, {run.progress}"
        name = Path(run.dataset).name
        rows.append(
            (printable(str(run.path)), name, run.backbone, run.method, f"seed {run.seed}", state)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        echo("  ".join(cells).rstrip())
    if not rows:
        echo(f"no runs in {folder}; train one with: gsat train")
