"""Downloads: resumed where they broke off, checked before a file gets its name."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from gsat import __version__
from gsat.datasets.archive import unpack
from gsat.datasets.raw import RawFile, cache_folder
from gsat.errors import DataError, DataNotFoundError

PAUSES: Final = (1.0, 2.0, 4.0)  # seconds before the second and every later attempt
TIMEOUT: Final = 30.0  # seconds without a byte
BLOCK: Final = 1 << 16
TEMPORARY: Final = frozenset({408, 429, 500, 502, 503, 504})


class _Broken(Exception):
    """A transfer broke off and may be tried again."""


def fetch(files: Sequence[RawFile]) -> None:
    """Download files into the cache's ``raw`` folder; the members of one zip come together."""
    by_url: dict[str, list[RawFile]] = {}
    for file in files:
        by_url.setdefault(file.url, []).append(file)
    for url, group in by_url.items():
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
        transfer = _Transfer(url, handle, partial, size)
        keep = False
        try:
            transfer.run()
            finish(partial)
        except (_Broken, KeyboardInterrupt) as error:
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


class _Transfer:
    """The bytes of one address on their way into one file.

    Beside the file lies a note of what the server called this version of it: only that version
    is gone on with.
    """

    def __init__(self, url: str, handle: IO[bytes], partial: Path, size: int) -> None:
        self.url = url
        self.handle = handle
        self.note = partial.with_name(f"{partial.name}.json")
        self.size = size
        self.answered = False

    def run(self) -> None:
        """Get all of it, in several attempts if need be."""
        with _progress(self.url) as show:
            for pause in PAUSES:
                try:
                    return self._attempt(show)
                except _Broken:
                    if not self.answered:  # nobody there: no use in waiting
                        raise
                    time.sleep(pause)
            self._attempt(show)

    def resumable(self) -> bool:
        """Whether a later call can go on from what is here."""
        return self.handle.seek(0, os.SEEK_END) > 0 and self._noted()[0] != ""

    def _attempt(self, show: Callable[[int, int], None]) -> None:
        version, total = self._noted()
        have = self.handle.seek(0, os.SEEK_END) if version else 0
        if have and have == total:  # killed when all was there
            return
        headers = {"User-Agent": f"gsat/{__version__}", "Accept-Encoding": "identity"}
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": version}
        with self._open(urllib.request.Request(self.url, headers=headers)) as response:
            length = response.headers.get("Content-Length", "")
            if response.status == 200:
                have, total = 0, int(length) if length.isdecimal() else 0
                self._restart(_version_of(response), total)
            elif not (have and _continues(response, have, version)):
                self._restart()
                raise _Broken("the server sent another part than was asked for")
            if self.size and total and total != self.size:
                raise self._wrong_size(total)
            for block in _blocks(response):
                self.handle.write(block)
                self.handle.flush()
                have += len(block)
                show(have, total or self.size)
                if self.size and have > self.size:
                    raise self._wrong_size(have)
        if have < total:
            raise _Broken(f"the connection broke after {have} of {total} bytes")
        if self.size and have != self.size:
            raise self._wrong_size(have)

    def _open(self, request: urllib.request.Request) -> HTTPResponse:
        try:
            response: HTTPResponse = _opener().open(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            error.close()
            self.answered = True
            if error.code == 416 and request.has_header("Range"):
                self._restart()  # what we have is longer than the file is now
            elif error.code not in TEMPORARY:
                raise DataNotFoundError(
                    f"can't download {self.url}: the server says {error.code} {error.reason}"
                ) from error
            raise _Broken(f"the server says {error.code} {error.reason}") from error
        except (OSError, HTTPException) as error:
            raise _Broken(_reason(error)) from error
        self.answered = True
        return response

    def _restart(self, version: str = "", total: int = 0) -> None:
        """Forget what is here: first the bytes, then the note, so that a kill does no harm."""
        self.handle.truncate(0)
        note = {"url": self.url, "version": version, "total": total}
        self.note.write_text(json.dumps(note), "utf-8")

    def _noted(self) -> tuple[str, int]:
        """The version that is here and its size; an empty version can't be gone on with."""
        try:
            note = json.loads(self.note.read_text("utf-8"))
            if note["url"] == self.url:
                return str(note["version"]), int(note["total"])
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            pass  # killed while it was written
        return "", 0

    def _wrong_size(self, found: int) -> DataError:
        return DataError(
            f"{self.url} sent another file than expected: it has {found} bytes or more, "
            f"not {self.size}"
        )


def _opener() -> urllib.request.OpenerDirector:
    """Takes http and https only, also where a server redirects to; proxies of the environment."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _version_of(response: HTTPResponse) -> str:
    """A name for exactly these bytes: a strong ETag or the date; empty where there is neither."""
    tag = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else response.headers.get("Last-Modified", "")


def _continues(response: HTTPResponse, have: int, version: str) -> bool:
    """Whether the answer is the rest of what we have; not every server minds If-Range."""
    header = "ETag" if version.startswith('"') else "Last-Modified"
    same = response.headers.get(header, version) == version
    return same and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")


def _blocks(response: HTTPResponse) -> Iterator[bytes]:
    try:
        while block := response.read(BLOCK):
            yield block
    except (OSError, HTTPException) as error:
        raise _Broken(f"the connection broke: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", error)
    text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return " ".join(text.split())


@contextmanager
def _progress(url: str) -> Iterator[Callable[[int, int], None]]:
    """Shows bytes done and total: a bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(urlsplit(url).path.rsplit("/", 1)[-1], total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
