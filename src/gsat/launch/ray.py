"""Several runs on a Ray cluster, which decides where each runs and tries again when a worker dies.

A run is one task with one CPU and one thread. What travels is plain text, both ways: a recipe's
tables and a path there, a result back, as JSON (Ray itself packs the arguments of a task with
cloudpickle; ours are strings, and the task's function is named, not sent). The run directory lies
where the task runs: on storage that all nodes share, a run goes on from its last checkpoint
wherever it is tried again; elsewhere it begins anew. Recorded runs are written by the caller alone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from gsat.errors import BusyError, DiskError, GSATError, MissingExtraError, RunError
from gsat.launch.local import (
    Done,
    Outcome,
    check_same,
    complete_recipes,
    is_everywhere,
    train_or_resume,
)
from gsat.training.loop import Interrupted
from gsat.training.recipe import Recipe, from_tables
from gsat.training.results import record_once

_RETRIES = 3  # of a run whose worker or node died
_GRACE = 600.0  # seconds that runs have to finish and save their epoch when they are stopped
_HANDOVER = 60.0  # seconds that the worker of a node given up for dead may take to end
_STORE = 100 * 2**20  # bytes; only short texts go through Ray's store of objects


def train_on_ray(
    runs: Mapping[str, Recipe],
    folder: str | Path,
    *,
    address: str | None = None,
    jobs: int | None = None,
    record: str | Path | None = None,
    done: Done | None = None,
    deadline: float | None = None,
    pretrained_cache: str | Path | None = None,
) -> Outcome:
    """Train recipes that may differ in anything on Ray, each in ``folder/NAME``.

    A run that is finished there is not run again, one that was cut short is resumed. A run that
    breaks is not tried again, one whose worker dies is. Ctrl-C lets every running epoch finish and
    be saved; a second one ends them at once.

    Args:
        folder: the same path on every node.
        address: of a cluster, as :func:`ray.init` takes it: ``auto``, ``host:port``, ``ray://…``;
            without it, the Ray this process is connected to, or RAY_ADDRESS, or a Ray of our own
            on this machine, which ends with the call. What a node's own environment says counts
            there (GSAT_DATA, GSAT_CACHE, GSAT_OPS); a Ray of our own has this process's.
        jobs: how many runs at a time (as many as there are CPUs).
        record: a file here to which each finished run is appended, once.
        done: called as each ends.
        deadline: a time of ``time.monotonic()``; when it has come, every running epoch is finished
            and saved, and the rest is left.
        pretrained_cache: as for :func:`gsat.train`; the same path on every node.
    """
    runs = complete_recipes(runs)
    outs = {name: Path(folder).absolute() / name for name in runs}
    for name, recipe in runs.items():
        check_same(outs[name], recipe)
    shared = None if pretrained_cache is None else str(Path(pretrained_cache).absolute())
    with _connected(address, jobs) as ray:
        crew = _Crew(ray, runs, outs, jobs or len(runs), record, done, shared)
        try:
            crew.work(deadline)
        except KeyboardInterrupt:
            crew.stop()
            raise Interrupted(f"stopped; the same command goes on with {folder}") from None
        finally:
            crew.dismiss()
    ended = crew.results.keys() | crew.failures.keys()
    left = [name for name in runs if name not in ended]
    return Outcome(crew.results, crew.failures, left, crew.elsewhere)


class _Crew:
    """The tasks at work, what is left to do, and what came of the rest."""

    def __init__(
        self,
        ray: Any,
        runs: Mapping[str, Recipe],
        outs: Mapping[str, Path],
        size: int,
        record: str | Path | None,
        done: Done | None,
        pretrained_cache: str | None,
    ) -> None:
        self.ray, self.runs, self.outs, self.size = ray, runs, outs, size
        self.record, self.done, self.pretrained_cache = record, done, pretrained_cache
        self.left, self.stopping = list(runs), False
        self.busy: dict[Any, str] = {}
        self.results: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, str] = {}
        self.disk = ""  # what is wrong with it, which is the same for all
        self.elsewhere: list[str] = []  # at work in another process than ours
        self.task = ray.remote(_train_there).options(
            num_cpus=1,
            max_retries=_RETRIES,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
        )

    def work(self, deadline: float | None) -> None:
        while self.left or self.busy:
            if deadline is not None and time.monotonic() >= deadline:
                self.stop()
                return
            while self.left and len(self.busy) < self.size:
                name = self.left.pop(0)
                tables = json.dumps(self.runs[name].tables())
                self.busy[self.task.remote(tables, str(self.outs[name]), self.pretrained_cache)] = (
                    name
                )
            self._hear(deadline)
            if self.disk:
                self.stop()
                raise DiskError(self.disk)

    def stop(self) -> None:
        """Let every running epoch finish and be saved, and wait for it."""
        self.left.clear()
        self.stopping = True
        for task in self.busy:
            # Ray answers by the handler of SIGINT in the worker, which is the training loop's.
            self.ray.cancel(task)
        until = time.monotonic() + _GRACE
        with contextlib.suppress(KeyboardInterrupt):
            while self.busy and time.monotonic() < until:
                self._hear(until)

    def dismiss(self) -> None:
        """End what is still at work; the last checkpoint of each run stands."""
        for task in self.busy:
            self.ray.cancel(task, force=True)
        if self.busy:
            self.ray.wait(list(self.busy), num_returns=len(self.busy), timeout=10.0)

    def _hear(self, until: float | None) -> None:
        """Wait until a task ends, or the time has come."""
        timeout = None if until is None else max(until - time.monotonic(), 0.0)
        for task in self.ray.wait(list(self.busy), timeout=timeout)[0]:
            name = self.busy.pop(task)
            try:
                answer = json.loads(self.ray.get(task))
            except self.ray.exceptions.RayError as error:
                if self.stopping:  # it had not begun, or was still importing
                    continue
                answer = {"failed": _reason(error)}
            if "record" in answer:
                if self.record is not None:
                    record_once(self.record, answer["record"])
                self.results[name] = answer["result"]
                self._tell(name, answer["result"])
            elif "disk" in answer:
                self.disk = self.disk or answer["disk"]
            elif "busy" in answer:
                self.elsewhere.append(name)
            elif "failed" in answer:
                self.failures[name] = answer["failed"]
                self._tell(name, answer["failed"])

    def _tell(self, name: str, said: dict[str, Any] | str) -> None:
        if self.done:
            self.done(name, said)


@contextmanager
def _connected(address: str | None, jobs: int | None) -> Iterator[Any]:
    """The module ``ray``, connected; what was begun here ends here."""
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray", "training on a Ray cluster") from None
    if address is None and ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    # Sockets lie in it, and the path of a socket is 107 bytes at most: not in a long TMPDIR.
    with tempfile.TemporaryDirectory(
        prefix="gsat-", dir="/tmp", ignore_cleanup_errors=True
    ) as temporary:
        try:
            if address is not None:
                _knock(address)
                ray.init(address, **quiet)
            else:
                # Ray would give way to everything else on the machine; our other engine does not.
                os.environ.setdefault("RAY_worker_niceness", "0")
                ray.init(
                    "local",
                    num_cpus=jobs,
                    include_dashboard=False,
                    object_store_memory=_STORE,
                    _temp_dir=temporary,
                    **quiet,
                )
        except (OSError, RuntimeError, ValueError) as error:
            where = f"connect to Ray at '{address}'" if address else "start Ray"
            why = str(error).strip().partition("\n")[0]
            raise RunError(
                f"can't {where} ({why}); begin a cluster with: ray start --head, or leave out "
                f"--engine ray"
            ) from error
        try:
            yield ray
        finally:
            ray.shutdown()


def _knock(address: str) -> None:
    """Raise if nobody is at ``host:port``: Ray would go on trying for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit() and "://" not in address:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()


def _train_there(tables: str, out: str, pretrained_cache: str | None = None) -> str:
    """What a worker does; it may be the second to try. Takes and returns JSON."""
    torch.set_num_threads(1)
    try:
        recipe = from_tables(json.loads(tables))
        check_same(Path(out), recipe)  # the caller may not see this folder
        run = train_or_resume(recipe, out, _HANDOVER, pretrained_cache)
        answer: dict[str, Any] = {"result": run.result, "record": run.record()}
    except (KeyboardInterrupt, Interrupted):
        answer = {}
    except BusyError:
        answer = {"busy": True}
    except DiskError as error:
        answer = {("disk" if is_everywhere(error, out) else "failed"): str(error)}
    except GSATError as error:
        answer = {"failed": str(error)}
    except Exception as error:  # one broken run must not stop the others
        answer = {"failed": f"{type(error).__name__}: {error}"}
    return json.dumps(answer)


def _reason(error: Exception) -> str:
    """One line of what Ray says; what is raised in a task comes after its traceback."""
    import ray

    raised = isinstance(error, ray.exceptions.RayTaskError)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1] if raised else lines[0]
