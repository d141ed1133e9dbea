"""Which form of an op runs, and how its work is split over threads.

``GSAT_OPS=torch`` takes the plain form everywhere, ``GSAT_OPS=numba`` (the default) the compiled
form where there is one: on the CPU, in float32.

The compiled kernels are single-threaded and release Python's lock; several threads each take a
range of graphs or rows. Numba's own thread layers are not used: the default one ends the process
when two Python threads enter it at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.errors import GSATError

# Sums may be reordered so that they vectorise; nothing is assumed about NaN or infinity.
kernel = numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})

CHUNK = 256  # rows whose sum is taken in one go
_SMALLEST = 2048  # rows per thread below which a second thread costs more than it gives
_pools: dict[int, ThreadPoolExecutor] = {}


def engine() -> str:
    """``numba`` or ``torch``."""
    chosen = os.environ.get("GSAT_OPS", "numba")
    if chosen not in ("numba", "torch"):
        raise GSATError(f"GSAT_OPS is 'numba' or 'torch', not {chosen!r}")
    return chosen


def compiled(*tensors: Tensor | None) -> bool:
    """Whether the compiled form takes these tensors."""
    return engine() == "numba" and all(
        t is None or (t.device.type == "cpu" and t.dtype == torch.float32) for t in tensors
    )


def chunks(rows: int) -> NDArray[np.int64]:
    """Pointers to chunks of ``CHUNK`` rows, for sums over all rows that must not depend on the
    number of threads."""
    return np.minimum(np.arange(0, rows + CHUNK, CHUNK), rows) if rows else np.zeros(1, np.int64)


def split(run: Callable[..., Any], ptr: Any, *args: Any) -> None:
    """Call ``run(first, last, ptr, *args)`` on ranges that cover the segments of ``ptr``.

    Segments never straddle a range, so threads write to different places and the result does not
    depend on how many there are.
    """
    segments, rows = len(ptr) - 1, int(ptr[-1])
    threads = min(torch.get_num_threads(), max(1, rows // _SMALLEST), max(1, segments))
    if threads == 1:
        run(0, segments, ptr, *args)
        return
    bounds = [int(ptr.searchsorted(rows * i // threads)) for i in range(1, threads)]
    bounds = [0, *(min(b, segments) for b in bounds), segments]
    pool = _pools.get(threads)
    if pool is None:
        pool = _pools.setdefault(threads, ThreadPoolExecutor(threads - 1, "gsat-ops"))
    others = [pool.submit(run, bounds[i], bounds[i + 1], ptr, *args) for i in range(1, threads)]
    run(bounds[0], bounds[1], ptr, *args)
    for other in others:
        other.result()
