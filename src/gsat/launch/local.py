"""Several runs side by side in worker processes, one thread each.

Workers are spawned, never forked (a fork after OpenMP has run can hang); they share the data set's
memory-mapped arrays through the page cache. A run that is finished is not run again; one that was
cut short is resumed. A worker that dies takes one run with it, which is tried once more.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from gsat.datasets.registry import OWN_DATA, find_entry
from gsat.errors import BusyError, DiskError, GSATError, RunError, TakenError
from gsat.io.files import check_folder
from gsat.ops.numba.compile import compile_quietly
from gsat.training.loop import Interrupted
from gsat.training.recipe import Recipe, Tables, from_tables
from gsat.training.results import record_once
from gsat.training.run_directory import RunDirectory
from gsat.training.train import Run, complete_recipe, load_data, resume, train

_TRIES = 2
_LONGEST = 3600.0  # seconds to listen in one go: the system takes no number of weeks
_HANDOVER = 5.0  # seconds that the workers of a killed command may take to end
# Called with the name of each run as it ends, and its result or, if it failed, why.
Done = Callable[[str, dict[str, Any] | str], None]


@dataclass(frozen=True)
class Outcome:
    """What came of several runs, by name.

    Attributes:
        results: of those that are finished. failures: why the others failed.
        left: those the time was too short for, or that another process is at; the same call goes
            on with them. busy: those of them that another process is at.
    """

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Job:
    tables: Tables
    out: str
    record: str | None
    pretrained_cache: str | None = None


def train_all(
    recipes: Sequence[Recipe],
    folder: str | Path,
    *,
    jobs: int = 1,
    record: str | Path | None = None,
    done: Done | None = None,
) -> list[dict[str, Any]]:
    """Train every recipe in its own run directory ``folder/seed-N``.

    Ctrl-C lets every running epoch finish and be saved; the same call then goes on.

    Args:
        recipes: which differ by seed. jobs: how many processes.
        record: a file to which each finished run is appended, once.
        done: called as each ends.

    Returns:
        The results in the order of the recipes.
    """
    runs = {f"seed-{recipe.seed}": recipe for recipe in recipes}
    ended = train_each(runs, folder, jobs=jobs, record=record, done=done)
    if ended.failures:
        reasons = "; ".join(f"seed {runs[n].seed}: {why}" for n, why in ended.failures.items())
        raise RunError(f"{len(ended.failures)} of {len(recipes)} runs failed: {reasons}")
    if ended.left:
        raise Interrupted(
            f"{len(ended.left)} of {len(recipes)} runs were stopped, or another process has them; "
            f"the same command goes on with {folder}"
        )
    return [ended.results[name] for name in runs]


def train_each(
    runs: Mapping[str, Recipe],
    folder: str | Path,
    *,
    jobs: int = 1,
    record: str | Path | None = None,
    done: Done | None = None,
    deadline: float | None = None,
    pretrained_cache: str | Path | None = None,
) -> Outcome:
    """Train recipes that may differ in anything, each in ``folder/NAME``; see :func:`train_all`.

    Args:
        pretrained_cache: as for :func:`gsat.train`.
        deadline: a time of ``time.monotonic()``; when it has come, every running epoch is finished
            and saved, and the rest is left.
    """
    tasks = []
    for name, recipe in complete_recipes(runs).items():
        out = Path(folder) / name
        check_same(out, recipe)
        paths = (None if path is None else str(path) for path in (record, pretrained_cache))
        tasks.append(_Job(recipe.tables(), str(out), *paths))
    names = list(runs)

    def tell(task: int, said: dict[str, Any] | str) -> None:
        if done:
            done(names[task], said)

    team = _Team(tasks, min(jobs, len(tasks)), tell)
    try:
        team.work(deadline)
    except KeyboardInterrupt:
        team.interrupt()
        raise Interrupted(f"stopped; the same command goes on with {folder}") from None
    finally:
        team.dismiss()
    return Outcome(
        {names[i]: result for i, result in team.results.items()},
        {names[i]: why for i, why in team.failures.items()},
        [n for i, n in enumerate(names) if i not in team.results and i not in team.failures],
        [names[i] for i in team.busy],
    )


def complete_recipes(runs: Mapping[str, Recipe]) -> dict[str, Recipe]:
    """The recipes as runs will hold them, with what is told from data of the user's own."""
    return {
        name: complete_recipe(recipe, load_data(recipe))
        if find_entry(recipe.data.name) is OWN_DATA and not recipe.data.options.get("content")
        else recipe
        for name, recipe in runs.items()
    }


def check_same(out: Path, recipe: Recipe) -> None:
    """Raise if a folder holds a run by another recipe."""
    if RunDirectory(out).is_run() and RunDirectory(out).recipe != recipe:
        raise RunError(f"{out} holds a run with another recipe; choose another --out")


def train_or_resume(recipe: Recipe, out: str, patience: float, pretrained_cache: str | None) -> Run:
    """Begin a run, or go on with it; wait so many seconds for another process to leave it."""
    folder = RunDirectory(out)
    if not folder.is_run():
        try:
            return train(recipe, out, pretrained_cache=pretrained_cache)
        except TakenError:  # another process has begun it since
            check_same(Path(out), recipe)
    if not folder.result_path.is_file():
        folder.await_lock(patience)
    return resume(out, pretrained_cache=pretrained_cache)


