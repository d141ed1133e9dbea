"""Output of the command line: escaped on a terminal, unchanged in pipes and files."""

from __future__ import annotations

import ast
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import gsat
from gsat.core import terminal

# Clears the screen, sets the title of the window, reverses text; a table's tabs and lines stay.
HOSTILE = "a\x1b[2Jb\x1b]0;title\x07c\u202ed\x9be\rf\tg\nh"
ESCAPED = "a\\x1b[2Jb\\x1b]0;title\\x07c\\u202ed\\x9be\\rf\tg\nh"


@pytest.mark.parametrize(("is_terminal", "expected"), [(True, ESCAPED), (False, HOSTILE)])
@pytest.mark.parametrize("err", [False, True])
def test_control_characters_are_escaped_on_a_terminal_only(
    is_terminal: bool, expected: str, err: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stderr" if err else "stdout", stream)
    terminal.echo(HOSTILE, err=err, nl=False)
    assert stream.getvalue() == expected


def test_a_real_terminal_gets_no_escape_sequence() -> None:
    program = f"from gsat.core.terminal import echo; echo({HOSTILE!r})"
    command = [sys.executable, "-c", program]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs) as process:
        os.close(theirs)
        shown = os.read(ours, 1000)
        process.wait(20)
    os.close(ours)
    assert b"\x1b" not in shown
    assert b"\\x1b[2J" in shown
    piped = subprocess.run(command, capture_output=True, timeout=20, check=True)
    assert piped.stdout == f"{HOSTILE}\n".encode()


def test_no_module_of_the_command_line_prints_in_another_way() -> None:
    folder = Path(gsat.__file__).parent / "cli"
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("print", "typer.echo", "click.echo", "Console"), path
                assert not name.startswith(("sys.stdout.write", "sys.stderr.write")), path
