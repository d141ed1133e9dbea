"""The application: its commands, and how errors leave it."""

from __future__ import annotations

import os
import traceback
from typing import Annotated

import typer

from gsat.errors import GSATError, OtherProcessError

app = typer.Typer(
    name="gsat",
    help="Graph neural networks that say which edges they used.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from gsat import __version__

        typer.echo(f"gsat {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Options that stand before the command."""


def run(arguments: list[str]) -> int:
    """Run a command; returns the exit code."""
    import gsat.cli.bench
    import gsat.cli.datasets
    import gsat.cli.inspect
    import gsat.cli.studies
    import gsat.cli.training  # noqa: F401  (importing them adds their commands to the app)

    debug = "--debug" in arguments  # before or after the command
    try:
        # Leaves by SystemExit; typer itself ends wrong usage, Ctrl-C and a closed pipe.
        app([a for a in arguments if a != "--debug"], prog_name="gsat")
    except (GSATError, OSError) as error:
        if debug:
            traceback.print_exc()
        elif not isinstance(error, OtherProcessError):
            print_error(_said(error))
        return getattr(error, "exit_code", 2)
    return 0


def _said(error: Exception) -> str:
    if not isinstance(error, OSError):
        return str(error)
    if error.filename is None:  # most likely standard output, on a full disk
        # What is left in its buffer can't be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else f"can't write the output: {reason}"


def print_error(message: str) -> None:
    """One line on standard error."""
    typer.echo(f"gsat: {' '.join(message.split())}", err=True)
