"""The worker pool: named jobs, done in other processes, and what came of each.

The pool knows nothing of what its jobs do. It hands them out, tries again when a worker dies, and
stops cleanly: on Ctrl-C, when a deadline has come, or when a job finds that none can succeed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from gsat.core.errors import DataError, GSATError
from gsat.launch.interrupts import hold_interrupts
from gsat.launch.jobs import Backend, Job, Outcome
from gsat.launch.local import LocalBackend
from gsat.launch.ray import RayBackend

# Seconds to wait in one go: the system takes no number of weeks.
_LONGEST_WAIT = 3600.0

# Called with the name of each job that is done, failed or died, and its outcome.
OnDone = Callable[[str, Outcome], None]


def worker_count() -> int:
    """How many workers to share work among: ``GSAT_JOBS``, or one for each core of this process."""
    given = os.environ.get("GSAT_JOBS", "")
    if not given:
        usable = getattr(os, "sched_getaffinity", None)
        return len(usable(0)) if usable else os.cpu_count() or 1
    if not given.isdecimal() or int(given) < 1:
        raise DataError(f"GSAT_JOBS is how many worker processes to use, 1 or more, not {given!r}")
    return int(given)


@dataclass(frozen=True)
class PoolResult:
    """What came of several jobs, by name.

    Attributes:
        results: What the finished ones returned.
        failures: Why the failed ones failed.
        unfinished: Those that were not begun or did not end: the time was over, or another process
            is at them. The same call continues with them.
        busy: Those of ``unfinished`` that another process is at.
        stopped: Why everything was stopped, if a job found that none can succeed.
    """

    results: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    stopped: str | None = None


class WorkerPool:
    """Worker processes that do jobs, several at a time."""

    def __init__(
        self,
        workers: int | None = None,
        backend: Literal["local", "ray"] = "local",
        address: str | None = None,
    ) -> None:
        self._backend: Backend
        if backend == "ray":
            self._backend = RayBackend(workers, address)
        else:
            self._backend = LocalBackend(workers or 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._backend.close()

    def run(
        self,
        jobs: Mapping[str, Job],
        *,
        on_done: OnDone | None = None,
        deadline: float | None = None,
    ) -> PoolResult:
        """Do jobs, and wait for them.

        Ctrl-C asks every running job to stop and waits for it, as a deadline does; a second one
        ends them at once. An error in ``on_done`` ends the call: a ``GSATError`` once the running
        jobs have stopped, any other error at once.
        """
        work = _Work(self._backend, jobs, on_done)
        try:
            work.proceed(deadline)
        except KeyboardInterrupt:
            work.interrupt()
            raise
        except GSATError:
            work.on_done = None
            work.interrupt()
            raise
        finally:
            self._backend.end_jobs()
        return PoolResult(
            work.results,
            work.failures,
            [name for name in jobs if name not in work.results and name not in work.failures],
            work.busy,
            work.stopped,
        )


class _Work:
    """The jobs of one call: those that wait, and what came of the rest."""

    def __init__(self, backend: Backend, jobs: Mapping[str, Job], on_done: OnDone | None) -> None:
        self.backend, self.jobs, self.on_done = backend, jobs, on_done
        self.waiting = list(jobs)
        self.begun: set[str] = set()  # and not ended
        self.made: set[str] = set()  # what jobs share and one of them has made
        self.tries = dict.fromkeys(jobs, 0)
        self.results: dict[str, Any] = {}
        self.failures: dict[str, str] = {}
        self.busy: list[str] = []
        self.stopped: str | None = None
        self.stopping = False

    def proceed(self, deadline: float | None) -> None:
        """Hand out jobs until all have ended, the time has come, or a job stops everything."""
        while self.waiting or self.backend.running:
            if self.stopped is not None or (deadline is not None and time.monotonic() >= deadline):
                self.interrupt()
                return
            while self.backend.running < self.backend.capacity:
                name = self._next()
                if name is None:
                    break
                self.waiting.remove(name)
                self.begun.add(name)
                self.tries[name] += 1
                with hold_interrupts():  # or a job might be waited for that was never begun
                    self.backend.submit(name, self.jobs[name])
            self._wait(deadline)

    def _next(self) -> str | None:
        """The first job that need not wait for what another one is making."""
        making = {self.jobs[name].shares for name in self.begun} - self.made - {""}
        for name in self.waiting:
            if self.jobs[name].shares not in making:
                return name
        return None

    def interrupt(self) -> None:
        """Ask what is running to stop, and wait for it; Ctrl-C ends the waiting."""
        self.waiting.clear()
        self.stopping = True
        grace = self.backend.grace
        until = None if grace is None else time.monotonic() + grace
        with contextlib.suppress(KeyboardInterrupt):
            self.backend.interrupt()
            while self.backend.running and (until is None or time.monotonic() < until):
                self._wait(until)

    def _wait(self, until: float | None) -> None:
        """Wait until a job ends, or until a time has come."""
        timeout = None if until is None else max(until - time.monotonic(), 0.0)
        timeout = None if timeout is None else min(timeout, _LONGEST_WAIT)
        for name, outcome in self.backend.wait(timeout):
            self._take(name, outcome)

    def _take(self, name: str, outcome: Outcome) -> None:
        """Note what came of a job."""
        self.begun.discard(name)
        if outcome.status == "done":
            self.made.add(self.jobs[name].shares)
        if outcome.status == "done":
            self.results[name] = outcome.value
        elif outcome.status == "died" and not self.stopping:
            if self.tries[name] < self.backend.tries:
                self.waiting.insert(0, name)
                return
            self.failures[name] = outcome.value
        elif outcome.status == "failed":
            self.failures[name] = outcome.value
        elif outcome.status == "busy":
            self.busy.append(name)
        elif outcome.status == "stop":
            self.stopped = self.stopped or outcome.value
        if self.on_done and (name in self.results or name in self.failures):
            self.on_done(name, outcome)
