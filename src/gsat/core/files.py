"""Reading of files that may be malicious, and checksums.

Only regular files within a size limit are opened. Symbolic links are refused unless the caller
allows them; opening never blocks on a FIFO or a device.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final

from pydantic import BaseModel

from gsat.core import system
from gsat.core.errors import GSATError, RunError
from gsat.core.limits import SMALL_FILE, check_size, in_words, json_bytes
from gsat.core.parsing import ParseError, check_model, parse_json, parse_toml

MOST_ENTRIES: Final = 100_000  # files and folders in a run directory
TOML_FILE: Final = 1 << 20  # bytes; a recipe has one or two thousand


def open_file(path: Path, *, error: type[GSATError], links: bool = False) -> BinaryIO:
    """Open a regular file for reading."""
    try:
        return os.fdopen(system.open_to_read(path, follow=links), "rb")
    except OSError as problem:
        raise error(f"{path} can't be read: {_reason(problem)}") from None


def read_file(
    path: Path, *, error: type[GSATError], limit: int = SMALL_FILE, links: bool = False
) -> bytes:
    """Read a regular file."""
    with open_file(path, error=error, links=links) as handle:
        size = os.fstat(handle.fileno()).st_size
        try:
            # The file may grow meanwhile, or its size may be unknown to the system.
            content = handle.read(limit + 1) if size <= limit else b""
        except OSError as problem:
            raise error(f"{path} can't be read: {_reason(problem)}") from None
    if max(size, len(content)) > limit:
        raise error(f"{path} is too large: more than {in_words(limit)}")
    return content


def read_toml(path: Path, *, error: type[GSATError], links: bool = False) -> dict[str, Any]:
    """Read a TOML file."""
    content = read_file(path, error=error, limit=TOML_FILE, links=links)
    try:
        return parse_toml(content)
    except ParseError as problem:
        raise error(f"{path} is not a TOML file: {problem}") from None


def read_json(
    path: Path, model: type[BaseModel], *, error: type[GSATError], infinite: bool = False
) -> dict[str, Any]:
    """Read a JSON object and check it against its schema."""
    content = read_file(path, error=error)
    check_size(json_bytes(content), str(path), error)
    try:
        values = parse_json(content, infinite=infinite)
        check_model(model, values)
        return dict(values)
    except ParseError as problem:
        raise error(f"{path} can't be read: {problem}") from None


def read_lines(path: Path, model: type[BaseModel]) -> list[dict[str, Any]]:
    """Read a file of JSON lines and check each line against a schema."""
    if not path.is_file():
        return []
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            values: dict[str, Any] = parse_json(line)
            check_model(model, values)
        except ParseError as error:
            raise GSATError(f"{path} can't be read, line {number}: {error}") from None
        records.append(values)
    return records


def bare_name(name: str) -> bool:
    """Whether a name refers to a file in the same folder, without any path."""
    plain = all(character.isalnum() or character in "._-" for character in name)
    return plain and 0 < len(name) <= 255 and not name.startswith(".")


def check_no_links(folder: Path) -> None:
    """Raise if a folder contains, at any depth, anything but folders and regular files.

    Writing to a run directory must not follow links to other places.
    """
    pending, seen = [os.fspath(folder)], 0
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise RunError(f"{folder} can't be read: {_reason(error)}") from None
        seen += len(entries)
        if seen > MOST_ENTRIES:
            raise RunError(f"{folder} holds more than {MOST_ENTRIES} files; it is not a run")
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif not entry.is_file(follow_symlinks=False):
                kind = "is a symbolic link" if entry.is_symlink() else "is not a regular file"
                raise RunError(f"{entry.path} {kind}; a run may hold none: remove it")


def is_regular(path: Path) -> bool:
    """Whether a path is a regular file and not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def full_path(text: str) -> Path:
    """Make a path absolute and expand ``~``."""
    return Path(os.path.expanduser(text)).absolute()  # noqa: PTH111  # keeps unknown users


def exists(path: str | Path) -> bool:
    """Whether a file or folder exists; False for names that are too long."""
    try:
        return Path(path).exists()
    except OSError:
        return False


def sha256(content: bytes) -> str:
    """SHA-256 of bytes, in hex."""
    return hashlib.sha256(content).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex; the file is read in blocks."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def checksum(values: Any) -> str:
    """SHA-256 of plain values, in hex, independent of how a file formats them."""
    return sha256(json.dumps(values, sort_keys=True).encode())


def _reason(problem: OSError) -> str:
    if isinstance(problem, system.NotRegularError):
        return "it is not a regular file"
    if problem.errno == errno.ELOOP:
        return "it is a symbolic link"
    return problem.strerror or str(problem)
