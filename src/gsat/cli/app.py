"""The application: its commands, and how errors leave it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from gsat.errors import GSATError

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
    import gsat.cli.inspect
    import gsat.cli.training  # noqa: F401  (importing them adds their commands to the app)

    try:
        app(arguments)  # leaves by SystemExit, with typer's own messages for wrong usage
    except GSATError as error:
        if "--debug" in arguments:
            raise
        print_error(str(error))
        return 2
    except KeyboardInterrupt:
        print_error("stopped")
        return 130
    except BrokenPipeError:  # `gsat … | head` is not an error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def print_error(message: str) -> None:
    """One line on standard error."""
    typer.echo(f"gsat: {' '.join(message.split())}", err=True)
