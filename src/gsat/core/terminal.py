"""Output of the command line: control characters of untrusted texts do not reach a terminal."""

from __future__ import annotations

import io
import sys
from typing import Any

import typer

from gsat.core.errors import escape_controls


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text; on a terminal, its control characters are escaped, except tabs and newlines.

    Pipes and files get the text unchanged.
    """
    stream = sys.stderr if err else sys.stdout
    # With color=None, typer would remove escape sequences from pipes and files.
    typer.echo(for_terminal(text) if stream.isatty() else text, err=err, nl=nl, color=True)


def echo_table(table: Any) -> None:
    """Print a table of rich, without colours."""
    from rich.console import Console

    buffer = io.StringIO()
    Console(file=buffer, markup=False, highlight=False, emoji=False).print(table)
    echo(buffer.getvalue(), nl=False)


def for_terminal(text: str) -> str:
    """Escape the control characters of a text, except tabs and newlines."""
    return "\n".join("\t".join(map(escape_controls, line.split("\t"))) for line in text.split("\n"))
