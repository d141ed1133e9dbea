"""Run each failed test once more, alone, in a fresh process; print FLAKY where it passes then.

The exit code is 0 if every failed test passed in its second run. It is 1 if one failed again, if
there is no list of failed tests (lint failed, or pytest did not start), or if the list is long.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 10  # more failures than this are a fault of the code, not of a test


def main() -> int:
    """Retry the failed tests and return the exit code."""
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.is_file() else []
    if not failed:
        return 1
    if len(failed) > MOST:
        print(f"{len(failed)} tests failed: none is retried")
        return 1
    again = [name for name in failed if not _passes(name)]
    for name in failed:
        print(f"FAILED AGAIN {name}" if name in again else f"FLAKY {name}")
    print(f"{len(failed) - len(again)} passed, {len(again)} failed")
    return 1 if again else 0


def _passes(name: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "", name]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
