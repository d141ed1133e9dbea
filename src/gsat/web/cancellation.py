"""Cancellation of computations whose client has gone, or whose time is up."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from gsat.web.requests import RequestError

_CANCELLED: Final[ContextVar[threading.Event | None]] = ContextVar("cancelled", default=None)


@contextmanager
def cancellable() -> Iterator[None]:
    """Cancel computations that this block has begun in other threads when it ends."""
    event = threading.Event()
    token = _CANCELLED.set(event)
    try:
        yield
    finally:
        event.set()
        _CANCELLED.reset(token)


def check_cancelled() -> None:
    """Raise if nobody waits for the result any more. Long work calls it between its parts."""
    event = _CANCELLED.get()
    if event is not None and event.is_set():
        raise RequestError(503, "the request was cancelled")
