"""Jobs for the tests of the worker pool, which workers import, and helpers of these tests."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gsat.core.errors import BusyError, GSATError, Interrupted, StopAllError
from gsat.launch.jobs import Job
from waiting import wait_until


def job(function: str, payload: Any = None) -> Job:
    """A call of a function below."""
    return Job(f"pool_jobs.{function}", payload)


def has_text(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


def has_ended(path: Path) -> bool:
    """Whether the worker that wrote its process id to a file has ended."""
    try:
        os.kill(int(path.read_text().split()[0]), 0)
    except ProcessLookupError:
        return True
    return False


def press_ctrl_c_when(condition: Callable[[], object]) -> threading.Thread:
    """Send SIGINT to this process as soon as a condition holds."""

    def watch() -> None:
        with suppress(AssertionError):
            wait_until(condition)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def double(value: Any) -> Any:
    return value * 2


def describe(_: None) -> dict[str, Any]:
    """Properties of the worker process."""
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgrp(),
        "OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"],
        "torch": "torch" in sys.modules,
        "main": getattr(sys.modules["__main__"], "__spec__").name,  # noqa: B009
        "ignored": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    }


def fail(kind: str) -> None:
    raise {
        "user": GSATError("no such file"),
        "bug": ZeroDivisionError("a bug"),
        "busy": BusyError("in use"),
        "stop": StopAllError("the disk is full"),
        "interrupted": Interrupted("stopped"),
    }[kind]


def die(times_left: str | None) -> str:
    """Kill this process once per line of a file, or always if it is None."""
    if times_left is not None:
        path = Path(times_left)
        lines = path.read_text().splitlines()
        if not lines:
            return "alive"
        path.write_text("\n".join(lines[1:]))
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def work(path: str) -> None:
    """Work until interrupted, then save."""
    begun = Path(path)
    try:
        begun.write_text(str(os.getpid()))
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        with begun.open("a") as handle:
            handle.write(" saved")
        raise


def deaf(path: str) -> None:
    """Work forever, ignoring interrupts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Path(path).write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)
