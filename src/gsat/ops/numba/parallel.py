"""Kernels on several threads.

The compiled kernels are single-threaded and release Python's lock; inside :func:`exclusive_threads`
several threads each take a range of segments. Numba's own thread layers are not used: the default
one ends the process when two Python threads enter it at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.ops.numba.buffers import as_array
from gsat.ops.numba.compile import ensure_compiled, inlined
from gsat.ops.numba.thread_pool import new_meeting, thread_pool

CHUNK = 256  # rows that are summed in one go
_MIN_ROWS = 1024  # rows per thread below which a second thread costs more than it gains
_kernel_threads: list[int] = []


def num_threads() -> int:
    """Return how many threads a kernel may use: 1 outside of :func:`exclusive_threads`."""
    return _kernel_threads[-1] if _kernel_threads else 1


@contextmanager
def exclusive_threads() -> Iterator[None]:
    """Give torch's threads to the kernels, and one thread to torch, inside the ``with`` block.

    Use it where all large matrix products are made in kernels. What torch does itself is small
    then, and its threads would compete with the kernels', because they wait by spinning.
    """
    threads = torch.get_num_threads()
    if threads == 1 or _kernel_threads:
        yield
        return
    _kernel_threads.append(threads)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _kernel_threads.pop()


def chunk_ptr(rows: int) -> NDArray[np.int64]:
    """Return the boundaries of chunks of :data:`CHUNK` rows.

    Sums over all rows are taken per chunk and then over chunks, so that they do not depend on the
    number of threads.
    """
    return np.minimum(np.arange(0, rows + CHUNK, CHUNK), rows) if rows else np.zeros(1, np.int64)


def run_over_segments(run: Any, ptr: Any, *args: Any) -> None:
    """Run a kernel on all segments, split over the threads by their number of rows.

    A segment is never split, so threads write to different places and the result does not depend on
    how many there are.
    """
    (ptr,) = _arrays(ptr)
    segments, rows = len(ptr) - 1, int(ptr[-1])
    threads = min(num_threads(), max(1, rows // _MIN_ROWS), max(1, segments))
    bounds = [int(ptr.searchsorted(rows * i // threads)) for i in range(1, threads)]
    run_ranges(run, [0, *(min(b, segments) for b in bounds), segments], ptr, *args)


@inlined
def share_of(ptr, thread, threads):
    """First segment of a thread inside a kernel, of shares with about the same number of rows."""
    if thread == threads:
        return len(ptr) - 1
    row, low, high = ptr[-1] * thread // threads, 0, len(ptr) - 1
    while low < high:
        middle = (low + high) // 2
        if ptr[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


def _arrays(*args: Any) -> list[Any]:
    """The arguments of a kernel, with arrays in place of tensors."""
    return [as_array(arg) if isinstance(arg, Tensor) else arg for arg in args]


def run_ranges(run: Any, bounds: list[int], *args: Any) -> None:
    """Run a kernel on ranges of segments at the same time, one thread per range."""
    args = tuple(_arrays(*args))
    ensure_compiled(run, *args)
    threads = len(bounds) - 1
    if threads == 1:
        run(bounds[0], bounds[1], *args)
        return
    thread_pool(threads).run(run, bounds, args)


def run_together(run: Any, most: int, *args: Any) -> None:
    """Run a kernel of several stages, between which its threads meet."""
    args = tuple(_arrays(*args))
    threads = max(1, min(num_threads(), most))
    ensure_compiled(run, threads, new_meeting(), *args)
    if threads > 1:
        bounds = range(threads + 1)
        if thread_pool(threads).try_run(run, bounds, (threads, new_meeting(), *args)):
            return
    run(0, 1, 1, new_meeting(), *args)