class _Worker:
    """A process that does one job after another, as they come through a pipe."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
        # Ctrl-C is held back from its birth to its first job, while everything is imported.
        resource_tracker.ensure_running()  # which would let it through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that the pipe ends when the worker does
        self.task: int | None = None


class _Team:
    """Workers, what is left to do, and what came of the rest."""

    def __init__(
        self, tasks: list[_Job], size: int, done: Callable[[int, dict[str, Any] | str], None]
    ) -> None:
        self.tasks, self.done = tasks, done
        self.left = list(range(len(tasks)))
        self.tries = [0] * len(tasks)
        self.results: dict[int, dict[str, Any]] = {}
        self.failures: dict[int, str] = {}
        self.busy: list[int] = []
        self.disk = ""  # what is wrong with it, which is the same for all
        self.size = size
        self.workers: list[_Worker] = []

    def work(self, deadline: float | None) -> None:
        while self.left or self._busy():
            if deadline is not None and time.monotonic() >= deadline:
                self.interrupt()
                return
            while len(self.workers) < min(self.size, len(self.left) + len(self._busy())):
                self.workers.append(_Worker())
            for worker in self.workers:
                if worker.task is None and self.left:
                    # No Ctrl-C between: a worker that was given nothing would be waited for.
                    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                    worker.task = self.left.pop(0)
                    self.tries[worker.task] += 1
                    # One that died while it was idle is found out below.
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        worker.pipe.send(self.tasks[worker.task])
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
            self._hear(deadline)
            if self.disk:
                self.interrupt()
                raise DiskError(self.disk)

    def _busy(self) -> list[_Worker]:
        return [worker for worker in self.workers if worker.task is not None]

    def _hear(self, deadline: float | None = None) -> None:
        """Listen until a worker says something, or the time has come."""
        busy = {worker.pipe: worker for worker in self._busy()}
        timeout = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        timeout = None if timeout is None else min(timeout, _LONGEST)
        for pipe in wait(list(busy), timeout):
            worker = busy[pipe]  # type: ignore[index]
            task, worker.task = worker.task, None
            assert task is not None
            try:
                outcome, said = worker.pipe.recv()
            except (EOFError, ConnectionResetError):
                self.workers.remove(worker)
                worker.process.join()
                if self.tries[task] < _TRIES:
                    self.left.insert(0, task)
                else:
                    code = worker.process.exitcode
                    self._fail(task, f"its process died (exit code {code})")
                continue
            if outcome == "done":
                self.results[task] = said
                self.done(task, said)
            elif outcome == "failed":
                self._fail(task, said)
            elif outcome == "busy":
                self.busy.append(task)
            elif outcome == "disk":
                self.disk = self.disk or said

    def _fail(self, task: int, why: str) -> None:
        self.failures[task] = why
        self.done(task, why)

    def interrupt(self) -> None:
        """Ask every busy worker to stop after its epoch, and wait; a second Ctrl-C ends them."""
        self.left.clear()
        for worker in self._busy():
            if worker.process.pid is not None:
                os.kill(worker.process.pid, signal.SIGINT)
        with contextlib.suppress(KeyboardInterrupt):
            while self._busy():
                self._hear()

    def dismiss(self) -> None:
        for worker in self.workers:
            worker.pipe.close()
            if worker.task is not None:
                worker.process.terminate()
            worker.process.join()


def _serve(pipe: Connection, parent: int) -> None:
    """The life of a worker."""
    # Ctrl-C on a terminal reaches the parent alone, which passes it on once.
    os.setpgrp()
    # In the background of a script it would be ignored, and with it the end of a budget.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    compile_quietly()  # the terminal shows the parent's bar
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(1)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            answer = _answer(job)
        except KeyboardInterrupt:
            answer = ("left", "")
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        with contextlib.suppress(BrokenPipeError):
            pipe.send(answer)


def _leave_with(parent: int) -> None:
    """End when the parent is gone: nothing is lost, its next command resumes."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def is_everywhere(error: DiskError, out: str) -> bool:
    """Whether other runs would meet it, too: the disk is full, or nothing can be written beside
    this run's folder either."""
    try:
        check_folder(Path(out).parent)
    except DiskError:
        return True
    return error.full


def _answer(job: _Job) -> tuple[str, Any]:
    """What came of a job, for the parent: ``done`` and its result, or what happened and why."""
    try:
        return "done", _train(job)
    except (KeyboardInterrupt, Interrupted) as error:
        return "left", str(error)
    except BusyError as error:
        return "busy", str(error)
    except DiskError as error:
        return ("disk" if is_everywhere(error, job.out) else "failed"), str(error)
    except GSATError as error:
        return "failed", str(error)
    except Exception as error:  # one broken run must not stop the others
        return "failed", f"{type(error).__name__}: {error}"


def _train(job: _Job) -> dict[str, Any]:
    run = train_or_resume(from_tables(job.tables), job.out, _HANDOVER, job.pretrained_cache)
    if job.record is not None:
        record_once(job.record, run.record())
    return run.result
