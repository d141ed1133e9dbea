"""Jobs on a Ray cluster, which decides where each runs and tries again when a worker dies.

A job is one task with one CPU and one thread. What travels is plain text, both ways, as JSON (Ray
itself packs the arguments of a task with cloudpickle; ours are strings, and the task's function is
named, not sent).
"""

from __future__ import annotations

import json
import logging
import math
import os
import socket
import tempfile
from contextlib import ExitStack
from typing import Any, ClassVar

from gsat.core.errors import MissingExtraError, RunError
from gsat.launch.jobs import Backend, Job, Outcome, perform

_RETRIES = 3  # of a job whose worker or node died
_STORE = 100 * 2**20  # bytes; only short texts go through Ray's store of objects


class RayBackend(Backend):
    """A Ray cluster."""

    grace: ClassVar[float | None] = 600.0  # a node may be gone

    def __init__(self, workers: int | None, address: str | None) -> None:
        self._running: dict[Any, str] = {}
        self._stopping = False
        with ExitStack() as stack:
            self._ray = _connect(address, workers, stack)
            self._connection = stack.pop_all()
        self.capacity = workers or math.inf  # Ray holds back what it has no CPU for
        self._task = self._ray.remote(perform).options(
            num_cpus=1,
            max_retries=_RETRIES,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
        )

    @property
    def running(self) -> int:
        """How many tasks Ray has."""
        return len(self._running)

    def submit(self, name: str, job: Job) -> None:
        """Give a job to Ray."""
        self._stopping = False
        self._running[self._task.remote(job.function, json.dumps(job.payload))] = name

    def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
        """Wait until a task ends, or the time is over."""
        ended = []
        for task in self._ray.wait(list(self._running), timeout=timeout)[0]:
            name = self._running.pop(task)
            try:
                outcome = Outcome.from_json(self._ray.get(task))
            except self._ray.exceptions.RayError as error:
                # While stopping: it had not begun, or was still importing.
                outcome = Outcome(
                    "interrupted" if self._stopping else "failed", self._reason(error)
                )
            ended.append((name, outcome))
        return ended

    def interrupt(self) -> None:
        """Cancel every task: Ray raises SIGINT in its worker, as Ctrl-C does."""
        self._stopping = True
        for task in self._running:
            self._ray.cancel(task)

    def end_jobs(self) -> None:
        """Kill the workers of the tasks that still run."""
        for task in self._running:
            self._ray.cancel(task, force=True)
        if self._running:
            self._ray.wait(list(self._running), num_returns=len(self._running), timeout=10.0)
        self._running.clear()

    def close(self) -> None:
        """Leave the cluster; a Ray of our own is shut down."""
        self.end_jobs()
        self._connection.close()

    def _reason(self, error: Exception) -> str:
        """One line of an error of Ray's; what is raised in a task comes after its traceback."""
        raised = isinstance(error, self._ray.exceptions.RayTaskError)
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return lines[-1] if raised else lines[0]


def _connect(address: str | None, workers: int | None, stack: ExitStack) -> Any:
    """Connect to Ray and return its module; the stack disconnects what is connected here."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray", "training on a Ray cluster") from None
    if address is None and ray.is_initialized():
        return ray
    address = address or os.environ.get("RAY_ADDRESS")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is not None:
            _check_listening(address)
            ray.init(address, **quiet)
        else:
            # Sockets lie in it, and a socket's path has 107 bytes at most: not in a long TMPDIR.
            temporary = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="gsat-", dir="/tmp", ignore_cleanup_errors=True)
            )
            # Ray would give way to everything else on the machine; local workers do not.
            os.environ.setdefault("RAY_worker_niceness", "0")
            ray.init(
                "local",
                num_cpus=workers,
                include_dashboard=False,
                object_store_memory=_STORE,
                _temp_dir=temporary,
                **quiet,
            )
    except (OSError, RuntimeError, ValueError) as error:
        where = f"connect to Ray at '{address}'" if address else "start Ray"
        reason = str(error).strip().partition("\n")[0]
        raise RunError(
            f"can't {where} ({reason}); start a cluster with: ray start --head, or use the local "
            f"back end"
        ) from error
    stack.callback(ray.shutdown)
    return ray


def _check_listening(address: str) -> None:
    """Raise if nobody listens at ``host:port``: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
