"""Raw files: paths, checksums, and sources. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gsat.core.errors import DataError, DataNotFoundError
from gsat.core.files import file_sha256
from gsat.core.folders import cache_folder, data_folder, offline


@dataclass(frozen=True)
class RawFile:
    """A raw file of a data set: path, checksum and source.

    Attributes:
        path: Path under ``GSAT_DATA`` or under the cache's ``raw`` folder.
        sha256: SHA-256, or several of which one must match; empty if none is published.
        source: Name of the publisher.
        url: Address of the file, or of the zip that contains it. (default: none)
        size: Bytes at ``url``; 0 if unknown. (default: 0)
        member: Path inside the zip at ``url``. (default: ``url`` is the file itself)
        instead: The same data in another form, used if this file is missing. (default: none)
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
        """Path of a download, in the cache's ``raw`` folder."""
        return cache_folder() / "raw" / self.path

    def find(self) -> Path | None:
        """Find the file under ``GSAT_DATA``, then in the cache, then in its other form."""
        folder = data_folder()
        places = [folder / self.path, self.home] if folder else [self.home]
        other = self.instead.find() if self.instead else None
        return next((place for place in places if place.is_file()), other)

    def require(self) -> Path:
        """Find the file, or download it; the error says which file to put where."""
        return require_all([self])[0]

    def instruction(self) -> str:
        """One line that says which file to get, from where, and where to put it."""
        if self.instead:
            return self.instead.instruction()
        inside = f"{self.member} in " if self.member else ""
        place = f"{inside}{self.url} ({self.source})" if self.url else self.source
        return (
            f"{Path(self.path).name}: get it from {place} and put it at "
            f"{self.home} (or set GSAT_DATA to the folder that holds {self.path})"
        )

    def downloads(self) -> RawFile | None:
        """This file or the other form of it that has a ``url``; ``None`` if neither has."""
        if self.url:
            return self
        return self.instead.downloads() if self.instead else None

    def check(self, path: Path) -> None:
        """Raise unless the file that :meth:`find` returned has the right checksum and size."""
        if self.instead and not path.match(self.path):
            self.instead.check(path)
        elif why := self.mismatch(path):
            again = f"get it again from {self.source}"
            if self.url and path == self.home:
                again = "remove it to download it again"
            raise DataError(f"{path} is not the expected file: {why}; {again}")

    def mismatch(self, path: Path) -> str:
        """Describe how a file differs from the expected one; empty if it does not."""
        if not self.sha256:
            size = path.stat().st_size
            wrong = self.size and not self.member and size != self.size
            return f"it has {size} bytes, not {self.size}" if wrong else ""
        accepted = (self.sha256,) if isinstance(self.sha256, str) else self.sha256
        found = file_sha256(path)
        if found in accepted:
            return ""
        return f"its SHA-256 is {found[:12]}…, not {' or '.join(f'{a[:12]}…' for a in accepted)}"


def missing(files: Iterable[RawFile]) -> list[RawFile]:
    """Find out which files have to be downloaded."""
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
    """Find files, or download them; an archive that contains several is downloaded once."""
    files = list(files)
    if needed := missing(files):
        from gsat.datasets.fetch.download import fetch

        fetch([file.downloads() or file for file in needed])
    return [file.find() or file.home for file in files]


def listed_files(
    folder: str, source: str, url: Callable[[str], str], table: str
) -> dict[str, RawFile]:
    """Files of one publisher by name, from lines with SHA-256, bytes and name."""
    rows = (line.split() for line in table.strip().splitlines())
    return {
        name: RawFile(f"{folder}/{name}", sha256, source, url=url(name), size=int(size))
        for sha256, size, name in rows
    }


def damaged(path: Path, source: str, why: str) -> DataError:
    """The error for a file whose content can't be used."""
    return DataError(f"{path} is damaged ({why}); get it again from {source}")
