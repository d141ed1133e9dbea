"""Unpacking of zips that may be hostile: only the members asked for, only where asked for."""

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
    """Unpack members of a zip, each to its path; nothing else is written.

    A zip with links, or with names that lead out of its folder, is refused as a whole.

    Args:
        archive: The zip.
        members: Paths to write to, by the names inside the zip.
        name: What errors call the zip. (default: its path)

    Raises:
        DataError: If the zip is damaged or unsafe, lacks a member or unpacks to too many bytes.
    """
    name = name or str(archive)
    try:
        with zipfile.ZipFile(archive) as held:
            for info in held.infolist():
                if why := _unsafe(info):
                    raise DataError(f"{name} is not unpacked: it contains {info.filename!r}, {why}")
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
        raise DataError(f"{name} contains '{member}' encrypted or in an unsupported compression")
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
    return DataError(f"{name} is a damaged zip ({' '.join(str(error).split())})")
