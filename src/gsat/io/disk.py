"""Errors of the disk, as one line each."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gsat.errors import DiskError
from gsat.io import system
from gsat.io.atomic import partial_name

# The device itself is the problem: nothing else can be written there either.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn an ``OSError`` of the block into a one-line :class:`~gsat.errors.DiskError`.

    Args:
        where: The file or folder that the message names.

    Raises:
        DiskError: If the block raised an ``OSError``: the disk is full, the folder is not
            writable, the path leads through a file.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(
            f"can't write to {where}: {reason}; make room or choose another folder",
            full=error.errno in _FULL,
        ) from error


def check_writable(folder: Path) -> None:
    """Raise unless files can be written in a folder, which is created if it does not exist.

    Args:
        folder: The folder to check.

    Raises:
        DiskError: If the folder can't be created or written to.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe = partial_name(folder / "probe")
        os.close(system.create(probe))
        system.remove(probe)
