"""Transfers over HTTP into a file, in several attempts that resume where the last one stopped."""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse, responses
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

from pydantic import Field

from gsat import __version__
from gsat.core.errors import DataError, DataNotFoundError, shown
from gsat.core.files import read_json
from gsat.core.parsing import FileModel
from gsat.core.writing import write_json

PAUSES: Final = (1.0, 2.0, 4.0)  # seconds before the second attempt and later ones
TIMEOUT: Final = 30.0  # seconds without a byte
BLOCK: Final = 1 << 16
TEMPORARY: Final = frozenset({408, 429, 500, 502, 503, 504})


class _Note(FileModel):
    """The note beside a partial file."""

    url: str
    version: str
    total: int = Field(ge=0)


class TransferError(Exception):
    """A transfer failed and may be tried again."""


class Transfer:
    """A transfer of one address into one file.

    A note beside the file records which version of it the server sent (its ETag or date): only the
    same version is resumed.
    """

    def __init__(self, url: str, handle: IO[bytes], partial: Path, size: int) -> None:
        self.url = url
        self.handle = handle
        self.note = partial.with_name(f"{partial.name}.json")
        self.size = size
        self.answered = False

    def run(self) -> None:
        """Transfer all bytes, in several attempts if necessary."""
        with _progress(self.url) as show:
            for pause in PAUSES:
                try:
                    return self._attempt(show)
                except TransferError:
                    if not self.answered:  # no such server: waiting would not help
                        raise
                    time.sleep(pause)
            self._attempt(show)

    def resumable(self) -> bool:
        """Whether a later call can resume the transfer."""
        return self.handle.seek(0, os.SEEK_END) > 0 and self._noted()[0] != ""

    def _attempt(self, show: Callable[[int, int], None]) -> None:
        version, total = self._noted()
        have = self.handle.seek(0, os.SEEK_END) if version else 0
        if have and have == total:  # killed after the last byte
            return
        headers = {"User-Agent": f"gsat/{__version__}", "Accept-Encoding": "identity"}
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": version}
        with self._open(urllib.request.Request(self.url, headers=headers)) as response:
            length = response.headers.get("Content-Length", "")
            rest = int(length) if length.isdecimal() else 0
            if response.status == 200:
                have, total = 0, rest
                self._restart(_version_of(response), total)
            elif not (have and _continues(response, have, version)):
                self._restart()
                raise TransferError("the server sent another range than requested")
            total = have + rest if rest else total
            if self.size and total and total != self.size:
                raise self._wrong_size(total)
            for block in _blocks(response):
                self.handle.write(block)
                self.handle.flush()
                have += len(block)
                show(have, total or self.size)
                if self.size and have > self.size:
                    raise self._wrong_size(f"more than {self.size}")
        if have < total:
            raise TransferError(f"the connection was lost after {have} of {total} bytes")
        if self.size and have != self.size:
            raise self._wrong_size(have)

    def _open(self, request: urllib.request.Request) -> HTTPResponse:
        try:
            response: HTTPResponse = _opener().open(request, timeout=TIMEOUT)
        except urllib.error.HTTPError as error:
            error.close()
            self.answered = True
            answer = f"the server answered {error.code} {responses.get(error.code, '')}".rstrip()
            if error.code == 416 and request.has_header("Range"):
                self._restart()  # the partial file is longer than the file on the server
            elif error.code not in TEMPORARY:
                raise DataNotFoundError(f"can't download {self.url}: {answer}") from error
            raise TransferError(answer) from error
        except (OSError, HTTPException, ValueError) as error:
            raise TransferError(_reason(error)) from error
        self.answered = True
        return response

    def _restart(self, version: str = "", total: int = 0) -> None:
        """Discard the partial file: first its bytes, then the note, so that a kill does no harm."""
        self.handle.truncate(0)
        note = {"url": self.url, "version": version, "total": total}
        write_json(self.note, note)

    def _noted(self) -> tuple[str, int]:
        """The version in the file and its size; an empty version can't be resumed."""
        try:
            note = read_json(self.note, _Note, error=DataError)
            if note["url"] == self.url:
                return note["version"], note["total"]
        except DataError:
            pass  # missing, or killed while it was written
        return "", 0

    def _wrong_size(self, found: int | str) -> DataError:
        return DataError(
            f"{self.url} sent another file than expected: it has {found} bytes, not {self.size}"
        )


def _opener() -> urllib.request.OpenerDirector:
    """An opener for http and https only, redirects included; it uses the environment's proxies."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        _SafeRedirects,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from https to http, which an attacker on the network can fake."""

    def redirect_request(
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any
    ) -> Any:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise DataError(
                f"can't download {shown(req.full_url)}: the server redirects to "
                f"{shown(newurl, 80)}, which is not https"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _version_of(response: HTTPResponse) -> str:
    """Identifies the version of a file: a strong ETag or the date; empty without either."""
    tag = response.headers.get("ETag", "")
    return tag if tag.startswith('"') else response.headers.get("Last-Modified", "")


def _continues(response: HTTPResponse, have: int, version: str) -> bool:
    """Whether a response continues the partial file; some servers ignore If-Range."""
    header = "ETag" if version.startswith('"') else "Last-Modified"
    same = response.headers.get(header, version) == version
    return same and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")


def _blocks(response: HTTPResponse) -> Iterator[bytes]:
    try:
        while block := response.read(BLOCK):
            yield block
    except (OSError, HTTPException) as error:
        raise TransferError(f"the connection was lost: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", error)
    text = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
    return " ".join(text.split())


@contextmanager
def _progress(url: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows bytes done and total as a bar, if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    console, shown = Console(stderr=True), sys.stderr.isatty()
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task(urlsplit(url).path.rsplit("/", 1)[-1], total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
