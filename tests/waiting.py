"""Wait for another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], object], seconds: float = 120) -> None:
    """Wait until a condition holds; fail after this number of seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)
