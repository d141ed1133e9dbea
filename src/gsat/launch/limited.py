"""A worker process with limits, for work whose cost can't be estimated; replaced when it dies."""

from __future__ import annotations

import resource
import signal
import subprocess
from typing import Final, Self

from gsat.core.limits import limits
from gsat.launch.jobs import Job, Outcome
from gsat.launch.local import Worker

_WALL: Final = 10  # times the CPU seconds of a job: other processes need the machine, too
_START: Final = 60.0  # seconds, for the imports
_LEAST: Final = 256 << 20  # bytes that RDKit and polars themselves need
_MEMORY: Final = "it needs more memory than allowed (--limit memory=SIZE raises this)"


class LimitedWorker:
    """Runs one job after another in a process with limits.

    Args:
        memory: Bytes beyond those of the program itself.
        seconds: CPU seconds of each job.
    """

    def __init__(self, memory: int, seconds: int) -> None:
        self.memory, self.seconds = memory, seconds
        self.lost = 0.0  # CPU seconds of jobs whose process died
        self._worker: Worker | None = None

    @classmethod
    def for_files(cls) -> Self:
        """Make one with the limits on untrusted files."""
        allowed = limits()
        return cls(max(allowed.memory, _LEAST), allowed.seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process; a new one has to import what it needs."""
        return self._worker is not None

    def run(self, job: Job, wall: float | None = None) -> Outcome:
        """Run a job; an outcome that is not ``done`` has a reason in words.

        It is killed after ``wall`` seconds, by default after ten times its CPU seconds.
        """
        if self._worker is None:
            self._worker = Worker((self.memory, self.seconds))
        worker = self._worker
        patience = 5.0  # seconds for a process that has closed its pipe to end
        try:
            worker.begin("job", job)
            if worker.pipe.poll(_START + _WALL * self.seconds if wall is None else wall):
                outcome = Outcome.from_json(worker.pipe.recv_bytes())
                memory = outcome.status == "failed" and outcome.value.startswith("MemoryError")
                return Outcome("failed", _MEMORY) if memory else outcome
            patience = 0.0
        except (EOFError, ConnectionResetError):
            pass
        except BaseException:
            self._kill(0.0)
            raise
        code = self._kill(patience)
        return Outcome("died", self._reason(code))

    def _kill(self, patience: float) -> int:
        """End the process after some seconds, and return its exit code."""
        worker, self._worker = self._worker, None
        assert worker is not None
        before = _cpu_of_children()
        try:
            worker.process.wait(patience)
        except subprocess.TimeoutExpired:
            worker.process.kill()
        code = worker.end()
        # At most what a job may take: the imports of the process are not the job's fault.
        self.lost += min(_cpu_of_children() - before, self.seconds)
        return code

    def _reason(self, code: int) -> str:
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"it takes more than {self.seconds} CPU seconds (--limit seconds=N raises this)"
        if code == -signal.SIGABRT:
            return _MEMORY
        return f"the program that reads it crashed on it (exit code {code})"


def _cpu_of_children() -> float:
    """CPU seconds of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
