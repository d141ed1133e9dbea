"""``gsat resume``."""

from __future__ import annotations

from typing import Annotated

import typer

from gsat.cli.app import YOUR_DATA, command, print_error
from gsat.cli.options import (
    Audit,
    Device,
    Json,
    Quiet,
    RunFolder,
    Threads,
    limit_option,
    own_classes,
    set_threads,
)
from gsat.cli.output import member_progress, print_ending
from gsat.core.errors import GSATError


@command(YOUR_DATA, "gsat resume runs/x", "gsat resume runs/y --method my_method.py:MyMethod")
@limit_option
@own_classes
def resume(
    run: RunFolder,
    jobs: Annotated[int, typer.Option(min=1, help="Ensemble members to train in parallel.")] = 1,
    device: Device = "cpu",
    threads: Threads = None,
    audit: Audit = True,
    quiet: Quiet = False,
    json_: Json = False,
) -> None:
    """Continue a run exactly where it stopped.

    A finished run is only shown.
    """
    from gsat.training import train as training
    from gsat.training.loop import TrainOptions
    from gsat.training.process_group import join_processes
    from gsat.training.run_directory import RunDirectory

    with join_processes() as processes:
        with processes.share_errors():
            # Results depend on the number of threads in the last bit, so keep that of the run.
            set_threads(threads or RunDirectory.open(run).environment.get("threads", 1))
        recipe = RunDirectory.open(run).recipe
        if jobs > 1 and recipe.members is None:
            raise GSATError("--jobs is for ensembles, and this run is a single model")
        with member_progress(recipe, jobs, quiet) as done:
            options = TrainOptions(
                device=device,
                progress=not quiet,
                warn=print_error,
                jobs=jobs,
                done=done,
                group=processes,
            )
            finished = training.resume(run, options)
        if processes.is_main:
            print_ending(finished, run, json_, audit, quiet)
