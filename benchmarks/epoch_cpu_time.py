"""Print the CPU time of a training epoch: ``python epoch_cpu_time.py DATASET BACKBONE``.

A script, not a module of the benchmarks: it is run with different versions of the package, and
uses public names only.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch

import gsat

EPOCHS, REPEATS = 4, 3


def cpu_time(function: Callable[[], object]) -> float:
    """Return the seconds of CPU time that a call takes, of all threads."""
    start = time.process_time()
    function()
    return time.process_time() - start


def main(dataset: str, backbone: str) -> float:
    """Measure the epochs after the first.

    Returns seconds of CPU time per epoch, training and evaluation; the median of some measurements.
    """
    torch.set_num_threads(1)
    data = gsat.load_dataset(dataset, seed=0)
    kind = getattr(gsat, backbone)

    def fit(epochs: int) -> None:
        model = gsat.GSAT(kind.for_data(data, seed=0), seed=0)
        gsat.fit(model, data, epochs=epochs, seed=0)

    fit(1)  # compiles
    taken = [
        (cpu_time(lambda: fit(1 + EPOCHS)) - cpu_time(lambda: fit(1))) / EPOCHS
        for _ in range(REPEATS)
    ]
    return statistics.median(taken)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
