"""Locks between processes, on files. The system releases a lock when its process ends or is killed.

There are two kinds: :func:`locked` holds a lock file that has no other purpose, :func:`open_locked`
opens a file for appending and locks the file itself.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from filelock import lock_descriptor

from gsat.errors import BusyError, RunError
from gsat.io import system

_POLL: Final = 0.05  # seconds


@contextmanager
def locked(path: Path, wait: float | None = None, *, busy: str = "") -> Iterator[None]:
    """Hold a lock file for the length of a ``with`` block.

    Args:
        path: The lock file, created if missing; it stays when the lock is released. What it holds
            is not changed.
        wait: Seconds to wait while the lock is held elsewhere; 0 tries once, ``None`` waits as
            long as it takes. (default: ``None``)
        busy: The message of the :class:`~gsat.errors.BusyError`. (default: one that names the
            lock file)

    Raises:
        BusyError: If the lock was held for longer than ``wait``.
        RunError: If the lock file is a symbolic link, or no file.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / ".lock"
        >>> with locked(file):
        ...     is_locked(file)
        True
        >>> is_locked(file)
        False
    """
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
        while not lock_descriptor(handle, blocking=False):
            if until is not None and time.monotonic() >= until:
                raise BusyError(busy or f"another process holds the lock file {path}")
            time.sleep(_POLL)
        yield
    finally:
        os.close(handle)  # which releases the lock


def is_locked(path: Path) -> bool:
    """Whether a lock file is held right now, by this process or another one.

    Args:
        path: The lock file; one that does not exist is not held.
    """
    try:
        handle = system.open_to_read(path)  # a run can be read where nothing can be written
    except OSError:
        return False
    try:
        return not lock_descriptor(handle, blocking=False)
    finally:
        os.close(handle)


@contextmanager
def open_locked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for appending and hold a lock on it; it is created if missing.

    If the file was moved or removed while this process waited for the lock, the file that now has
    its name is opened instead.

    Args:
        path: The file; its folder must exist.

    Yields:
        The open file, at its end.
    """
    while True:
        with os.fdopen(system.open_to_append(path), "ab") as handle:
            lock_descriptor(handle.fileno())
            if _is_at(handle, path):
                handle.seek(0, os.SEEK_END)
                yield handle
                return


def _is_at(handle: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False
