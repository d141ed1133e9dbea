"""Main program of a worker: ``python -m gsat.launch.worker HANDLE PARENT [MEMORY SECONDS]``.

It receives jobs as JSON through the pipe with that handle and sends outcomes back. The process
ends when the pipe is closed or its parent process has ended.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import sys
import threading
import time
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from pkgutil import resolve_name

from gsat.launch.interrupts import InterruptibleCalls
from gsat.launch.jobs import Outcome, perform


def main(handle: int, parent: int, memory: int = 0, seconds: int = 0) -> None:
    """Run jobs until the pipe is closed; SIGINT, blocked at first, interrupts jobs only.

    The limits are bytes beyond those of the program with the first job's module, and CPU seconds
    of each job; 0 for no limit.
    """
    calls = InterruptibleCalls()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    pipe = Connection(handle)
    interrupted = Outcome("interrupted").to_json()
    while True:
        try:
            function, payload = json.loads(pipe.recv_bytes())
        except EOFError:
            return
        with contextlib.suppress(Exception):  # perform() repeats and reports the error
            resolve_name(function)  # imports may take seconds and must not be interrupted
        if memory:
            _limit_memory(memory)
            memory = 0  # it holds from now on
        if seconds:
            _limit_seconds(seconds)
        outcome = calls.run(partial(perform, function, payload), interrupted)
        with contextlib.suppress(BrokenPipeError):
            pipe.send_bytes(outcome.encode())


def _limit_memory(memory: int) -> None:
    """Limit the address space to what is in use and ``memory`` more bytes, on Linux."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _limit_seconds(seconds: int) -> None:
    """Have the system end this process after that many more seconds of CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _end_with(parent: int) -> None:
    """End this process when the parent has ended."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
