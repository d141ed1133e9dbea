"""Writing so that nothing is ever half-written: a new file is complete before it has its name."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gsat.errors import DiskError

_OUT = "another folder with --out"
_RECORD = "another file with --record"


@contextmanager
def disk_errors(where: Path, option: str = _OUT) -> Iterator[None]:
    """A full disk or an unwritable folder becomes one clear line, with the option to choose by."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(
            f"can't write to {where}: {reason}; make room or choose {option}",
            full=error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO),
        ) from error


def check_folder(folder: Path, option: str = _OUT) -> None:
    """Raise unless files can be written in a folder, which is made if it is not there."""
    with disk_errors(folder, option):
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe.{os.getpid()}.partial"
        probe.touch()
        probe.unlink()


def check_lines(path: Path) -> None:
    """Raise unless lines can be appended to a file; its folder is made if it is not there."""
    check_folder(path.parent, _RECORD)
    with disk_errors(path, _RECORD):
        if path.exists():  # an empty file is not left behind
            path.open("ab").close()


def write_durably(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content`` in one step that survives a crash."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_json(path: Path, values: Any) -> None:
    """Plain values as JSON, durably."""
    text = json.dumps(values, indent=2, allow_nan=False, ensure_ascii=False)
    write_durably(path, f"{text}\n".encode())


def sync_folder(folder: Path) -> None:
    """Make renames in ``folder`` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(content: bytes) -> str:
    """The hex digest."""
    return hashlib.sha256(content).hexdigest()


def checksum(values: Any) -> str:
    """The digest of plain values, however they are laid out in a file."""
    return sha256(json.dumps(values, sort_keys=True).encode())


def append_line(path: Path, values: dict[str, Any], unless: Callable[[], bool]) -> bool:
    """Append one JSON line unless something holds; whether it was appended.

    Several processes may append to one file: from the question to the answer it is locked.
    """
    line = json.dumps(values, allow_nan=False, ensure_ascii=False) + "\n"
    with disk_errors(path, _RECORD):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if unless():
                return False
            end = handle.tell()
            try:
                handle.write(line.encode())
                handle.flush()
                os.fsync(handle.fileno())
            except OSError:
                handle.truncate(end)  # half a line would spoil the next one, too
                raise
            return True
