"""The command line: a file per command, which parses, calls and prints.

Everything heavy is imported inside the commands, so that help and refusals come at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; an error that a user can cause is one line and exit code 2."""
    from gsat.cli.app import run

    sys.exit(run(sys.argv[1:]))
