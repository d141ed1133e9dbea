"""Unpacks untrusted zips: only the requested members, only to the requested paths."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import IO, Final

from gsat.core import system
from gsat.core.errors import DataError, GSATError, shown
from gsat.core.files import open_file
from gsat.core.limits import check_size, limits

BLOCK: Final = 1 << 20


def unpack(archive: Path, members: Mapping[str, Path], name: str = "") -> None:
    """Unpack members of a zip, each to its path; nothing else is written.

    A zip with links, or with names that lead out of its folder, is refused as a whole.
    """
    name = name or str(archive)
    with open_zip(archive, name) as held:
        chosen = [(_find(held, member, name), path) for member, path in members.items()]
        total = sum(info.file_size for info, _ in chosen)
        if total > (most := limits().unpacked):
            raise DataError(f"{name} unpacks to {total} bytes, more than the {most} allowed")
        for info, path in chosen:
            system.remove(path)  # left by a process that was killed
            handle = system.create(path)
            try:
                for block in _blocks(held, info, name):
                    system.write(handle, block)
                system.sync(handle)
            finally:
                os.close(handle)


@contextmanager
def open_zip(archive: Path, name: str = "") -> Iterator[zipfile.ZipFile]:
    """Open an untrusted zip."""
    name = name or str(archive)
    with open_file(archive, error=DataError, links=True) as handle:
        check_size(16 * _directory_bytes(handle), f"the list of files in {name}", DataError)
        try:
            with zipfile.ZipFile(handle) as held:
                for info in held.infolist():
                    if why := _unsafe(info):
                        raise DataError(
                            f"{name} is not unpacked: it contains "
                            f"{shown(repr(info.filename), 80)}, {why}"
                        )
                yield held
        except (GSATError, KeyboardInterrupt):
            raise
        except OSError as error:
            if error.filename is not None or error.errno is not None:
                raise  # not an error of zipfile: the caller's, about another file
            raise _damaged(name, error) from error
        except Exception as error:  # zipfile raises errors of many kinds for damaged files
            raise _damaged(name, error) from error


def read_member(held: zipfile.ZipFile, member: str, name: str) -> bytes:
    """Read a member of a zip into memory."""
    info = _find(held, member, name)
    check_size(info.file_size, f"'{shown(member, 60)}' in {name}", DataError)
    return b"".join(_blocks(held, info, name))


def _directory_bytes(handle: IO[bytes]) -> int:
    """The size of a zip's list of members, which zipfile reads as a whole."""
    size = handle.seek(0, os.SEEK_END)
    handle.seek(max(0, size - (1 << 16) - 22))
    tail = handle.read()
    handle.seek(0)
    at = tail.rfind(b"PK\5\6")
    return int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0


def _unsafe(info: zipfile.ZipInfo) -> str:
    """Why a member must not be unpacked; empty if it may be."""
    path = PureWindowsPath(info.filename)  # understands both slashes, and drives
    if path.anchor or ".." in path.parts:
        return "which leads out of its folder"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "which is a link"
    return ""


def _find(held: zipfile.ZipFile, member: str, name: str) -> zipfile.ZipInfo:
    if member not in held.namelist():
        raise DataError(f"{name} does not contain '{member}'")
    info = held.getinfo(member)
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(
            f"{name} contains '{shown(member, 60)}' encrypted or in an unsupported compression"
        )
    return info


def _blocks(held: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Iterator[bytes]:
    """The bytes of a member; zipfile checks its declared size and checksum."""
    try:
        with held.open(info) as source:
            while block := source.read(BLOCK):
                yield block
    except Exception as error:  # zipfile raises errors of many kinds for damaged files
        raise _damaged(name, error) from error


def _damaged(name: str, error: Exception) -> DataError:
    return DataError(f"{name} is a damaged zip ({shown(' '.join(str(error).split()))})")
