"""System calls that open or change files; the whole package writes files through them.

They enforce the same rules everywhere: no link is followed, no file is truncated, a created file is
new. Tests replace them to let any single call fail, or to end the process there.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC
_NO_WAIT = os.O_NONBLOCK  # opening a FIFO would block


def create(path: Path) -> int:
    """Create a file for writing; fails if the name exists, even as a dangling link."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o666)


def open_to_append(path: Path) -> int:
    """Open a regular file for appending, created if missing; fails for links."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _NO_LINK | _NO_WAIT
    return _regular(os.open(path, flags, 0o666), path)


def open_to_lock(path: Path) -> int:
    """Open a regular file without changing it, created if missing; fails for links."""
    flags = os.O_RDWR | os.O_CREAT | _NO_LINK | _NO_WAIT
    return _regular(os.open(path, flags, 0o666), path)


def open_to_read(path: Path, *, follow: bool = False) -> int:
    """Open a regular file for reading, without ever blocking."""
    flags = os.O_RDONLY | _NO_WAIT | os.O_CLOEXEC
    return _regular(os.open(path, flags if follow else flags | _NO_LINK), path)


def write(handle: int, content: bytes | memoryview) -> None:
    """Write all of the content."""
    left = memoryview(content).cast("B")
    while len(left):
        left = left[os.write(handle, left) :]


def sync(handle: int) -> None:
    """Wait until the written content is on disk."""
    os.fsync(handle)


def rename(source: Path, target: Path) -> None:
    """Rename a file; an existing target is replaced atomically."""
    source.replace(target)


def make_folder(path: Path) -> None:
    """Create a folder unless it exists; its parent must exist."""
    path.mkdir(exist_ok=True)


def make_folders(path: Path) -> None:
    """Create a folder and its parents unless they exist."""
    path.mkdir(parents=True, exist_ok=True)


def remove(path: Path) -> None:
    """Remove a file, or a link itself, if it exists."""
    path.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Remove a folder with its contents; links are removed, not followed."""
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
    """The path is a folder, a FIFO, a socket or a device, not a regular file."""
