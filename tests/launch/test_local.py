"""Worker processes of this machine: what they are, how they die, how they are stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gsat.launch import local
from gsat.launch.jobs import Job, Outcome
from gsat.launch.pool import PoolResult, WorkerPool
from waiting import wait_until


def job(function: str, payload: Any = None) -> Job:
    return Job(f"pool_jobs.{function}", payload)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[local._Worker]]:
    """The workers that a test starts; none may be left when it ends."""
    started: list[local._Worker] = []

    class Known(local._Worker):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)

    monkeypatch.setattr(local, "_Worker", Known)
    yield started
    assert [worker.process.returncode for worker in started if worker.process.poll() is None] == []


def press_ctrl_c(once: Callable[[], object]) -> threading.Thread:
    """Press Ctrl-C as soon as something holds."""

    def watch() -> None:
        with suppress(AssertionError):
            wait_until(once)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_are_fresh_processes_that_live_as_long_as_the_pool(
    workers: list[local._Worker], capfd: pytest.CaptureFixture[str]
) -> None:
    with WorkerPool(2) as pool:
        many = pool.run({str(k): job("double", k) for k in range(20)})
        found = pool.run({"a": job("describe")}).results["a"]
        assert 1 <= len(workers) <= 2
        assert found["pid"] in [worker.process.pid for worker in workers]
    assert many == PoolResult({str(k): 2 * k for k in range(20)})
    assert found == {
        "pid": found["pid"],
        "parent": os.getpid(),
        "group": found["pid"],  # Ctrl-C on a terminal does not reach it
        "OMP_NUM_THREADS": "1",
        "torch": False,
        "main": "gsat.launch.worker",  # not the caller's script
        "ignored": False,
    }
    assert [worker.process.returncode for worker in workers] == [0] * len(workers)
    assert capfd.readouterr() == ("", "")


def test_no_more_workers_than_jobs(workers: list[local._Worker]) -> None:
    with WorkerPool(8) as pool:
        pool.run({"a": job("double", 1)})
    assert len(workers) == 1


def test_a_worker_that_dies_is_replaced(workers: list[local._Worker], tmp_path: Path) -> None:
    (tmp_path / "times").write_text("once\n")
    with WorkerPool(1) as pool:
        result = pool.run({"a": job("die", str(tmp_path / "times")), "b": job("double", 2)})
    assert result == PoolResult({"a": "alive", "b": 4})
    assert [worker.process.returncode for worker in workers] == [-9, 0]


def test_a_job_whose_workers_die_fails(workers: list[local._Worker]) -> None:
    with WorkerPool(1) as pool:
        result = pool.run({"a": job("die"), "b": job("double", 2)})
    assert result == PoolResult({"b": 4}, {"a": "its process died (exit code -9)"})
    assert len(workers) == 3


def test_a_worker_that_dies_while_idle_is_replaced(workers: list[local._Worker]) -> None:
    def on_done(name: str, outcome: Outcome) -> None:
        if name == "a":
            workers[0].process.wait(timeout=60)  # dead when the next job is handed out

    with WorkerPool(1) as pool:
        result = pool.run({"a": job("die_later", 0.05), "b": job("double", 2)}, on_done=on_done)
    assert result == PoolResult({"a": "done", "b": 4})
    assert [worker.process.returncode for worker in workers] == [-signal.SIGALRM, 0]


def test_a_worker_keeps_an_interrupt_until_it_has_a_job(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C may come while a process is starting: no traceback, no loss."""
    worker = local._Worker()
    worker.process.send_signal(signal.SIGINT)
    worker.begin("a", job("work", str(tmp_path / "begun")))
    assert Outcome.from_json(worker.pipe.recv_bytes()).status == "interrupted"
    assert worker.end() == 0
    assert capfd.readouterr().err == ""


def test_ctrl_c_lets_jobs_save_and_begins_nothing_new(
    workers: list[local._Worker], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / name for name in "abc"]
    thread = press_ctrl_c(lambda: all(path.exists() and path.read_text() for path in paths[:2]))
    with pytest.raises(KeyboardInterrupt), WorkerPool(2) as pool:
        pool.run({path.name: job("work", str(path)) for path in paths})
    thread.join()
    assert [path.exists() and path.read_text() for path in paths] == [
        f"{workers[0].process.pid} saved", f"{workers[1].process.pid} saved", False
    ]  # fmt: skip
    assert [worker.process.returncode for worker in workers] == [0, 0]
    assert capfd.readouterr() == ("", "")


def test_a_second_ctrl_c_ends_jobs_that_do_not_stop(
    workers: list[local._Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = tmp_path / "deaf", []
    thread = press_ctrl_c(path.exists)
    interrupt = local.LocalBackend.interrupt

    def interrupt_twice(self: local.LocalBackend) -> None:
        interrupt(self)
        asked.append(True)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(local.LocalBackend, "interrupt", interrupt_twice)
    with pytest.raises(KeyboardInterrupt), WorkerPool(1) as pool:
        pool.run({"a": job("deaf", str(path))})
    thread.join()
    assert asked == [True]
    assert [worker.process.returncode for worker in workers] == [-signal.SIGTERM]


@pytest.mark.usefixtures("workers")
def test_jobs_are_stopped_also_where_interrupts_are_ignored(tmp_path: Path) -> None:
    """As a shell does for what ends in &, and nohup."""
    path = tmp_path / "begun"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with WorkerPool(1) as pool:
            result = pool.run(
                {"a": job("work", str(path)), "b": job("double", 1)},
                deadline=time.monotonic() + 1.5,
            )
    finally:
        signal.signal(signal.SIGINT, before)
    assert result == PoolResult(unfinished=["a", "b"])
    assert not path.exists() or path.read_text().endswith(" saved")


ORPHANS = """
import sys
from gsat.launch.jobs import Job
from gsat.launch.pool import WorkerPool
WorkerPool(2).run({name: Job("pool_jobs.deaf", name) for name in sys.argv[1:]})
"""


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    here = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    caller = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, *map(str, paths)], env={**os.environ, **here}
    )
    wait_until(lambda: all(path.exists() and path.read_text() for path in paths))
    caller.kill()
    caller.wait()
    wait_until(lambda: not any(is_there(int(path.read_text())) for path in paths))
