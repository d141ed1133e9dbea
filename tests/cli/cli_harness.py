"""Helpers that run commands, in this process or in a new one."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GSAT = str(Path(sys.executable).with_name("gsat"))
# Small enough for an epoch to take a tenth of a second.
SMALL = ("ba2motifs", "--set", "graphs=60")
TINY = ("ba2motifs", "--set", "graphs=20", "--epochs", 1, "--quiet")


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard output by line."""
        return self.out.splitlines()


@dataclass(frozen=True)
class Trained:
    """A finished run that tests may read but not change."""

    path: Path
    outcome: Outcome


def gsat(*arguments: object) -> Outcome:
    """Run a command in this process."""
    from gsat.cli.app import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run([str(argument) for argument in arguments])
        except SystemExit as left:
            code = int(left.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())


def succeed(*arguments: object) -> Outcome:
    """Run a command in this process that must succeed without output on standard error."""
    outcome = gsat(*arguments)
    assert outcome.code == 0, outcome
    assert outcome.err == "", outcome
    return outcome


def refuse(*arguments: object) -> str:
    """Run a command that must be refused; returns its one line on standard error."""
    return refused(gsat(*arguments))


def refused(outcome: Outcome) -> str:
    """Check that a command was refused; returns its one line on standard error."""
    assert outcome.code == 2, outcome
    assert outcome.out == "", outcome
    assert outcome.err.startswith("gsat: "), outcome
    assert outcome.err.count("\n") == 1, outcome
    assert outcome.err.endswith("\n"), outcome
    return outcome.err.strip()


def start(*arguments: object, **how: Any) -> subprocess.Popen[str]:
    """Start the installed command in a new process, by default with pipes."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([GSAT, *map(str, arguments)], **{**pipes, "env": environment(), **how})


def finish(process: subprocess.Popen[str]) -> Outcome:
    """Wait for a started command."""
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    return Outcome(process.returncode, out or "", err or "")


def environment(**changes: str) -> dict[str, str]:
    """The environment of this process, with a width for help texts and changes."""
    return {**os.environ, "COLUMNS": "100", **changes}
