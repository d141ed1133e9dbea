"""The application: its command groups, and the reporting of errors."""

from __future__ import annotations

import importlib
import os
import traceback
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from gsat.core.errors import DataNotFoundError, GSATError, OtherProcessError, printable, shown
from gsat.core.terminal import echo

Command = TypeVar("Command", bound=Callable[..., Any])
LONGEST_LINE = 300  # characters of an error message
HEADINGS = YOUR_DATA, PAPER, HOUSEKEEPING = "Your data", "The paper", "Housekeeping"
# In the order in which `gsat --help` lists their commands.
MODULES = (
    "train", "resume", "evaluate", "predict", "explain", "audit", "patterns", "web", "distill",
    "tune", "bench", "demo", "datasets", "methods", "settings", "runs", "warm_up", "moved",
)  # fmt: skip


class GroupedCommands(TyperGroup):
    """Commands listed under headings in the help text."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section per heading."""
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None)
            rows = sections.setdefault(heading if heading in sections else "Commands", [])
            if not command.hidden:
                rows.append((name, command.get_short_help_str(limit=200)))
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def examples(*lines: str) -> str:
    """Make the end of a help text: one example per line, without line wrapping."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


app = typer.Typer(
    name="gsat",
    cls=GroupedCommands,
    help="Graph neural networks that explain their own predictions.",
    epilog=examples(
        "gsat demo                            train and draw, in a minute or two",
        "gsat train ba2motifs                 the paper's recipe for a data set",
        "gsat train graphs.jsonl              your own graphs",
        "gsat explain runs/x --graph 12 --out g.svg",
        "gsat train --help                    all options of a command",
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def command(heading: str, *lines: str) -> Callable[[Command], Command]:
    """Register a function as a command, listed under a heading; the help ends with examples."""
    return app.command(rich_help_panel=heading, epilog=examples(*lines))


def _version(wanted: bool) -> None:
    if wanted:
        from gsat import __version__

        echo(f"gsat {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Graph neural networks that explain their own predictions."""


def load_commands() -> None:
    """Import the modules, which add their commands to the application."""
    for name in MODULES:
        importlib.import_module(f"gsat.cli.{name}")


def run(arguments: list[str]) -> int:
    """Run a command with the words after ``gsat``, and return its exit code."""
    load_commands()
    return run_app(app, arguments, "gsat")


def run_app(app: typer.Typer, arguments: list[str], name: str) -> int:
    """Run a command of an application and return its exit code; an error is one line.

    ``--debug`` is accepted before and after the command.
    """
    debug = "--debug" in arguments
    try:
        # Typer raises SystemExit, and handles wrong usage, Ctrl-C and a closed pipe itself.
        app([a for a in arguments if a != "--debug"], prog_name=name)
    except Exception as error:
        if debug:
            traceback.print_exc()
        elif not isinstance(error, OtherProcessError):
            print_error(_message(error), whole=isinstance(error, DataNotFoundError))
        return getattr(error, "exit_code", 2)
    return 0


def _message(error: Exception) -> str:
    if isinstance(error, GSATError):
        return str(error)
    if isinstance(error, (MemoryError, RecursionError)):
        return f"there is not enough memory for this ({shown(str(error) or 'out of memory', 100)})"
    if not isinstance(error, OSError):
        kind = type(error).__name__
        return (
            f"an error in gsat itself ({kind}: {shown(' '.join(str(error).split()), 120)}); please "
            "report it with the output of the same command and --debug"
        )
    if error.filename is None:  # most likely standard output on a full disk
        # Discard its buffer, which can't be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else f"can't write the output: {reason}"


def print_error(message: str, *, whole: bool = False) -> None:
    """Print one line without control characters on standard error; ``whole`` skips shortening."""
    line = printable(" ".join(f"gsat: {message}".split()))
    if len(line) > LONGEST_LINE and not whole:
        line = f"{line[: LONGEST_LINE - 103]} … {line[-100:]}"
    echo(line, err=True)
