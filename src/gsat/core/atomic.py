"""Atomic writes: a file appears under its name when it is complete and on disk, or not at all.

Content goes to a temporary file beside the target (``.NAME.….partial``), which is synced to disk
and renamed. A reader sees the old file or the new one; a process that is killed leaves at most a
temporary file, which :func:`clear_partial_files` removes.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from gsat.core import system

PARTIAL: Final = ".partial"
# Names of temporary files: ours, and those that safetensors wrote for earlier versions.
_ORPHAN: Final = re.compile(r"\..+\.partial|\.tmp[A-Za-z0-9]{6}")
_ABANDONED: Final = 3600.0  # seconds in which a temporary file has not grown


def write_blocks(path: Path, blocks: Iterable[bytes | memoryview]) -> None:
    """Create or replace a file atomically, from blocks that are written one after the other.

    If it fails, ``path`` stays as it was and the temporary file is removed.
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
    """Create or replace a UTF-8 text file atomically; line ends are written as they are."""
    write_bytes(path, text.encode())


def write_json(path: Path, values: Any) -> None:
    """Create or replace a JSON file atomically."""
    write_text(path, json.dumps(values, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def move_into_place(source: Path, target: Path) -> None:
    """Rename a complete file, already synced, and wait until its new name is on disk."""
    system.rename(source, target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Wait until new names in ``folder`` are on disk."""
    if os.name == "nt":  # Windows has no such call for folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        system.sync(handle)
    finally:
        os.close(handle)


def partial_name(path: Path) -> Path:
    """A new name beside ``path``, which nobody can guess, for a file that is being written."""
    return path.with_name(f".{path.name[:200]}.{uuid4().hex}{PARTIAL}")


def is_partial(path: Path) -> bool:
    """Whether a file is a temporary one of an atomic write."""
    return _ORPHAN.fullmatch(path.name) is not None


def clear_partial_files(folder: Path) -> None:
    """Remove the partial files of killed processes below a folder that no process is using."""
    for at, _, files in os.walk(folder):
        for name in files:
            if _ORPHAN.fullmatch(name):
                system.remove(Path(at, name))


def clear_abandoned_files(folder: Path) -> None:
    """Remove temporary files that have not grown for an hour; other processes may be at work."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if not _ORPHAN.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            with suppress(OSError):
                if time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED:
                    system.remove(Path(entry.path))
