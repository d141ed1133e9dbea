"""Ctrl-C (SIGINT): held back for a moment, or taken as a request to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Block SIGINT within a ``with`` block; one that comes meanwhile is delivered at its end.

    Processes that are started within the block begin with SIGINT blocked.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class StopRequest:
    """Take the first Ctrl-C within a ``with`` block as a request to stop; a second one interrupts.

    Signals reach the main thread alone; in any other thread nothing is changed.

    Args:
        on_request: Called when the request comes.

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
