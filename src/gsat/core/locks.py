"""File locks between processes; the system releases a lock when its process ends or is killed.

:func:`locked` holds a lock file that has no other purpose; :func:`open_locked` opens a file for
appending and locks that file itself.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from gsat.core import system
from gsat.core.errors import BusyError, RunError

_POLL: Final = 0.05  # seconds


@contextmanager
def locked(path: Path, wait: float | None = None, *, busy: str = "") -> Iterator[None]:
    """Hold a lock file during a ``with`` block; ``wait``: seconds to wait, None for any time."""
    try:
        handle = system.open_to_lock(path)
    except OSError as error:
        if error.errno == errno.ELOOP or path.is_symlink():
            raise RunError(f"the lock file {path} is a symbolic link; remove it") from None
        if isinstance(error, system.NotRegularError):
            raise RunError(f"the lock file {path} is not a regular file; remove it") from None
        raise
    try:
        until = None if wait is None else time.monotonic() + wait
        while not _try_lock(handle):
            if until is not None and time.monotonic() >= until:
                raise BusyError(busy or f"another process holds the lock file {path}")
            time.sleep(_POLL)
        yield
    finally:
        os.close(handle)  # releases the lock


def is_locked(path: Path) -> bool:
    """Whether this process or another one holds a lock file."""
    try:
        handle = system.open_to_read(path)  # the folder may be read-only
    except OSError:
        return False
    try:
        return not _try_lock(handle)
    finally:
        os.close(handle)


@contextmanager
def open_locked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for appending and hold a lock on it; it is created if missing.

    If the file is replaced or removed while this process waits for the lock, the new file of that
    name is opened instead.
    """
    while True:
        with os.fdopen(system.open_to_append(path), "ab") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_at(handle, path):
                handle.seek(0, os.SEEK_END)
                yield handle
                return


def _try_lock(handle: int) -> bool:
    """Lock an open file; return False if another open file description holds the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(handle: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False
