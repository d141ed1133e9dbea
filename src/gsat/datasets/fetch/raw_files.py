"""Raw files: where they lie, what they must be, where they come from. Imports nothing heavy."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gsat.errors import DataError, DataNotFoundError


@dataclass(frozen=True)
class RawFile:
    """A raw file: where it lies under ``GSAT_DATA``, what it must be, where it comes from.

    Attributes:
        path: under ``GSAT_DATA`` or the cache's ``raw`` folder.
        sha256: its checksum, or several of which one must fit; empty where none is published.
        source: who publishes it, in words.
        url: its official place, if it can be downloaded; of the zip that holds it with ``member``.
        size: bytes of what ``url`` sends; 0 where unknown.
        member: its path inside the zip at ``url``.
        instead: the same data in another form, which will do where this file is not here.
    """

    path: str
    sha256: str | tuple[str, ...]
    source: str
    url: str = ""
    size: int = 0
    member: str = ""
    instead: RawFile | None = None

    @property
    def home(self) -> Path:
        """Where a download puts it: in the cache's ``raw`` folder."""
        return cache_folder() / "raw" / self.path

    def find(self) -> Path | None:
        """The file, if it is here: under ``GSAT_DATA``, then in the cache; else its other form."""
        folder = os.environ.get("GSAT_DATA")
        places = [Path(folder) / self.path, self.home] if folder else [self.home]
        other = self.instead.find() if self.instead else None
        return next((place for place in places if place.is_file()), other)

    def require(self) -> Path:
        """The file, downloaded if need be, or an error that says which file to put where."""
        return require_all([self])[0]

    def instruction(self) -> str:
        """Which file to get, from where, and where to put it."""
        if self.instead:
            return self.instead.instruction()
        inside = f"{self.member} in " if self.member else ""
        place = f"{inside}{self.url} ({self.source})" if self.url else self.source
        return (
            f"{Path(self.path).name}: get it from {place} and put it at "
            f"{self.home} (or set GSAT_DATA to the folder that holds {self.path})"
        )

    def downloads(self) -> RawFile | None:
        """What a download would get: this file or its other form; None where there is no url."""
        if self.url:
            return self
        return self.instead.downloads() if self.instead else None

    def check(self, path: Path) -> None:
        """Raise unless what was found at ``path`` is the file expected."""
        if self.instead and not path.match(self.path):
            self.instead.check(path)
        elif why := self.mismatch(path):
            again = f"get it again from {self.source}"
            if self.url and path == self.home:
                again = "remove it, and it is downloaded again"
            raise DataError(f"{path} is not the expected file: {why}; {again}")

    def mismatch(self, path: Path) -> str:
        """What is wrong with the bytes at ``path``; empty if nothing is."""
        if not self.sha256:
            size = path.stat().st_size
            wrong = self.size and not self.member and size != self.size
            return f"it has {size} bytes, not {self.size}" if wrong else ""
        accepted = (self.sha256,) if isinstance(self.sha256, str) else self.sha256
        found = sha256(path)
        if found in accepted:
            return ""
        return f"its SHA-256 is {found[:12]}…, not {' or '.join(f'{a[:12]}…' for a in accepted)}"


def missing(files: Iterable[RawFile]) -> list[RawFile]:
    """Those of the files that have to be downloaded; raises where that can't be."""
    needed = [file for file in files if file.find() is None]
    for file in needed:
        if file.downloads() is None:
            raise DataNotFoundError(f"a raw file is missing: {file.instruction()}")
        if offline():
            raise DataNotFoundError(
                f"a raw file is missing and GSAT_OFFLINE forbids downloads: {file.instruction()}"
            )
    return needed


def require_all(files: Iterable[RawFile]) -> list[Path]:
    """The files, downloaded if need be; what one archive holds is taken from it at once."""
    files = list(files)
    if needed := missing(files):
        from gsat.datasets.fetch.download import fetch

        fetch([file.downloads() or file for file in needed])
    return [file.find() or file.home for file in files]


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def offline() -> bool:
    """Whether ``GSAT_OFFLINE`` forbids downloads."""
    return os.environ.get("GSAT_OFFLINE", "0") not in ("", "0")


def cache_folder() -> Path:
    """``GSAT_CACHE``, or the platform's place for caches."""
    if os.environ.get("GSAT_CACHE"):
        return Path(os.environ["GSAT_CACHE"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gsat"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "gsat"
    return Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "gsat"
