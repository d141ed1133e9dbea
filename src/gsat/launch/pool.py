"""The worker pool: runs named jobs in other processes and collects their outcomes.

The pool retries jobs whose workers die and stops cleanly: on Ctrl-C, at a deadline, or when a job
finds that no job can succeed.
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

# Seconds per wait: the system call does not accept several weeks.
_LONGEST_WAIT = 3600.0

# Called with the name and outcome of each job that is done, failed or died.
OnDone = Callable[[str, Outcome], None]


def worker_count() -> int:
    """Default number of workers: ``GSAT_JOBS``, or the number of usable cores."""
    number = os.environ.get("GSAT_JOBS", "")
    if not number:
        usable = getattr(os, "sched_getaffinity", None)
        return len(usable(0)) if usable else os.cpu_count() or 1
    if not number.isdecimal() or int(number) < 1:
        raise DataError(
            f"GSAT_JOBS must be a number of worker processes, 1 or more, not {number!r}"
        )
    return int(number)


@dataclass
class PoolResult:
    """Outcomes of several jobs by name."""

    results: dict[str, Any] = field(default_factory=dict)  # return values
    failures: dict[str, str] = field(default_factory=dict)  # reasons
    # Jobs that were not started or did not end, because of a deadline or because another process
    # does the same work. Repeating the call continues with them.
    unfinished: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)  # the unfinished jobs that another process does
    stopped: str | None = None  # the reason if a job stopped all others


class WorkerPool:
    """Worker processes that run several jobs at a time."""

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
        """Run jobs and wait for them.

        Ctrl-C and the deadline (of ``time.monotonic``) ask every running job to stop and wait for
        it; a second Ctrl-C kills them. A ``GSATError`` in ``on_done`` ends the call once the
        running jobs have stopped, any other error immediately.
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
        ended = {*work.result.results, *work.result.failures}
        work.result.unfinished = [name for name in jobs if name not in ended]
        return work.result


class _Work:
    """State of one call of :meth:`WorkerPool.run`."""

    def __init__(self, backend: Backend, jobs: Mapping[str, Job], on_done: OnDone | None) -> None:
        self.backend, self.jobs, self.on_done = backend, jobs, on_done
        self.waiting = list(jobs)
        self.started: set[str] = set()  # and not ended
        self.shared: set[str] = set()  # shared results that exist
        self.tries = dict.fromkeys(jobs, 0)
        self.result = PoolResult()
        self.stopping = False

    def proceed(self, deadline: float | None) -> None:
        """Start jobs until all have ended, the deadline has passed, or a job stops all others."""
        while self.waiting or self.backend.running:
            late = deadline is not None and time.monotonic() >= deadline
            if late or self.result.stopped is not None:
                self.interrupt()
                return
            while self.backend.running < self.backend.capacity:
                name = self._next()
                if name is None:
                    break
                self.waiting.remove(name)
                self.started.add(name)
                self.tries[name] += 1
                with hold_interrupts():  # else a job might be counted that never started
                    self.backend.submit(name, self.jobs[name])
            self._wait(deadline)

    def _next(self) -> str | None:
        """The first job whose shared result no other job is computing."""
        pending = {self.jobs[name].shares for name in self.started} - self.shared - {""}
        return next((name for name in self.waiting if self.jobs[name].shares not in pending), None)

    def interrupt(self) -> None:
        """Ask running jobs to stop and wait for them; Ctrl-C ends the waiting."""
        self.waiting.clear()
        self.stopping = True
        grace = self.backend.grace
        until = None if grace is None else time.monotonic() + grace
        with contextlib.suppress(KeyboardInterrupt):
            self.backend.interrupt()
            while self.backend.running and (until is None or time.monotonic() < until):
                self._wait(until)

    def _wait(self, until: float | None) -> None:
        """Wait until a job ends, or until a point in time."""
        timeout = None if until is None else max(until - time.monotonic(), 0.0)
        timeout = None if timeout is None else min(timeout, _LONGEST_WAIT)
        for name, outcome in self.backend.wait(timeout):
            self._record(name, outcome)

    def _record(self, name: str, outcome: Outcome) -> None:
        result = self.result
        self.started.discard(name)
        if outcome.status == "done":
            self.shared.add(self.jobs[name].shares)
            result.results[name] = outcome.value
        elif outcome.status == "died" and not self.stopping:
            if self.tries[name] < self.backend.tries:
                self.waiting.insert(0, name)
                return
            result.failures[name] = outcome.value
        elif outcome.status == "failed":
            result.failures[name] = outcome.value
        elif outcome.status == "busy":
            result.busy.append(name)
        elif outcome.status == "stop":
            result.stopped = result.stopped or outcome.value
        if self.on_done and (name in result.results or name in result.failures):
            self.on_done(name, outcome)
