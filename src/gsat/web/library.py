"""The runs that are shown: found once, known by a short name, opened when they are asked for."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gsat.core.errors import RunError, shown
from gsat.core.files import is_regular
from gsat.training.run import open_run
from gsat.training.run_files import RunSummary, list_runs
from gsat.web.errors import NotFoundError
from gsat.web.limits import Limits
from gsat.web.loaded import LoadedRun

FRESH: Final = 1.0  # seconds for which a list of runs is not read again


@dataclass(frozen=True)
class Entry:
    """A run by its name.

    Attributes:
        name: What addresses call it.
        summary: What is known of it without opening it.
    """

    name: str
    summary: RunSummary

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.summary.path


class RunLibrary:
    """Runs at given paths; no request can name another path.

    Attributes:
        stopping: To be set when the service stops.
    """

    def __init__(self, paths: Iterable[str | Path], limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.paths = [Path(path).absolute() for path in paths]
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._listed: tuple[float, dict[str, Entry]] | None = None
        self._names: dict[Path, str] = {}
        self._opened: OrderedDict[str, tuple[object, LoadedRun]] = OrderedDict()
        for path in self.paths:
            if not path.is_dir():
                raise RunError(f"{path} is not a run, nor a folder of runs: it is no folder")
            if not list_runs(path):
                raise RunError(f"there is no run that can be read in {path}")

    @property
    def is_folder(self) -> bool:
        """Whether one of the paths is a folder of runs, which may grow."""
        return any(not is_regular(path / "recipe.toml") for path in self.paths)

    def entries(self) -> list[Entry]:
        """List the runs, in the order of the paths they were found at."""
        return list(self._entries().values())

    def entry(self, name: str) -> Entry:
        """Return a run by its name."""
        found = self._entries()
        if name not in found:
            listed = ", ".join(list(found)[:10]) + (", …" if len(found) > 10 else "")
            raise NotFoundError(f"there is no run '{shown(name, 60)}': there are {listed}")
        return found[name]

    def open(self, name: str) -> LoadedRun:
        """Open a run; it stays open until others need its place."""
        # A run that is known is not searched again: questions come by the hundreds a second.
        known_entries = self._listed[1] if self._listed is not None else {}
        entry = known_entries.get(name) or self.entry(name)
        stamp = _stamp(entry.path)
        with self._lock:
            known = self._opened.get(name)
            if known is None or known[0] != stamp:  # it is new, or has another model by now
                known = stamp, LoadedRun(name, open_run(entry.path), self.limits, self.stopping)
                self._opened[name] = known
            self._opened.move_to_end(name)
            while len(self._opened) > self.limits.runs:
                self._opened.popitem(last=False)
            return known[1]

    def _entries(self) -> dict[str, Entry]:
        with self._lock:
            if self._listed is not None and time.monotonic() - self._listed[0] < FRESH:
                return self._listed[1]
            found: dict[str, Entry] = {}
            for path in self.paths:
                for summary in list_runs(path) if path.is_dir() else []:
                    name = self._name(summary.path, path)
                    found[name] = Entry(name, summary)
            self._listed = time.monotonic(), found
            return found

    def _name(self, path: Path, folder: Path) -> str:
        """Choose a name for a run, and keep it."""
        if path not in self._names:
            relative = path.name if path == folder else str(path.relative_to(folder))
            plain = re.sub(r"[^A-Za-z0-9._-]+", "-", relative).strip(".-")[:80] or "run"
            name, number, taken = plain, 2, set(self._names.values())
            while name in taken:
                name, number = f"{plain}-{number}", number + 1
            self._names[path] = name
        return self._names[path]


def _stamp(path: Path) -> object:
    """What changes when a run has another model, or ends."""
    stamps = []
    for name in ("best", "result.json", "audit.json"):
        try:
            stamps.append((path / name).stat().st_mtime_ns)
        except OSError:
            stamps.append(0)
    return tuple(stamps)
