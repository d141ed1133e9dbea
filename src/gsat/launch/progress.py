"""Progress bars."""

from __future__ import annotations

import sys
from typing import Any, Self

from gsat.core.terminal import echo, for_terminal


class Progress:
    """A progress bar on standard error with the remaining time; hidden without a terminal."""

    def __init__(self, label: str = "training", quiet: bool = False, counted: bool = True) -> None:
        self.label, self.counted = label, counted
        self.visible = not quiet and sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None

    def start(self, total: int, done: int = 0) -> Self:
        """Show the bar, until :meth:`stop` or the end of a ``with`` block."""
        if not self.visible:
            return self
        from rich import console, progress

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=30),
            progress.MofNCompleteColumn() if self.counted else progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[status]}"),
            console=console.Console(stderr=True),
            transient=True,
            # Without counts, steps are long and rare: estimate the speed over ten minutes.
            speed_estimate_period=30.0 if self.counted else 600.0,
        )
        self._bar.start()
        self._task = self._bar.add_task(self.label, total=total, completed=done, status="")
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def advance(self, status: str = "", steps: int = 1) -> None:
        """Add completed steps."""
        if self._bar:
            self._bar.update(self._task, advance=steps, status=status)

    def update(self, done: int, status: str | None = None) -> None:
        """Set the total number of completed steps."""
        if self._bar:
            shown = {} if status is None else {"status": status}
            self._bar.update(self._task, completed=done, **shown)

    def print_line(self, text: str) -> None:
        """Print a line above the bar."""
        if self._bar:
            self._bar.console.print(for_terminal(text), markup=False)
        elif self.visible:
            echo(text, err=True)

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar:
            self._bar.stop()
            self._bar = None
