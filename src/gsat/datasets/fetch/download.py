"""Downloads into the cache: a file gets its name when it is whole and checked."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from gsat.datasets.fetch.archive import unpack
from gsat.datasets.fetch.raw_files import RawFile, cache_folder
from gsat.datasets.fetch.transfer import Broken, Transfer
from gsat.errors import DataError, DataNotFoundError


def fetch(files: Sequence[RawFile]) -> None:
    """Download files into the cache's ``raw`` folder; the members of one zip come together."""
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
        partial.replace(file.home)

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
                parts[file.member].replace(file.home)
        finally:
            for part in parts.values():
                part.unlink(missing_ok=True)

    name = hashlib.sha256(url.encode()).hexdigest()[:16]
    archive = cache_folder() / "raw" / f"{name}.zip"
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
    """Download ``url`` to ``partial``, going on where an earlier call broke off.

    Args:
        url: http or https.
        partial: where the bytes gather; one process at a time works on it.
        finish: checks the whole file and moves it away.
        done: whether another process has finished it meanwhile.
        size: bytes expected; 0 if unknown.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"can't download {url}: only http and https addresses are taken")
    partial.parent.mkdir(parents=True, exist_ok=True)
    with _alone(partial, done) as handle:
        if handle is None:
            return
        transfer = Transfer(url, handle, partial, size)
        keep = False
        try:
            transfer.run()
            os.fsync(handle.fileno())
            finish(partial)
        except (Broken, KeyboardInterrupt) as error:
            keep = transfer.resumable()
            if isinstance(error, KeyboardInterrupt):
                raise
            later = "try again to go on from there" if keep else "try again later"
            raise DataNotFoundError(f"can't download {url}: {error}; {later}") from error
        finally:
            if not keep:
                # The partial last: once it is gone, another process begins anew, with its own note.
                transfer.note.unlink(missing_ok=True)
                partial.unlink(missing_ok=True)


@contextmanager
def _alone(partial: Path, done: Callable[[], bool]) -> Iterator[IO[bytes] | None]:
    """The partial file, open and locked; None once another process has done the work.

    The lock is on the file itself, so it ends with its owner and leaves nothing behind.
    """
    while not done():
        with partial.open("ab") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            # Its last owner may have moved the file away, or removed it, while we waited.
            if not _is_at(handle, partial):
                continue
            if done():
                partial.unlink(missing_ok=True)
                break
            yield handle
            return
    yield None


def _is_at(handle: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False
