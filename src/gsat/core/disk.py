"""Errors of the disk, as one line each."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gsat.core import system
from gsat.core.atomic import partial_name
from gsat.core.errors import DiskError

# The device itself is the problem: nothing else can be written there either.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn an ``OSError`` of the block into a one-line :class:`~gsat.core.errors.DiskError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(
            f"can't write to {where}: {reason}; make room or choose another folder",
            full=error.errno in _FULL,
        ) from error


def check_writable(folder: Path) -> None:
    """Raise unless files can be written in a folder, which is created if it does not exist."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe = partial_name(folder / "probe")
        os.close(system.create(probe))
        system.remove(probe)
