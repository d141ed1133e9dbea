"""``gsat tune``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gsat.cli.app import YOUR_DATA, command, print_error
from gsat.cli.options import (
    BackboneOption,
    Epochs,
    Json,
    Quiet,
    RecipeFile,
    Set,
    all_settings,
    check_dataset,
    limit_option,
    resolve,
)
from gsat.cli.output import print_source
from gsat.core.errors import GSATError
from gsat.core.registry import METHODS
from gsat.core.terminal import echo, echo_table

if TYPE_CHECKING:
    from gsat.study.grids import Point
    from gsat.study.tune import Tuned


@command(
    YOUR_DATA,
    "gsat tune gsat mutag --grid r_final=0.5,0.6,0.7 --seeds 3 --jobs 2",
    "gsat tune gsat graphs.jsonl --grid lr=0.001,0.003 --write mine.toml",
    "gsat tune graphs.jsonl --by audit --seeds 2 --write mine.toml",
)
@limit_option
def tune(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[METHOD] DATA",
            help="Method (see: gsat methods), or your own as file.py:Class [default: gsat]; then a "
            "data set (see: gsat datasets) or your own as file.py:Class, or the path of your own "
            "data.",
        ),
    ],
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2,…",
            help="Values to try. Repeatable. [default: the method's own grid; with --by audit, a "
            "fixed sequence of settings that ends when the explanations pass]",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Validation metric to choose by. [default: that of the task]"),
    ] = None,
    by: Annotated[
        Literal["metric", "audit"],
        typer.Option(
            help="Choose by 'metric', or by 'audit': among settings that predict as well as the "
            "best, take those whose explanations pass the audit."
        ),
    ] = "metric",
    backbone: BackboneOption = "",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Tune with this seed. [default: 0]")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Choose by the mean over seeds 0 … N−1.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs to train in parallel.")] = 1,
    recipe: RecipeFile = None,
    epochs: Epochs = None,
    set_: Set = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the runs. [default: a new one in runs/]"),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Append the result to this JSON-lines file.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="Write the chosen settings to this recipe file.")
    ] = None,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Choose the settings of a method on validation data.

    Trains every combination of the grid. With --by audit, the default is a sequence of settings
    from cheap to expensive that ends when the explanations pass. The same command continues after
    an interruption.
    """
    if seed is not None and seeds is not None:
        raise GSATError("give --seed or --seeds, not both")
    if len(what) > 2:
        raise GSATError(f"expected [METHOD] DATA, not {len(what)} names")
    method = resolve(METHODS)(what[0]) if len(what) == 2 else "gsat"
    dataset = check_dataset(what[-1])
    from gsat.study.grids import parse_grid
    from gsat.study.tune import tune as tune_settings
    from gsat.training.recipe import from_tables

    tuned = tune_settings(
        dataset,
        method,
        backbone=backbone,
        seeds=range(seeds) if seeds is not None else (seed or 0,),
        grid=parse_grid(grid) if grid else None,
        metric=metric,
        by=by,
        file=recipe,
        settings=all_settings(set_, epochs),
        out=out,
        jobs=jobs,
        record=record,
        write=write,
        progress=not quiet,
    )
    if json_:
        echo(json.dumps(tuned.record))
        return
    _print_points(tuned)
    print_source(from_tables(tuned.record["recipe"]))
    command = f"gsat train {shlex.quote(what[-1])}"
    if write is not None:
        named = shlex.quote(what[0]) if len(what) == 2 else method
        options = f"--backbone {tuned.record['backbone']} --method {named} --recipe {write}"
        echo(f"written to {write}; use it with: {command} {options}")
    elif tuned.rungs is not None and tuned.chosen.settings:
        changes = " ".join(f"--set {k}={v}" for k, v in tuned.chosen.settings.items())
        echo(f"use it with: {command} … {changes}")


def _print_points(tuned: Tuned) -> None:
    """Print the points as a table, then the choice and what to know about it."""
    from rich import box
    from rich.table import Table

    is_ladder = tuned.rungs is not None
    audited = tuned.chosen.passed is not None
    keys = ["settings"] if is_ladder else [_short(key) for key in tuned.chosen.settings]
    table = Table(
        *keys, f"valid {tuned.metric}", *(["audit"] if audited else []), "", box=box.SIMPLE_HEAD
    )
    for point in tuned.points:
        value = "undefined" if point.mean is None else f"{point.mean:.4f}"
        if point.mean is not None and len(point.values) > 1:
            value += f" ± {point.std:.4f}"
        mark = "chosen" if point is tuned.chosen else "failed" if point.failed else ""
        cells = [_settings_of(point)] if is_ladder else [f"{v}" for v in point.settings.values()]
        table.add_row(*cells, value, *([_audit_of(point)] if audited else []), mark)
    echo_table(table)
    for key, values in tuned.duplicates.items():
        repeated = ", ".join(map(str, values))
        echo(f"{_short(key)}: the grid repeats {repeated}; each value is tried once")
    for group in tuned.identical:
        same = " and ".join(_settings_of(point) for point in group)
        echo(f"{same} gave identical runs: the settings they differ in had no effect")
    if tuned.ties:
        equal = all(point.loss == tuned.chosen.loss for point in tuned.ties)
        which = "the first" if equal else "the one with the lowest validation loss"
        echo(f"{len(tuned.ties) + 1} settings tie; {which} is chosen")
    left = (tuned.rungs or 0) - len(tuned.points)
    if left > 0:
        echo(f"the explanations passed, so {left} further settings were not tried")
    seeds = ", ".join(str(seed) for seed in tuned.record["seeds"])
    how = "by the audit of" if audited else "on"
    echo(f"chosen {how} validation data, seeds {seeds}: {_settings_of(tuned.chosen)}")
    if tuned.chosen.passed == 0:
        echo("no setting passed the audit; the chosen one has the best outcome and evidence")
    for point in tuned.points:
        if point.failed:
            print_error(f"{_settings_of(point)} failed: {point.failed}")


def _audit_of(point: Point) -> str:
    if point.failed:
        return ""
    if point.passed is None or point.gap is None:
        return "less accurate"
    runs = len(point.values)
    if runs > 1:
        return f"{round(point.passed * runs)} of {runs} passed, gap {point.gap:.2f}"
    return f"{(point.outcomes or ['passed'])[0]}, gap {point.gap:.2f}"


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def _settings_of(point: Point) -> str:
    values = [f"{_short(key)}={value}" for key, value in point.settings.items()]
    return ", ".join(values) or "the recipe unchanged"
