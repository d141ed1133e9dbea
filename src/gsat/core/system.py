"""The calls that change files: everything the package writes goes through these few functions.

A thin layer, so that the rules hold everywhere (no link is followed, nothing is truncated, a new
file is new) and so that tests can let any single call fail, or be the last one of a process.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # a FIFO would wait for its other end
BINARY = getattr(os, "O_BINARY", 0)  # Windows


def create(path: Path) -> int:
    """Create a file for writing; that it exists, even as a link to nowhere, is an error."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | BINARY, 0o666)


def open_to_append(path: Path) -> int:
    """Open a regular file for appending, created if missing; a link is an error."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_LINK | _NO_WAIT | BINARY
    return _regular(os.open(path, flags, 0o666), path)


def open_to_lock(path: Path) -> int:
    """Open a regular file, created if missing, without changing it; a link is an error."""
    flags = os.O_RDWR | os.O_CREAT | _NO_LINK | _NO_WAIT | BINARY
    return _regular(os.open(path, flags, 0o666), path)


def open_to_read(path: Path, *, follow: bool = False) -> int:
    """Open a regular file for reading; nothing else is ever waited for."""
    flags = os.O_RDONLY | _NO_WAIT | BINARY | getattr(os, "O_CLOEXEC", 0)
    return _regular(os.open(path, flags if follow else flags | _NO_LINK), path)


def write(handle: int, content: bytes | memoryview) -> None:
    """Write all of the content."""
    left = memoryview(content).cast("B")
    while len(left):
        left = left[os.write(handle, left) :]


def sync(handle: int) -> None:
    """Wait until what was written is on disk."""
    os.fsync(handle)


def rename(source: Path, target: Path) -> None:
    """Give a file another name; a file that has it is replaced, in one step."""
    source.replace(target)


def make_folder(path: Path) -> None:
    """Create a folder unless it exists; its parents must."""
    path.mkdir(exist_ok=True)


def make_folders(path: Path) -> None:
    """Create a folder, and those above it, unless it exists."""
    path.mkdir(parents=True, exist_ok=True)


def remove(path: Path) -> None:
    """Remove a file, or a link itself; one that is gone is no error."""
    path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Remove a folder with all it holds; links in it are removed, not followed."""
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path, ignore_errors=True)


def _regular(handle: int, path: Path) -> int:
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise NotRegularError(f"{path} is not a regular file")


class NotRegularError(OSError):
    """What was opened as a file is a folder, a FIFO, a socket or a device."""
