"""Local worker processes: their environment, and how they die and stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pool_jobs import has_ended, has_text, job, press_ctrl_c_when

from gsat.launch import local
from gsat.launch import pool as pool_module
from gsat.launch.jobs import Outcome
from gsat.launch.pool import PoolResult, WorkerPool
from waiting import wait_until


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[local.Worker]]:
    """The workers that a test starts; all must have ended with the test."""
    started: list[local.Worker] = []

    class Recorded(local.Worker):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)

    monkeypatch.setattr(local, "Worker", Recorded)
    yield started
    assert [worker.process.returncode for worker in started if worker.process.poll() is None] == []


def test_workers_are_new_processes_that_live_as_long_as_the_pool(
    workers: list[local.Worker], capfd: pytest.CaptureFixture[str]
) -> None:
    with WorkerPool(8) as pool:
        worker = pool.run({"a": job("describe")}).results["a"]
        assert len(workers) == 1  # not more than jobs
        many = pool.run({str(k): job("double", k) for k in range(20)})
        assert worker["pid"] == workers[0].process.pid
    assert many == PoolResult({str(k): 2 * k for k in range(20)})
    assert worker == {
        "pid": worker["pid"],
        "parent": os.getpid(),
        "group": worker["pid"],  # Ctrl-C in a terminal does not reach it
        "OMP_NUM_THREADS": "1",
        "torch": False,
        "main": "gsat.launch.worker",  # not the caller's script
        "ignored": False,
    }
    assert [worker.process.returncode for worker in workers] == [0] * len(workers)
    assert capfd.readouterr() == ("", "")


def test_a_worker_that_dies_is_replaced_and_a_job_that_always_kills_it_fails(
    workers: list[local.Worker], tmp_path: Path
) -> None:
    (tmp_path / "times").write_text("once\n")
    with WorkerPool(1) as pool:
        once = pool.run({"a": job("die", str(tmp_path / "times")), "b": job("double", 2)})
        always = pool.run({"a": job("die"), "b": job("double", 2)})
    assert once == PoolResult({"a": "alive", "b": 4})
    assert (always.results, list(always.failures)) == ({"b": 4}, ["a"])
    assert "-9" in always.failures["a"]
    assert [worker.process.returncode for worker in workers] == [-9, -9, -9, 0]


def test_a_worker_that_dies_while_idle_is_replaced(workers: list[local.Worker]) -> None:
    def on_done(name: str, outcome: Outcome) -> None:
        if name == "a":
            workers[0].process.kill()
            workers[0].process.wait()

    with WorkerPool(1) as pool:
        result = pool.run({"a": job("double", 1), "b": job("double", 2)}, on_done=on_done)
    assert result == PoolResult({"a": 2, "b": 4})
    assert [worker.process.returncode for worker in workers] == [-9, 0]


def test_an_interrupt_before_the_first_job_interrupts_it_without_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    worker = local.Worker()
    worker.process.send_signal(signal.SIGINT)  # while the process is starting
    worker.begin("a", job("work", str(tmp_path / "begun")))
    assert Outcome.from_json(worker.pipe.recv_bytes()).status == "interrupted"
    assert worker.end() == 0
    assert capfd.readouterr().err == ""


def test_ctrl_c_lets_running_jobs_save_and_starts_no_other(
    workers: list[local.Worker], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / name for name in "abc"]
    thread = press_ctrl_c_when(lambda: all(map(has_text, paths[:2])))
    with pytest.raises(KeyboardInterrupt), WorkerPool(2) as pool:
        pool.run({path.name: job("work", str(path)) for path in paths})
    thread.join()
    assert [path.exists() and path.read_text() for path in paths] == [
        f"{workers[0].process.pid} saved", f"{workers[1].process.pid} saved", False
    ]  # fmt: skip
    assert [worker.process.returncode for worker in workers] == [0, 0]
    assert capfd.readouterr() == ("", "")


def test_a_second_ctrl_c_kills_jobs_that_ignore_the_first(
    workers: list[local.Worker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, interrupts = tmp_path / "deaf", []
    thread = press_ctrl_c_when(path.exists)
    interrupt = local.LocalBackend.interrupt

    def interrupt_twice(self: local.LocalBackend) -> None:
        interrupt(self)
        interrupts.append(True)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(local.LocalBackend, "interrupt", interrupt_twice)
    with pytest.raises(KeyboardInterrupt), WorkerPool(1) as pool:
        pool.run({"a": job("deaf", str(path))})
    thread.join()
    assert interrupts == [True]
    assert [worker.process.returncode for worker in workers] == [-signal.SIGTERM]


@pytest.mark.usefixtures("workers")
def test_a_deadline_stops_jobs_even_if_this_process_ignores_interrupts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under nohup, and in background jobs of a shell."""
    path = tmp_path / "begun"
    # The deadline passes when the job is running.
    clock = SimpleNamespace(monotonic=lambda: float(has_text(path)))
    monkeypatch.setattr(pool_module, "time", clock)
    monkeypatch.setattr(pool_module, "_LONGEST_WAIT", 0.01)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with WorkerPool(1) as pool:
            result = pool.run({"a": job("work", str(path)), "b": job("double", 1)}, deadline=1.0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result == PoolResult(unfinished=["a", "b"])
    assert path.read_text().endswith(" saved")


ORPHANS = """
import sys
from gsat.launch.jobs import Job
from gsat.launch.pool import WorkerPool
WorkerPool(2).run({name: Job("pool_jobs.deaf", name) for name in sys.argv[1:]})
"""


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    extra = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])}
    caller = subprocess.Popen(
        [sys.executable, "-c", ORPHANS, *map(str, paths)], env={**os.environ, **extra}
    )
    wait_until(lambda: all(map(has_text, paths)))
    caller.kill()
    caller.wait()
    wait_until(lambda: all(map(has_ended, paths)))
