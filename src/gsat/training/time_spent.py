"""Time spent on a run: by the clock, and of the CPU."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Self


class Spent(NamedTuple):
    """Seconds, which other programs lengthen, and CPU seconds of all threads, which they do not.

    Several processes of one training count the time of the first. CPU seconds are None where an
    earlier version, which did not measure them, did part of the work.
    """

    seconds: float = 0.0
    cpu_seconds: float | None = 0.0

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Read :meth:`values` again; earlier versions wrote no CPU seconds."""
        return cls(float(values["seconds"]), values.get("cpu_seconds"))

    @property
    def work(self) -> float:
        """CPU seconds, or seconds by the clock where these are unknown."""
        return self.seconds if self.cpu_seconds is None else self.cpu_seconds

    def and_since(self, start: Clock) -> Spent:
        """Add the time that has passed since a start in this process."""
        now = Clock()
        return self.and_also(Spent(now.wall - start.wall, now.cpu - start.cpu))

    def and_also(self, other: Spent) -> Spent:
        """Add the time of another part of the work."""
        unknown = self.cpu_seconds is None or other.cpu_seconds is None
        cpu = None if unknown else (self.cpu_seconds or 0.0) + (other.cpu_seconds or 0.0)
        return Spent(self.seconds + other.seconds, cpu)

    def values(self) -> dict[str, float]:
        """Plain values for a file, without an unknown one."""
        cpu = {} if self.cpu_seconds is None else {"cpu_seconds": round(self.cpu_seconds, 3)}
        return {"seconds": round(self.seconds, 3), **cpu}


class Clock:
    """The time now, by the clock and of this process on the CPU."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.monotonic(), time.process_time()
