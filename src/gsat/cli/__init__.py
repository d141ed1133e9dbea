"""The command line: parse, call, print. Everything heavy is imported inside the commands."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; an error a user can cause is one line and exit code 2."""
    from gsat.cli.app import run

    sys.exit(run(sys.argv[1:]))
