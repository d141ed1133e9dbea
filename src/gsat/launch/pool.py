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

from gsat.errors import DataError, GSATError
from gsat.launch.interrupts import hold_interrupts
from gsat.launch.jobs import Backend, Job, Outcome
from gsat.launch.local import LocalBackend
from gsat.launch.ray import RayBackend

# Seconds to wait in one go: the system takes no number of weeks.
_LONGEST_WAIT = 3600.0

# Called with the name of each job that is done, failed or died, and its outcome.
OnDone = Callable[[str, Outcome], None]


def worker_count() -> int:
    """How many workers to share work among: ``GSAT_JOBS``, or one for each core of this process.

    Raises:
        DataError: If ``GSAT_JOBS`` is not a number from 1 on.
    """
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
    """Worker processes that do jobs, several at a time.

    Args:
        workers: How many jobs at a time. (default: 1 on this machine; on Ray as many as the
            cluster has CPUs)
        backend: ``"local"``: processes on this machine. ``"ray"``: a Ray cluster.
            (default: ``"local"``)
        address: Of the Ray cluster, as for ``ray.init``; see :class:`~gsat.launch.ray.RayBackend`.

    Raises:
        MissingExtraError: Ray was asked for and is not installed.
        RunError: Ray can't be reached or started.

    Example:
        >>> from gsat.launch.jobs import Job
        >>> with WorkerPool(workers=2) as pool:
        ...     result = pool.run({n: Job("math.factorial", int(n)) for n in ("3", "4", "-1")})
        >>> dict(sorted(result.results.items())), result.failures
        ({'3': 6, '4': 24}, {'-1': 'ValueError: factorial() not defined for negative values'})
    """

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
        ends them at once. What ``on_done`` raises ends the call: a :class:`~gsat.errors.GSATError`
        once the running jobs have stopped, any other error at once.

        Args:
            jobs: By name; begun in this order.
            on_done: Called here with the name and the outcome of each job that is done, failed or
                died for the last time. (default: None)
            deadline: A time of ``time.monotonic()``; when it has come, running jobs are asked to
                stop and no other is begun. (default: None)

        Returns:
            What came of all of them.
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
            while self.waiting and self.backend.running < self.backend.capacity:
                name = self.waiting.pop(0)
                self.tries[name] += 1
                with hold_interrupts():  # or a job might be waited for that was never begun
                    self.backend.submit(name, self.jobs[name])
            self._wait(deadline)

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
