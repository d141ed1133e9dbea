"""Jobs in worker processes of this machine, one thread each.

Workers are fresh interpreters, never forks (a fork after OpenMP has run can hang), and they do not
run the caller's script again, as those of ``multiprocessing`` would. They share memory-mapped
files through the page cache. A worker that dies takes one job with it, which is tried once more.
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
    """Worker processes of this machine, started when they are first needed."""

    tries: ClassVar[int] = 2

    def __init__(self, workers: int) -> None:
        self.capacity = workers
        self._workers: list[_Worker] = []

    @property
    def running(self) -> int:
        """How many workers are busy."""
        return sum(worker.job is not None for worker in self._workers)

    def submit(self, name: str, job: Job) -> None:
        """Begin a job in an idle worker, or in a new one."""
        worker = next((worker for worker in self._workers if worker.job is None), None)
        if worker is None:
            worker = _Worker()
            self._workers.append(worker)
        worker.begin(name, job)

    def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
        """Wait until workers answer or die, or the time is over."""
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
        """Pass Ctrl-C on to every busy worker."""
        for worker in self._workers:
            if worker.job is not None:
                worker.process.send_signal(signal.SIGINT)

    def end_jobs(self) -> None:
        """Terminate the workers that are still busy."""
        for worker in [worker for worker in self._workers if worker.job is not None]:
            self._workers.remove(worker)
            worker.process.terminate()
            worker.end()

    def close(self) -> None:
        """Send the workers away."""
        self.end_jobs()
        for worker in self._workers:
            worker.pipe.close()
        while self._workers:
            self._workers.pop().end()


class _Worker:
    """A process that does one job after another, as they come through a pipe."""

    def __init__(self) -> None:
        self.job: str | None = None
        self.pipe, theirs = multiprocessing.Pipe()
        handle = theirs.fileno()
        own = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        # Blocked signals stay so in the new process: Ctrl-C is held back until its first job.
        with hold_interrupts():
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gsat.launch.worker", str(handle), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **own},
                pass_fds=[handle],
                process_group=0,  # Ctrl-C on a terminal reaches this process, which passes it on
            )
        theirs.close()  # so that the pipe ends when the worker does

    def begin(self, name: str, job: Job) -> None:
        """Hand over a job."""
        self.job = name
        message = json.dumps([job.function, json.dumps(job.payload)])
        # One that died while it was idle is found out when it is waited for.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send_bytes(message.encode())

    def end(self) -> int:
        """Wait for the end of the process; returns its exit code."""
        self.pipe.close()
        return self.process.wait()
