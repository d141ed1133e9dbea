"""Jobs on a Ray cluster, which places them and retries jobs whose worker dies.

A job is one task with one CPU and one thread. Arguments and results are JSON strings: Ray packs
them with cloudpickle, but they contain no objects.
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

_RETRIES = 3  # per job, after its worker or node died
_STORE = 100 * 2**20  # bytes of Ray's object store, which holds only short strings


class RayBackend(Backend):
    """A Ray cluster."""

    grace: ClassVar[float | None] = 600.0  # a node may be lost

    def __init__(self, workers: int | None, address: str | None) -> None:
        self._running: dict[Any, str] = {}
        self._stopping = False
        with ExitStack() as stack:
            self._ray = _connect(address, workers, stack)
            self._connection = stack.pop_all()
        self.capacity = workers or math.inf  # Ray queues tasks until a CPU is free
        self._task = self._ray.remote(perform).options(
            num_cpus=1,
            max_retries=_RETRIES,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
        )

    @property
    def running(self) -> int:
        """Number of submitted tasks."""
        return len(self._running)

    def submit(self, name: str, job: Job) -> None:
        """Submit a job as a task."""
        self._stopping = False
        self._running[self._task.remote(job.function, json.dumps(job.payload))] = name

    def wait(self, timeout: float | None) -> list[tuple[str, Outcome]]:
        """Wait until a task ends or the timeout expires."""
        ended = []
        for task in self._ray.wait(list(self._running), timeout=timeout)[0]:
            name = self._running.pop(task)
            try:
                outcome = Outcome.from_json(self._ray.get(task))
            except self._ray.exceptions.RayError as error:
                # An interrupted task may not have started, or was still importing.
                outcome = Outcome(
                    "interrupted" if self._stopping else "failed", self._reason(error)
                )
            ended.append((name, outcome))
        return ended

    def interrupt(self) -> None:
        """Cancel every task: Ray sends SIGINT to its worker, like Ctrl-C."""
        self._stopping = True
        for task in self._running:
            self._ray.cancel(task)

    def end_jobs(self) -> None:
        """Kill the workers of running tasks."""
        for task in self._running:
            self._ray.cancel(task, force=True)
        if self._running:
            self._ray.wait(list(self._running), num_returns=len(self._running), timeout=10.0)
        self._running.clear()

    def close(self) -> None:
        """Disconnect; a local Ray that was started here is shut down."""
        self.end_jobs()
        self._connection.close()

    def _reason(self, error: Exception) -> str:
        """Extract one line; errors raised in a task end with it, after a traceback."""
        raised = isinstance(error, self._ray.exceptions.RayTaskError)
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return lines[-1] if raised else lines[0]


def _connect(address: str | None, workers: int | None, stack: ExitStack) -> Any:
    """Connect to Ray and return its module; closing the stack disconnects."""
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
            # Ray puts sockets there, whose paths have at most 107 bytes; TMPDIR may be too long.
            temporary = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="gsat-", dir="/tmp", ignore_cleanup_errors=True)
            )
            # Run workers at normal priority, like local workers.
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
    """Raise if no server listens at ``host:port``; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
