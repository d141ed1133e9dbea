"""Main program of a local worker process: ``python -m gsat.launch.worker HANDLE PARENT``.

It receives jobs as JSON through the pipe with that handle and sends outcomes back. The process
ends when the pipe is closed or its parent process has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from functools import partial
from multiprocessing.connection import Connection
from pkgutil import resolve_name

from gsat.launch.interrupts import InterruptibleCalls
from gsat.launch.jobs import Outcome, perform


def main(handle: int, parent: int) -> None:
    """Run jobs until the pipe is closed; SIGINT, blocked at first, interrupts jobs only."""
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
        outcome = calls.run(partial(perform, function, payload), interrupted)
        with contextlib.suppress(BrokenPipeError):
            pipe.send_bytes(outcome.encode())


def _end_with(parent: int) -> None:
    """End this process when the parent has ended."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
