"""How far several runs have come, on a bar whose unit is a second that was reckoned with.

A run counts in full once it has ended; one that is under way by the seconds its folder says it has
spent, up to nearly what was reckoned: none is done before it has ended. So the bar moves, and knows
the time left, while long runs go on.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gsat.launch.progress import Progress
from gsat.studies.cost import duration, makespan
from gsat.training.run_directory import RunDirectory

_NEARLY = 0.95
_EVERY = 5.0  # seconds between two looks; runs tell their time with each checkpoint


class Watch:
    """Shows a bar from the start of a ``with`` block to its end.

    Args:
        bar: not yet started. folder: of the runs.
        expected: seconds that were reckoned with, by the run's name.
        jobs: how many runs there are at a time; None if that is not known.
    """

    def __init__(
        self, bar: Progress, folder: Path, expected: Mapping[str, float], jobs: int | None
    ) -> None:
        self.bar, self.folder, self.expected, self.jobs = bar, folder, expected, jobs
        self.ended: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_now_and_then, daemon=True)

    def __enter__(self) -> Self:
        total = sum(self.expected.values())
        self.bar.start(max(round(total), 1), round(self.spent()))
        # The bar knows nothing of the time left until it has moved.
        whole = duration(makespan(self.expected.values(), self.jobs or 1))
        whole = f"{whole} {'in all' if self.jobs else 'of one CPU'}"
        self.bar.advance(f"about {whole}", 0)
        if self.bar.visible:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self.bar.visible:
            self._thread.join()
        self.bar.stop()

    def end(self, name: str, status: str) -> None:
        """A run has ended."""
        self.ended.add(name)
        self.bar.update(round(self.spent()), status)

    def spent(self) -> float:
        """Of the seconds reckoned with, those that are done."""
        return sum(
            seconds
            if name in self.ended
            else min(RunDirectory(self.folder / name).read_seconds(), _NEARLY * seconds)
            for name, seconds in self.expected.items()
        )

    def _look_now_and_then(self) -> None:
        while not self._over.wait(_EVERY):
            self.bar.update(round(self.spent()))
