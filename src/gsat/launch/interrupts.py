"""Handling of Ctrl-C (SIGINT): defer it, or treat it as a request to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

_T = TypeVar("_T")


@contextmanager
def hold_interrupts() -> Iterator[None]:
    """Defer SIGINT to the end of a ``with`` block.

    Processes that are started within the block begin with SIGINT blocked.
    """
    deferred: list[int] = []
    # Blocking the signal is not enough: another thread, such as a progress bar's, may receive it,
    # and Python would then call the handler in the main thread.
    handled = threading.current_thread() is threading.main_thread()
    handled = handled and signal.getsignal(signal.SIGINT) is not None
    if handled:
        handler = signal.signal(signal.SIGINT, lambda number, frame: deferred.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if handled:
            signal.signal(signal.SIGINT, handler)
        if deferred:
            signal.raise_signal(signal.SIGINT)


class InterruptibleCalls:
    """Make calls in the main thread that SIGINT interrupts; between calls, it is deferred.

    A signal between two calls interrupts the next call.
    """

    def __init__(self) -> None:
        self._deferred = self._within = False
        # Replaces SIG_IGN, too, which nohup and background jobs of a shell inherit.
        signal.signal(signal.SIGINT, self._handle)

    def run(self, call: Callable[[], _T], otherwise: _T) -> _T:
        """Make a call; return ``otherwise`` if it is interrupted."""
        try:
            try:
                self._within = True
                if self._deferred:
                    raise KeyboardInterrupt
                return call()
            finally:  # a signal in this line interrupts, too, but only once
                self._within = self._deferred = False
        except KeyboardInterrupt:
            return otherwise

    def _handle(self, number: int, frame: Any) -> None:
        if not self._within:
            self._deferred = True
            return
        self._within = False
        raise KeyboardInterrupt


class StopRequest:
    """Treat the first Ctrl-C within a ``with`` block as a request to stop; the second interrupts.

    Only the main thread receives signals; in other threads the block has no effect.
    """

    def __init__(self, on_request: Callable[[], None]) -> None:
        self.on_request, self.made = on_request, False  # made: whether Ctrl-C was pressed
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
