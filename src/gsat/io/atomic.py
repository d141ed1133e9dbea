"""Atomic writes: a file appears under its name when it is complete and on disk, or not at all.

Content goes to a temporary file beside the target (``.NAME.….partial``), which is synced to disk
and renamed. A reader sees the old file or the new one; a process that is killed leaves at most a
``.partial`` file, which :func:`clear_partial_files` removes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

PARTIAL: Final = ".partial"


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end of the block it is renamed to ``path``.

    For writers that need a path. If the block raises, ``path`` stays as it was and the temporary
    file is removed. For content in memory there are :func:`write_bytes`, :func:`write_text` and
    :func:`write_json`.

    Args:
        path: The file to create or replace; its folder must exist.

    Yields:
        A path in the same folder. The block must create a file there.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "numbers.txt"
        >>> with atomic_write(target) as partial:
        ...     _ = partial.write_text("1 2 3")
        >>> target.read_text()
        '1 2 3'
    """
    with _replacing(path) as partial:
        yield partial
        with partial.open("r+b") as handle:
            os.fsync(handle.fileno())


def write_bytes(path: Path, content: bytes) -> None:
    """Create or replace a file atomically.

    Args:
        path: The file; its folder must exist.
        content: All of its bytes.
    """
    with _replacing(path) as partial, partial.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def write_text(path: Path, text: str) -> None:
    """Create or replace a UTF-8 text file atomically; line ends are written as they are.

    Args:
        path: The file; its folder must exist.
        text: All of its text.
    """
    write_bytes(path, text.encode())


def write_json(path: Path, values: Any) -> None:
    """Create or replace a JSON file atomically.

    Args:
        path: The file; its folder must exist.
        values: Plain values; NaN and infinity are refused.

    Raises:
        ValueError: If ``values`` hold NaN or infinity, which are not JSON.
    """
    write_text(path, json.dumps(values, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def move_into_place(source: Path, target: Path) -> None:
    """Rename a complete file, already synced, and wait until its new name is on disk.

    Args:
        source: The file, on the same file system.
        target: Its new name; a file that has it is replaced.
    """
    source.replace(target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Wait until new names in ``folder`` are on disk."""
    if os.name == "nt":  # Windows has no such call for folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def partial_name(path: Path) -> Path:
    """A new name beside ``path`` for a file that is being written."""
    return path.with_name(f".{path.name}.{uuid4().hex[:12]}{PARTIAL}")


def is_partial(path: Path) -> bool:
    """Whether a file is a temporary one of :func:`atomic_write`."""
    return path.name.startswith(".") and path.suffix == PARTIAL


def clear_partial_files(folder: Path) -> None:
    """Remove what killed processes were writing, below ``folder``; no process may be at work there.

    Args:
        folder: Searched with everything below it.
    """
    for file in folder.rglob(f".*{PARTIAL}"):
        file.unlink(missing_ok=True)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path, whose file the block must write and sync; rename it afterwards."""
    partial = partial_name(path)
    try:
        yield partial
        move_into_place(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
