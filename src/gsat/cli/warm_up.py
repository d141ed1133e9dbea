"""``gsat warm-up``."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from gsat.cli.app import HOUSEKEEPING, command
from gsat.cli.options import Quiet
from gsat.core.terminal import echo


@command(HOUSEKEEPING, "gsat warm-up", "gsat warm-up --jobs 1")
def warm_up(
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Compiler processes. [default: one per core]"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Compile the kernels for this machine, once per installation.

    Otherwise the first training compiles the kernels it needs.
    """
    from gsat.training.warm_up import warm_up as compile_kernels

    started = time.monotonic()
    count = compile_kernels(jobs, progress=not quiet)
    echo(f"{count} kernels are ready, after {time.monotonic() - started:.0f} s")
