"""Files of JSON lines to which several processes append."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gsat.core import system
from gsat.core.disk import check_writable, disk_errors
from gsat.core.locks import open_locked


def append_line(path: Path, values: dict[str, Any], unless: Callable[[], bool]) -> bool:
    """Append one JSON line to a file unless a condition holds.

    Several processes may append to one file: it is locked while the condition is tested and the
    line is written.
    """
    line = json.dumps(values, allow_nan=False, ensure_ascii=False) + "\n"
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_locked(path) as handle:
            if unless():
                return False
            end = handle.tell()
            try:
                system.write(handle.fileno(), line.encode())
                system.sync(handle.fileno())
            except OSError:
                handle.truncate(end)  # half a line would spoil the next one, too
                raise
            return True


def check_appendable(path: Path) -> None:
    """Raise unless lines can be appended to a file; its folder is created if missing."""
    check_writable(path.parent)
    with disk_errors(path):
        if path.exists():
            os.close(system.open_to_append(path))
