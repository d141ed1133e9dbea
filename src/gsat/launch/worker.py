"""What a local worker process runs: ``python -m gsat.launch.worker HANDLE PARENT``.

Jobs come as JSON through the pipe with that handle, and outcomes go back. The process ends when
the pipe is closed, and when the process that started it is gone.
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

from gsat.launch.interrupts import InterruptibleCalls
from gsat.launch.jobs import Outcome, find_function, perform


def main(handle: int, parent: int) -> None:
    """Do jobs until there are no more.

    SIGINT is blocked when the process is born. It interrupts jobs, and nothing else.
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
        with contextlib.suppress(Exception):  # it is met again, and reported, below
            find_function(function)  # imports may take seconds, and must not be cut short
        outcome = calls.run(partial(perform, function, payload), interrupted)
        with contextlib.suppress(BrokenPipeError):
            pipe.send_bytes(outcome.encode())


def _end_with(parent: int) -> None:
    """End this process when the parent is gone: there is nobody to report to."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
