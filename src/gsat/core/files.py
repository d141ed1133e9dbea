"""Files that a stranger may have made: how they are opened, read and parsed.

A file is read if it is a regular file, not larger than expected and, in a folder that came from
elsewhere, no link. A FIFO or a device is never waited for.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final

from gsat.core import system
from gsat.core.errors import GSATError, RunError
from gsat.core.limits import SMALL_FILE, in_words
from gsat.core.parsing import ParseError, parse_toml

MOST_ENTRIES: Final = 100_000  # of a run directory


def open_file(path: Path, *, error: type[GSATError], links: bool = False) -> BinaryIO:
    """Open a regular file for reading."""
    try:
        return os.fdopen(system.open_to_read(path, follow=links), "rb")
    except OSError as problem:
        raise error(f"{path} can't be read: {_reason(problem, path)}") from None


def read_file(
    path: Path, *, error: type[GSATError], limit: int = SMALL_FILE, links: bool = False
) -> bytes:
    """Read a regular file."""
    with open_file(path, error=error, links=links) as handle:
        if os.fstat(handle.fileno()).st_size > limit:
            raise _too_large(path, limit, error)
        try:
            content = handle.read(limit + 1)
        except OSError as problem:
            raise error(f"{path} can't be read: {_reason(problem, path)}") from None
    if len(content) > limit:  # it has grown, or the system does not know its size
        raise _too_large(path, limit, error)
    return content


def read_toml(path: Path, *, error: type[GSATError], links: bool = False) -> dict[str, Any]:
    """Read a TOML file."""
    content = read_file(path, error=error, limit=TOML_FILE, links=links)
    try:
        return parse_toml(content)
    except ParseError as problem:
        raise error(f"{path} is not a TOML file: {problem}") from None


TOML_FILE: Final = 1 << 20  # bytes; a recipe has one or two thousand


def bare_name(name: str) -> bool:
    """Whether a name from a description is that of a file beside it, and of nothing else."""
    plain = all(character.isalnum() or character in "._-" for character in name)
    return plain and 0 < len(name) <= 255 and not name.startswith(".")


def check_no_links(folder: Path) -> None:
    """Raise if a folder holds anything but folders and regular files, at any depth.

    What is written to a run directory would be written to where its links lead.
    """
    left, seen = [os.fspath(folder)], 0
    while left:
        try:
            entries = list(os.scandir(left.pop()))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise RunError(f"{folder} can't be read: {_reason(error, folder)}") from None
        seen += len(entries)
        if seen > MOST_ENTRIES:
            raise RunError(f"{folder} holds more than {MOST_ENTRIES} files; it is not a run")
        for entry in entries:
            if entry.is_symlink():
                raise RunError(f"{entry.path} is a symbolic link; a run may hold none: remove it")
            if entry.is_dir(follow_symlinks=False):
                left.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                raise RunError(
                    f"{entry.path} is not a regular file; a run may hold none: remove it"
                )


def is_regular(path: Path) -> bool:
    """Whether there is a regular file, not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _too_large(path: Path, limit: int, error: type[GSATError]) -> GSATError:
    return error(f"{path} is too large: more than {in_words(limit)}")


def _reason(problem: OSError, path: Path) -> str:
    if isinstance(problem, system.NotRegularError):
        return "it is not a regular file"
    if problem.errno == errno.ELOOP or (problem.errno == errno.EMLINK and path.is_symlink()):
        return "it is a symbolic link"
    return problem.strerror or str(problem)
