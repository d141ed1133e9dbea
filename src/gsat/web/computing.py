"""Whose turn it is to compute: one model at a time, and nobody overtakes."""

from __future__ import annotations

import threading
from typing import Final


class TakingTurns:
    """A lock that a thread cannot take again while another waits for it.

    Python's own locks are not fair: a thread that lets go of one and asks for it at once mostly
    gets it, however long another has waited. A thread cannot take it twice without letting go.
    """

    def __init__(self) -> None:
        self._next, self._busy = threading.Lock(), threading.Lock()

    def acquire(self, timeout: float = -1) -> bool:
        """Wait for the lock and take it."""
        if not self._next.acquire(timeout=timeout):
            return False
        try:  # held while waiting, so that nobody overtakes
            return self._busy.acquire(timeout=timeout)
        finally:
            self._next.release()

    def release(self) -> None:
        """Let go of the lock."""
        self._busy.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def is_waited_for(self) -> bool:
        """Whether a thread has it and another one is next."""
        return self._next.locked()


# Compiled kernels and torch share threads: one model computes at a time.
COMPUTING: Final = TakingTurns()
