"""A worker with limits, whose jobs exceed them, crash, or do not end."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import pytest

from gsat.launch.jobs import Job
from gsat.launch.limited import LimitedWorker


def act(payload: dict[str, Any]) -> Any:
    """Job: do what the payload says."""
    match payload:
        case {"allocate": size}:
            return len(bytearray(size))
        case {"spin": seconds}:
            until = time.process_time() + seconds
            while time.process_time() < until:
                pass
        case {"signal": number}:
            os.kill(os.getpid(), number)
    return os.getpid()


def _job(**payload: Any) -> Job:
    return Job(f"{__name__}.act", payload)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
def test_jobs_beyond_the_limits_end_and_the_others_run() -> None:
    with LimitedWorker(memory=64 << 20, seconds=1) as worker:
        first = worker.run(_job()).value
        assert first != os.getpid()
        assert worker.run(_job(allocate=10 << 20)).value == 10 << 20
        refused = worker.run(_job(allocate=100 << 20))
        assert (refused.status, "memory=" in refused.value) == ("failed", True)
        assert worker.run(_job()).value == first
        assert worker.lost == 0
        endless = worker.run(_job(spin=60))
        assert (endless.status, "seconds=" in endless.value) == ("died", True)
        crashed = worker.run(_job(signal=signal.SIGSEGV))
        assert (crashed.status, str(-signal.SIGSEGV) in crashed.value) == ("died", True)
        assert worker.lost >= 1
        assert worker.run(_job()).value not in (first, os.getpid())


def test_each_job_has_its_own_seconds() -> None:
    with LimitedWorker(memory=64 << 20, seconds=1) as worker:
        ended = [worker.run(_job(spin=0.6)).value for _ in range(3)]
    assert len(set(ended)) == 1
