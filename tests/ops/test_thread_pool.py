"""The thread pool that runs ranges of kernels."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from gsat.ops.numba.thread_pool import ThreadPool


def collect(first: int, last: int, out: list[tuple[int, int, str]]) -> None:
    out.append((first, last, threading.current_thread().name))


def test_each_range_is_run_once_by_a_thread_of_its_own() -> None:
    mine = ThreadPool(3)
    here = threading.current_thread().name
    for _ in range(200):
        out: list[tuple[int, int, str]] = []
        mine.run(collect, [0, 4, 5, 9], [out])
        assert sorted(part[:2] for part in out) == [(0, 4), (4, 5), (5, 9)]
        assert len({part[2] for part in out}) == 3
        assert next(part[2] for part in out if part[0] == 0) == here


def test_some_threads_may_have_nothing_to_do() -> None:
    mine = ThreadPool(4)
    for bounds in ([0, 1], [0, 1, 2], [0, 1, 2, 3, 4], [0, 1, 2], [0, 1, 2, 3, 4]):
        out: list[tuple[int, int, str]] = []
        mine.run(collect, bounds, [out])
        assert len(out) == len(bounds) - 1


def test_a_sleeping_thread_is_woken() -> None:
    mine = ThreadPool(2)
    out: list[tuple[int, int, str]] = []
    mine.run(collect, [0, 1, 2], [out])
    deadline = time.monotonic() + 30
    while not mine._asleep[1]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    mine.run(collect, [2, 3, 4], [out])
    assert len(out) == 4


def test_an_error_is_raised_and_the_pool_still_works() -> None:
    mine = ThreadPool(2)

    def fail(first: int, last: int, where: int) -> None:
        if first == where:
            raise ZeroDivisionError(str(where))

    for where in (0, 1):
        with pytest.raises(ZeroDivisionError, match=str(where)):
            mine.run(fail, [0, 1, 2], [where])
    out: list[tuple[int, int, str]] = []
    mine.run(collect, [0, 1, 2], [out])
    assert len(out) == 2


def test_another_python_thread_does_not_wait_for_the_pool() -> None:
    mine = ThreadPool(2)
    inside, go = threading.Event(), threading.Event()

    def hold(first: int, last: int) -> None:
        inside.set()
        assert go.wait(30)

    holder = threading.Thread(target=mine.run, args=(hold, [0, 1, 2], []))
    holder.start()
    assert inside.wait(30)
    out: list[tuple[int, int, str]] = []
    mine.run(collect, [0, 1, 2], [out])
    assert {part[2] for part in out} == {threading.current_thread().name}
    assert len(out) == 2
    go.set()
    holder.join()


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
@pytest.mark.medium
def test_a_forked_process_makes_its_own_pool() -> None:
    program = """
import os
from gsat.ops.numba.thread_pool import thread_pool
thread_pool(2).run(lambda a, b: None, [0, 1, 2], [])
child = os.fork()
if child == 0:
    thread_pool(2).run(lambda a, b: None, [0, 1, 2], [])
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert finished.stdout.strip() == "7"
