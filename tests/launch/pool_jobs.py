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
    """What a worker is."""
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
        "busy": BusyError("somebody is at it"),
        "stop": StopAllError("the disk is full"),
        "interrupted": Interrupted("stopped"),
    }[kind]


def die(times_left: str | None) -> str:
    """End without a word, as often as the file has lines; None: always."""
    if times_left is not None:
        path = Path(times_left)
        lines = path.read_text().splitlines()
        if not lines:
            return "alive"
        path.write_text("\n".join(lines[1:]))
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def die_later(seconds: float) -> str:
    """End well, and soon after it the process, too."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    return "done"


def work(path: str) -> None:
    """Work for ever; when interrupted, save."""
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
    """Work for ever, and hear nothing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Path(path).write_text(str(os.getpid()))
    while True:
        time.sleep(0.01)
