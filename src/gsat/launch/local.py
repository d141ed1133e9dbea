"""Local worker processes with one thread each.

Workers are new interpreters, because a fork after OpenMP has run can hang; unlike workers of
``multiprocessing``, they do not run the caller's script again. They share memory-mapped files
through the page cache. If a worker dies, its job is tried once more.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing import connection
from typing import ClassVar

from gsat.launch.interrupts import hold_interrupts
from gsat.launch.jobs import Backend, Job, Outcome


class LocalBackend(Backend):
    """Local worker processes, started when first needed."""

    tries: ClassVar[int] = 2

    def __init__(self, workers: int) -> None:
        self.capacity = workers
        self._workers: list[Worker] = []

    @property
    def running(self) -> int:
        """Number of busy workers."""
        return sum(worker.job is not None for worker in self._workers)

    def submit(self, name: str, job: Job) -> None:
        """Start a job in an idle worker, or in a new one."""
        worker = next((worker for worker in self._workers if worker.job is None), None)
        if worker is None:
            worker = Worker()
            self._workers.append(worker)
        worker.begin(name, job)

    def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
        """Wait until workers answer or die, or the timeout expires."""
        busy = {worker.pipe: worker for worker in self._workers if worker.job is not None}
        ended = []
        for pipe in connection.wait(list(busy), timeout):
            worker = busy[pipe]  # type: ignore[index]
            name, worker.job = worker.job, None
            assert name is not None
            try:
                outcome = Outcome.from_json(worker.pipe.recv_bytes())
            except (EOFError, ConnectionResetError):
                self._workers.remove(worker)
                outcome = Outcome("died", f"its process died (exit code {worker.end()})")
            ended.append((name, outcome))
        return ended

    def interrupt(self) -> None:
        """Send SIGINT to every busy worker."""
        for worker in self._workers:
            if worker.job is not None:
                worker.process.send_signal(signal.SIGINT)

    def end_jobs(self) -> None:
        """Terminate the busy workers."""
        for worker in [worker for worker in self._workers if worker.job is not None]:
            self._workers.remove(worker)
            worker.process.terminate()
            worker.end()

    def close(self) -> None:
        """End all workers."""
        self.end_jobs()
        for worker in self._workers:
            worker.pipe.close()
        while self._workers:
            self._workers.pop().end()


class Worker:
    """A process that receives jobs through a pipe and does one after another.

    With limits, its memory beyond the program's own (bytes) and the CPU time of each job (seconds)
    are bounded, and its messages are discarded.
    """

    def __init__(self, limits: tuple[int, int] | None = None) -> None:
        self.job: str | None = None
        self.pipe, theirs = multiprocessing.Pipe()
        handle = theirs.fileno()
        extra = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        # The new process inherits the blocked SIGINT: Ctrl-C is deferred until its first job.
        with hold_interrupts():
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "gsat.launch.worker"),
                    *map(str, (handle, os.getpid(), *(limits or ()))),
                ],
                stdin=subprocess.DEVNULL,
                stderr=None if limits is None else subprocess.DEVNULL,
                env={**os.environ, **extra},
                pass_fds=[handle],
                process_group=0,  # Ctrl-C in a terminal reaches only the parent
            )
        theirs.close()  # so that the pipe closes when the worker ends

    def begin(self, name: str, job: Job) -> None:
        """Send a job to the process."""
        self.job = name
        message = json.dumps([job.function, json.dumps(job.payload)])
        # wait() notices a worker that died while it was idle.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send_bytes(message.encode())

    def end(self) -> int:
        """Wait for the end of the process and return its exit code."""
        self.pipe.close()
        return self.process.wait()
