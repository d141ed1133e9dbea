"""``gsat audit``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import YOUR_DATA, command
from gsat.cli.options import (
    Data,
    Json,
    Quiet,
    RunFolder,
    Split,
    check_json_or_file,
    limit_option,
    own_classes,
)
from gsat.core.terminal import echo
from gsat.training.list_runs import check_run


@command(
    YOUR_DATA,
    "gsat audit runs/x",
    "gsat audit runs/x --out audit.html",
    "gsat audit runs/x --with runs/y --with runs/z",
    "gsat audit runs/x --sanity",
    "gsat audit runs/x new-graphs.jsonl --top 0.2 --json",
)
@limit_option
@own_classes
def audit(
    run: RunFolder,
    data: Data = None,
    split: Split = "test",
    top: Annotated[
        float | None,
        typer.Option(
            help="Share of each graph's edges (or nodes) that form its explanation. [default: the "
            "upper of the two clusters of its scores]"
        ),
    ] = None,
    above: Annotated[
        float | None, typer.Option(help="Take edges (or nodes) with a score above this.")
    ] = None,
    graphs: Annotated[
        int, typer.Option(min=1, help="Maximum number of graphs; larger splits are sampled.")
    ] = 1000,
    with_: Annotated[
        list[Path] | None,
        typer.Option("--with", help="Compare with another run on the same data. Repeatable."),
    ] = None,
    sanity: Annotated[
        bool,
        typer.Option(
            "--sanity",
            help="Compare with an untrained model and with one trained briefly on shuffled labels.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="File to write: a page (.html) or all numbers (.json).")
    ] = None,
    json_: Json = False,
    quiet: Quiet = False,
) -> None:
    """Test whether the explanations of a run are faithful, without ground truth.

    The first line is the verdict: passed, mixed or failed. It is stored in the run directory, and
    `gsat explain` shows it.
    """
    check_json_or_file(json_, out)
    if out is not None:
        from gsat.core.writing import check_suffix

        check_suffix(out, (".html", ".json"))
    others = [check_run(path) for path in with_ or []]
    from gsat.training.run import open_run

    report = open_run(run).audit(
        data, split=split, others=others, sanity=sanity, top=top, above=above, graphs=graphs,
        progress=not quiet,
    )  # fmt: skip
    if json_:
        echo(json.dumps(report.as_dict()))
        return
    for line in report.lines(whole=out is None):
        echo(line)
    if out is not None:
        echo(str(report.save(out)))
