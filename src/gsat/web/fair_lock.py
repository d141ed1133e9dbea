"""A fair (FIFO) lock around model computation."""

from __future__ import annotations

import threading
from typing import Final

from gsat.web.cancellation import check_cancelled


class FairLock:
    """A lock that a thread cannot take again while another one waits for it.

    Python's locks are not fair: a thread that releases one and takes it again at once mostly gets
    it, however long another one has waited. The lock is not reentrant.
    """

    def __init__(self) -> None:
        self._next, self._busy = threading.Lock(), threading.Lock()

    def acquire(self, timeout: float = -1) -> bool:
        """Wait for the lock and take it; return whether that succeeded."""
        if not self._next.acquire(timeout=timeout):
            return False
        try:  # hold the place at the head of the queue while waiting
            return self._busy.acquire(timeout=timeout)
        finally:
            self._next.release()

    def release(self) -> None:
        """Release the lock."""
        self._busy.release()

    def __enter__(self) -> None:
        self.acquire()
        try:
            check_cancelled()  # the client may have gone while its request waited
        except BaseException:
            self.release()
            raise

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def has_waiters(self) -> bool:
        """Whether a thread waits while another one holds the lock."""
        return self._next.locked()


# Compiled kernels and torch share threads: one model computes at a time.
COMPUTING: Final = FairLock()
