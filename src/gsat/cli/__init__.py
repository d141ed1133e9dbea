"""The command line: a file per command, which parses, calls and prints.

Everything heavy is imported inside the commands, so that help and refusals come at once.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line; an error that a user can cause is one line and exit code 2."""
    from gsat.cli.app import run

    code = run(sys.argv[1:])
    gc.freeze()  # at exit, Python would look through a million objects once more: half a second
    sys.exit(code)
