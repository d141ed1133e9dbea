"""Ctrl-C (SIGINT): held back for a moment, or taken as a request to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

_T = TypeVar("_T")


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Hold SIGINT back within a ``with`` block; one that comes meanwhile is delivered at its end.

    Processes that are started within the block begin with SIGINT blocked.
    """
    came: list[int] = []
    # To block the signal is not enough: another thread, such as that of a progress bar, takes it
    # then, and Python calls the handler in the main thread all the same.
    handled = threading.current_thread() is threading.main_thread()
    handled = handled and signal.getsignal(signal.SIGINT) is not None
    if handled:
        handler = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if handled:
            signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


class InterruptibleCalls:
    """Calls that SIGINT interrupts, in a process that it leaves alone between them.

    One that comes between two calls interrupts the next one. To be made in the main thread.
    """

    def __init__(self) -> None:
        self._came = self._within = False
        # Also where it is ignored, as under nohup or in the background of a script.
        signal.signal(signal.SIGINT, self._handle)

    def run(self, call: Callable[[], _T], otherwise: _T) -> _T:
        """Make a call."""
        try:
            try:
                self._within = True
                if self._came:
                    raise KeyboardInterrupt
                return call()
            finally:  # interrupted here, it is so once, and for the last time
                self._within = self._came = False
        except KeyboardInterrupt:
            return otherwise

    def _handle(self, number: int, frame: Any) -> None:
        if not self._within:
            self._came = True
            return
        self._within = False
        raise KeyboardInterrupt


class StopRequest:
    """Take the first Ctrl-C within a ``with`` block as a request to stop; a second one interrupts.

    Signals reach the main thread alone; in any other thread nothing is changed.

    Attributes:
        made: Whether Ctrl-C has come.
    """

    def __init__(self, on_request: Callable[[], None]) -> None:
        self.on_request, self.made = on_request, False
        self._before: Any = None

    def __enter__(self) -> Self:
        self.made = False
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _handle(self, signum: int, frame: Any) -> None:
        if self.made:
            raise KeyboardInterrupt
        self.made = True
        self.on_request()
