"""Downloads into the cache; a file is renamed into place once it is complete and checked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gsat.core.errors import DataError, DataNotFoundError
from gsat.core.files import sha256
from gsat.core.folders import cache_folder
from gsat.core.locks import open_locked
from gsat.core.writing import move_into_place
from gsat.datasets.fetch.archive import unpack
from gsat.datasets.fetch.transfer import Transfer, TransferError

if TYPE_CHECKING:
    from gsat.datasets.fetch.raw_files import RawFile


def fetch(files: Sequence[RawFile]) -> None:
    """Download files into the cache's ``raw`` folder, members of one zip together."""
    groups: dict[str, list[RawFile]] = {}
    for file in files:
        groups.setdefault(file.url if file.member else file.path, []).append(file)
    for group in groups.values():
        try:
            _fetch_together(group)
        except DataError as error:
            raise type(error)(f"{error}; by hand: {group[0].instruction()}") from error
        except OSError as error:
            raise DataError(
                f"can't write {group[0].url} to {cache_folder() / 'raw'}: "
                f"{error.strerror or error}; make room, or set GSAT_CACHE to another folder"
            ) from error


def _fetch_together(files: Sequence[RawFile]) -> None:
    """Download one file, or the zip that contains all files, and move them into place.

    The download resumes where an earlier call was interrupted. The partial file is locked: other
    processes that need the same files wait.
    """
    url, size = files[0].url, files[0].size
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"can't download {url}: only http and https addresses are accepted")
    name = f"{sha256(url.encode())[:16]}.zip" if files[0].member else files[0].path
    partial = _partial(cache_folder() / "raw" / name)
    partial.parent.mkdir(parents=True, exist_ok=True)
    if all(file.home.is_file() for file in files):
        return
    # The lock is on the partial file itself: it ends with the process and leaves no lock file.
    with open_locked(partial) as handle:
        if all(file.home.is_file() for file in files):  # from the process that held the lock before
            partial.unlink(missing_ok=True)
            return
        transfer = Transfer(url, handle, partial, size)
        keep = False
        try:
            transfer.run()
            os.fsync(handle.fileno())
            _move_into_place(files, partial)
        except (TransferError, KeyboardInterrupt) as error:
            keep = transfer.resumable()
            if isinstance(error, KeyboardInterrupt):
                raise
            later = "try again to resume from there" if keep else "try again later"
            raise DataNotFoundError(f"can't download {url}: {error}; {later}") from error
        finally:
            if not keep:
                # Remove the partial file last: after that, another process starts a new one.
                transfer.note.unlink(missing_ok=True)
                partial.unlink(missing_ok=True)


def _move_into_place(files: Sequence[RawFile], downloaded: Path) -> None:
    """Unpack the files if they are members of a zip, check all of them, and rename them."""
    parts = {file: _partial(file.home) if file.member else downloaded for file in files}
    try:
        if files[0].member:
            for part in parts.values():
                part.parent.mkdir(parents=True, exist_ok=True)
            members = {file.member: part for file, part in parts.items()}
            unpack(downloaded, members, files[0].url)
        for file, part in parts.items():
            if why := file.mismatch(part):
                what = file.member or "file"
                raise DataError(f"{file.url} sent another {what} than expected: {why}")
        for file, part in parts.items():
            move_into_place(part, file.home)
    finally:
        for file, part in parts.items():
            if file.member:
                part.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")
