"""Downloads into the cache; a file is renamed into place once it is complete and checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
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
        url = group[0].url
        try:
            if group[0].member:
                _fetch_members(url, group)
            else:
                _fetch_file(group[0])
        except DataError as error:
            raise type(error)(f"{error}; by hand: {group[0].instruction()}") from error
        except OSError as error:
            raise DataError(
                f"can't write {url} to {cache_folder() / 'raw'}: {error.strerror or error}; "
                "make room, or set GSAT_CACHE to another folder"
            ) from error


def _fetch_file(file: RawFile) -> None:
    def finish(partial: Path) -> None:
        if why := file.mismatch(partial):
            raise DataError(f"{file.url} sent another file than expected: {why}")
        move_into_place(partial, file.home)

    download(file.url, _partial(file.home), finish, done=file.home.is_file, size=file.size)


def _fetch_members(url: str, files: Sequence[RawFile]) -> None:
    parts = {file.member: _partial(file.home) for file in files}

    def done() -> bool:
        return all(file.home.is_file() for file in files)

    def finish(partial: Path) -> None:
        try:
            for part in parts.values():
                part.parent.mkdir(parents=True, exist_ok=True)
            unpack(partial, parts, url)
            for file in files:
                if why := file.mismatch(parts[file.member]):
                    raise DataError(f"{url} sent another {file.member} than expected: {why}")
            for file in files:
                move_into_place(parts[file.member], file.home)
        finally:
            for part in parts.values():
                part.unlink(missing_ok=True)

    archive = cache_folder() / "raw" / f"{sha256(url.encode())[:16]}.zip"
    download(url, _partial(archive), finish, done=done, size=files[0].size)


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def download(
    url: str,
    partial: Path,
    finish: Callable[[Path], None],
    *,
    done: Callable[[], bool],
    size: int = 0,
) -> None:
    """Download ``url`` to ``partial``, resuming where an earlier call was interrupted.

    ``partial`` is locked: other processes that need the same file wait.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"can't download {url}: only http and https addresses are accepted")
    partial.parent.mkdir(parents=True, exist_ok=True)
    if done():
        return
    # The lock is on the partial file itself: it ends with the process and leaves no lock file.
    with open_locked(partial) as handle:
        if done():  # by the process that held the lock before
            partial.unlink(missing_ok=True)
            return
        transfer = Transfer(url, handle, partial, size)
        keep = False
        try:
            transfer.run()
            os.fsync(handle.fileno())
            finish(partial)
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
