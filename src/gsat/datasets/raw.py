"""Raw files: where they lie, what they must be, where they come from. Imports nothing heavy."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from gsat.errors import DataNotFoundError


@dataclass(frozen=True)
class RawFile:
    """A raw file: where it lies under ``GSAT_DATA``, what it must be, where it comes from."""

    path: str
    sha256: str
    source: str

    def find(self) -> Path | None:
        """The file, if it is here: under ``GSAT_DATA``, then under the cache's ``raw`` folder."""
        return next((p for p in self._candidates() if p.is_file()), None)

    def require(self) -> Path:
        """The file, or an error that says which file to put where."""
        found = self.find()
        if found is None:
            raise DataNotFoundError(f"a raw file is missing: {self.instruction()}")
        return found

    def instruction(self) -> str:
        """Which file to get, from where, and where to put it."""
        return (
            f"{Path(self.path).name}: get it from {self.source} and put it at "
            f"{self._candidates()[-1]} (or set GSAT_DATA to the folder that holds {self.path})"
        )

    def _candidates(self) -> list[Path]:
        roots = [Path(os.environ["GSAT_DATA"])] if os.environ.get("GSAT_DATA") else []
        return [root / self.path for root in [*roots, cache_folder() / "raw"]]


def cache_folder() -> Path:
    """``GSAT_CACHE``, or the platform's place for caches."""
    if os.environ.get("GSAT_CACHE"):
        return Path(os.environ["GSAT_CACHE"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gsat"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "gsat"
    return Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "gsat"
