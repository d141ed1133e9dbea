"""A progress bar over several runs, measured in expected seconds.

A finished run counts in full. A running one counts the seconds that its directory says it has
spent, up to nearly what was expected. So the bar moves, and shows the time left, during long runs.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gsat.launch.progress import Progress
from gsat.study.cost import format_duration, makespan
from gsat.training.run_directory import RunDirectory

_LARGEST_SHARE = 0.95  # of a run that has not ended
_INTERVAL = 5.0  # seconds between updates; runs write their time with each checkpoint


class BenchProgress:
    """Show a progress bar over several runs for the length of a ``with`` block."""

    def __init__(
        self, bar: Progress, folder: Path, expected: Mapping[str, float], jobs: int | None
    ) -> None:
        self.bar, self.folder, self.expected, self.jobs = bar, folder, expected, jobs
        self.ended: set[str] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._update, daemon=True)

    def __enter__(self) -> Self:
        total = sum(self.expected.values())
        self.bar.start(max(round(total), 1), round(self.spent()))
        # The bar can't show the time left before it has moved.
        whole = format_duration(makespan(self.expected.values(), self.jobs or 1))
        self.bar.advance(f"about {whole} {'in all' if self.jobs else 'of one CPU'}", 0)
        if self.bar.visible:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopped.set()
        if self.bar.visible:
            self._thread.join()
        self.bar.stop()

    def end(self, name: str, status: str) -> None:
        """Count a run as ended."""
        self.ended.add(name)
        self.bar.update(round(self.spent()), status)

    def spent(self) -> float:
        """The expected seconds that are done."""
        return sum(
            seconds
            if name in self.ended
            else min(RunDirectory(self.folder / name).read_seconds(), _LARGEST_SHARE * seconds)
            for name, seconds in self.expected.items()
        )

    def _update(self) -> None:
        """Move the bar now and then, until the block ends."""
        while not self._stopped.wait(_INTERVAL):
            self.bar.update(round(self.spent()))
