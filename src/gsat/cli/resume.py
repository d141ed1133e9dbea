"""``gsat resume``."""

from __future__ import annotations

from typing import Annotated

import typer

from gsat.cli.app import YOUR_DATA, app, examples, print_error
from gsat.cli.names import check_backbone, check_method, load_part
from gsat.cli.options import Audit, Device, Json, Quiet, RunFolder, Threads, set_threads
from gsat.cli.output import member_progress, print_ending
from gsat.core.errors import GSATError


@app.command(
    rich_help_panel=YOUR_DATA,
    epilog=examples("gsat resume runs/x", "gsat resume runs/y --method my_method.py:MyMethod"),
)
def resume(
    run: RunFolder,
    method: Annotated[
        str | None,
        typer.Option(
            callback=lambda name: name and check_method(name),
            help="Your own method of the run: file.py:Class.",
        ),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            callback=lambda name: name and check_backbone(name),
            help="Your own network of the run: file.py:Class.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Of an ensemble: how many members at the same time.")
    ] = 1,
    device: Device = "cpu",
    threads: Threads = None,
    audit: Audit = True,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Continue a run exactly where it stopped.

    A finished run is only shown.
    """
    from gsat.training.loop import TrainOptions
    from gsat.training.process_group import join_processes
    from gsat.training.run_directory import RunDirectory
    from gsat.training.train import resume_run

    for name in (method, backbone):
        if name is not None:
            load_part(name)
    with join_processes() as processes:
        with processes.share_errors():
            # Sums differ in the last bit between thread counts: the run's own count is used.
            set_threads(threads or RunDirectory.open(run).environment.get("threads", 1))
        recipe = RunDirectory.open(run).recipe
        if jobs > 1 and recipe.members is None:
            raise GSATError("--jobs is for the members of an ensemble, and this run is none")
        with member_progress(recipe, jobs, quiet) as done:
            options = TrainOptions(
                device=device,
                progress=not quiet,
                warn=print_error,
                jobs=jobs,
                done=done,
                group=processes,
            )
            finished = resume_run(run, options)
        if processes.is_main:
            print_ending(finished, run, json_, audit, quiet)
