"""Unpacking zips that may be hostile: only what was asked for, only where it was asked for."""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Final

from gsat.errors import DataError

LIMIT: Final = 4 << 30  # bytes unpacked from one archive
BLOCK: Final = 1 << 20


def unpack(archive: Path, members: Mapping[str, Path], name: str = "") -> None:
    """Unpack the named members of a zip, each to its path; nothing else is written.

    A zip with names that lead out of a folder, or with links, is refused as a whole: whoever made
    it meant no good.

    Args:
        archive: the zip. members: paths to write, by the names inside the zip.
        name: what to call the zip in errors; its path if empty.
    """
    name = name or str(archive)
    try:
        with zipfile.ZipFile(archive) as held:
            for info in held.infolist():
                if why := _unsafe(info):
                    raise DataError(f"{name} holds {info.filename!r}, {why}: not unpacked")
            chosen = [(_find(held, member, name), path) for member, path in members.items()]
            total = sum(info.file_size for info, _ in chosen)
            if total > LIMIT:
                raise DataError(f"{name} unpacks to {total} bytes, more than the {LIMIT} allowed")
            for info, path in chosen:
                with path.open("wb") as target:
                    target.writelines(_blocks(held, info, name))
                    target.flush()
                    os.fsync(target.fileno())
    except zipfile.BadZipFile as error:
        raise _damaged(name, error) from error


def _unsafe(info: zipfile.ZipInfo) -> str:
    path = PureWindowsPath(info.filename)  # knows both slashes, and drives
    if path.anchor or ".." in path.parts:
        return "which leads out of its folder"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "which is a link"
    return ""


def _find(held: zipfile.ZipFile, member: str, name: str) -> zipfile.ZipInfo:
    if member not in held.namelist():
        raise DataError(f"{name} does not hold '{member}'")
    info = held.getinfo(member)
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{name} holds '{member}' encrypted or packed in an unusual way")
    return info


def _blocks(held: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Iterator[bytes]:
    """The bytes of a member: no more than the zip declares, and with the checksum it declares."""
    try:
        with held.open(info) as source:
            while block := source.read(BLOCK):
                yield block
    except Exception as error:  # zipfile lets damage through as errors of many kinds
        raise _damaged(name, error) from error


def _damaged(name: str, error: Exception) -> DataError:
    return DataError(f"{name} is a damaged zip ({' '.join(str(error).split())})")
