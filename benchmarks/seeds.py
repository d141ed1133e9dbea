"""Two seeds in two processes against one seed in one, one thread each."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.common import ROUNDS, case, use_threads
from benchmarks.steps import OurEpoch


def epochs(dataset: str) -> float:
    """Return the median seconds of an epoch in this process, after a warm-up."""
    use_threads(1)
    made = case(dataset)
    assert made is not None
    epoch = OurEpoch(made)
    epoch()
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        epoch()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def two_against_one(dataset: str) -> dict[str, Any]:
    """Time an epoch of one process, and of two at once (the slower of them)."""
    command = [sys.executable, "-m", "benchmarks", "child", "epochs", dataset]

    def run(count: int) -> float:
        children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
        return max(float(child.communicate()[0].split()[-1]) for child in children)

    one, two = run(1), run(2)
    return {"dataset": dataset, "one_s": one, "two_s": two, "ratio": two / one}
