"""Writing of files: atomic replacement, appending of JSON lines, and disk errors.

New content goes to a temporary file in the same folder (``.NAME.….partial``), which is synced and
renamed. A reader sees the old file or the new one; a killed process leaves at most a temporary
file, which :func:`clear_partial_files` removes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from gsat.core import system
from gsat.core.errors import DiskError, GSATError
from gsat.core.locks import open_locked

# Names of temporary files: ours, and those that safetensors wrote for earlier versions.
_TEMPORARY: Final = re.compile(r"\..+\.partial|\.tmp[A-Za-z0-9]{6}")
_ABANDONED: Final = 3600.0  # seconds without growth after which a temporary file is abandoned
# The device itself is the problem: no other file can be written there either.
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


# -- atomic replacement ---------------------------------------------------------------------------


def write_blocks(path: Path, blocks: Iterable[bytes | memoryview]) -> None:
    """Create or replace a file atomically from consecutive blocks.

    On failure, ``path`` stays as it was and the temporary file is removed.
    """
    partial = partial_name(path)
    try:
        handle = system.create(partial)
        try:
            for block in blocks:
                system.write(handle, block)
            system.sync(handle)
        finally:
            os.close(handle)
        move_into_place(partial, path)
    except BaseException:
        with suppress(OSError):
            system.remove(partial)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Create or replace a file atomically."""
    write_blocks(path, [content])


def write_text(path: Path, text: str) -> None:
    """Create or replace a UTF-8 text file atomically, without translating line ends."""
    write_bytes(path, text.encode())


def write_json(path: Path, values: Any) -> None:
    """Create or replace a JSON file atomically."""
    write_text(path, json.dumps(values, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def check_suffix(path: str | Path, suffixes: Sequence[str]) -> str:
    """Return the suffix of an output file; raise unless it is one of those supported."""
    suffix = Path(path).suffix.lower()
    if suffix not in suffixes:
        raise GSATError(
            f"can't write {path}: its name must end in {', '.join(suffixes)}, not "
            f"{repr(suffix) if suffix else 'nothing'}"
        )
    return suffix


def write_output(path: str | Path, content: bytes) -> Path:
    """Create or replace a file named by the user; missing folders are created."""
    path = Path(path)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
    return path


def move_into_place(source: Path, target: Path) -> None:
    """Rename a complete, synced file and wait until the new name is on disk."""
    system.rename(source, target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Wait until new names in a folder are on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        system.sync(handle)
    finally:
        os.close(handle)


def partial_name(path: Path) -> Path:
    """An unpredictable name in the same folder for a file that is being written."""
    return path.with_name(f".{path.name[:200]}.{uuid4().hex}.partial")


def is_partial(path: Path) -> bool:
    """Whether a file is a temporary file of an atomic write."""
    return _TEMPORARY.fullmatch(path.name) is not None


def clear_partial_files(folder: Path) -> None:
    """Remove the temporary files of killed processes below a folder that no process is using."""
    for at, _, files in os.walk(folder):
        for name in files:
            if _TEMPORARY.fullmatch(name):
                system.remove(Path(at, name))


def clear_abandoned_files(folder: Path) -> None:
    """Remove temporary files that have not grown for an hour; other processes may be writing."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if not _TEMPORARY.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            with suppress(OSError):
                if time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED:
                    system.remove(Path(entry.path))


# -- appending ------------------------------------------------------------------------------------


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
                handle.truncate(end)  # half a line would corrupt the next one
                raise
            return True


def check_appendable(path: Path) -> None:
    """Raise unless lines can be appended to a file; its folder is created if missing."""
    check_writable(path.parent)
    with disk_errors(path):
        if path.exists():
            os.close(system.open_to_append(path))


# -- disk errors ----------------------------------------------------------------------------------


@contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn an ``OSError`` into a one-line :class:`~gsat.core.errors.DiskError`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DiskError(
            f"can't write to {where}: {reason}; make room or choose another folder",
            full=error.errno in _FULL,
        ) from error


def check_writable(folder: Path) -> None:
    """Raise unless files can be created in a folder; the folder is created if missing."""
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        probe = partial_name(folder / "probe")
        os.close(system.create(probe))
        system.remove(probe)
