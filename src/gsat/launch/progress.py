"""A progress bar with the time left on a terminal, and silence elsewhere."""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """Epochs done and left, and the latest validation metrics.

    Silent when ``quiet`` or when standard error is not a terminal. If not ``counted``, steps are of
    unlike size, and a share is shown instead of their number.
    """

    def __init__(self, label: str = "training", quiet: bool = False, counted: bool = True) -> None:
        self.label, self.counted = label, counted
        self.visible = not quiet and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None

    def start(self, total: int, done: int = 0) -> None:
        """Show the bar."""
        if not self.visible:
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn() if self.counted else TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[status]}"),
            console=Console(stderr=True),
            transient=True,
            # Large steps come seldom; those of the last half minute would say nothing.
            speed_estimate_period=30.0 if self.counted else 600.0,
        )
        self._bar.start()
        self._task = self._bar.add_task(self.label, total=total, completed=done, status="")

    def advance(self, status: str = "", steps: int = 1) -> None:
        """One epoch is done, or so many steps."""
        if self._bar:
            self._bar.update(self._task, advance=steps, status=status)

    def reach(self, done: int, status: str | None = None) -> None:
        """So many steps are done in all."""
        if self._bar:
            said = {} if status is None else {"status": status}
            self._bar.update(self._task, completed=done, **said)

    def say(self, text: str) -> None:
        """A line beside the bar."""
        if self._bar:
            self._bar.console.print(text)
        elif self.visible:
            sys.stderr.write(f"{text}\n")

    def stop(self) -> None:
        """Take the bar away."""
        if self._bar:
            self._bar.stop()
            self._bar = None
