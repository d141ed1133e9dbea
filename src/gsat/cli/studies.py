"""`gsat methods` and `gsat tune`: what can be compared, and with which settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gsat.cli.app import app, print_error
from gsat.cli.training import Backbone, Epochs, Json, Quiet, RecipeFile, Set
from gsat.errors import GSATError

if TYPE_CHECKING:
    from gsat.studies.tune import Tuned


@app.command()
def methods(json_: Json = False) -> None:
    """List the methods, with the paper each comes from."""
    from gsat.methods import METHODS

    if json_:
        rows = [
            {"name": m.name, "title": m.title, "summary": m.summary, "paper": m.paper}
            for m in METHODS.values()
        ]
        typer.echo(json.dumps(rows))
        return
    width = max(len(name) for name in METHODS)
    for method in METHODS.values():
        typer.echo(f"{method.name:<{width}}  {method.title}: {method.summary}")
        typer.echo(f"{'':<{width}}  {method.paper}")


@app.command()
def tune(
    method: Annotated[str, typer.Argument(help="A method; see: gsat methods")],
    dataset: Annotated[str, typer.Argument(help="A data set; see: gsat datasets")],
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V1,V2,…", help="Values to try (the method's own grid)."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Validation metric to choose by (the task's own).")
    ] = None,
    backbone: Backbone = "gin",
    seed: Annotated[int | None, typer.Option(min=0, help="Tune with this seed (0).")] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Judge by the mean of seeds 0 … N−1.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many runs at a time.")] = 1,
    recipe: RecipeFile = None,
    epochs: Epochs = None,
    set_: Set = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs (one in runs/ for each tuning).")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Append grid and choice to this JSON-lines file.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Put the chosen settings into this recipe file.")
    ] = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Choose a method's settings on validation data.

    Trains every point of a grid; the same command goes on where it was stopped.
    """
    from gsat.studies.grids import parse_grid
    from gsat.studies.tune import tune as tune_settings

    if seed is not None and seeds is not None:
        raise GSATError("--seed tunes with one seed, --seeds with several; give one of them")
    tuned = tune_settings(
        dataset,
        method,
        backbone=backbone,
        seeds=range(seeds) if seeds is not None else (seed or 0,),
        grid=parse_grid(grid) if grid else None,
        metric=metric,
        file=recipe,
        settings=[*(set_ or []), *([f"epochs={epochs}"] if epochs else [])],
        out=out,
        jobs=jobs,
        record=record,
        write=write,
        progress=not quiet,
    )
    if json_:
        typer.echo(json.dumps(tuned.record))
        return
    _show(tuned)
    if write is not None:
        how = f"--backbone {backbone} --method {method} --recipe {write}"
        typer.echo(f"written to {write}; use it with: gsat train {dataset} {how}")


def _show(tuned: Tuned) -> None:
    """The points as a table, the chosen one marked."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    keys = [key.rpartition(".")[2] for key in tuned.chosen.settings]
    table = Table(*keys, f"valid {tuned.metric}", "", box=box.SIMPLE_HEAD)
    for point in tuned.points:
        value = "undefined" if point.mean is None else f"{point.mean:.4f}"
        if point.mean is not None and len(point.values) > 1:
            value += f" ± {point.std:.4f}"
        mark = "chosen" if point is tuned.chosen else "failed" if point.failed else ""
        table.add_row(*(f"{v}" for v in point.settings.values()), value, mark)
    Console(highlight=False).print(table)
    seeds = ", ".join(str(seed) for seed in tuned.record["seeds"])
    typer.echo(f"chosen on validation data, seeds {seeds}: {_said(tuned.chosen.settings)}")
    for point in tuned.points:
        if point.failed:
            print_error(f"{_said(point.settings)} failed: {point.failed}")


def _said(settings: dict[str, object]) -> str:
    return ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())
