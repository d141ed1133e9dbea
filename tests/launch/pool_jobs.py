"""Jobs for the tests of the worker pool; workers import this module."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from gsat.core.errors import BusyError, GSATError, Interrupted, StopAllError


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
