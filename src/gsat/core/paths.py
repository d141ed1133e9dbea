"""Paths as users and files write them, which may be anything."""

from __future__ import annotations

from pathlib import Path


def full_path(text: str) -> Path:
    """Make a path absolute, with the user's home in place of ``~``."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        return Path(text).absolute()


def exists(path: str | Path) -> bool:
    """Whether there is such a file or folder; there is none whose name is too long for one."""
    try:
        return Path(path).exists()
    except OSError:
        return False
