"""Which form of an op runs, and how its work is split over threads.

``GSAT_OPS=torch`` takes the plain form everywhere, ``GSAT_OPS=numba`` (the default) the compiled
form where there is one: on the CPU, in float32.

The compiled kernels are single-threaded and release Python's lock; inside :func:`exclusive_threads`, several
threads each take a range of graphs or rows. Numba's own thread layers are not used: the default one
ends the process when two Python threads enter it at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat.errors import GSATError
from gsat.ops.compiling import compile_once
from gsat.ops.thread_pool import thread_pool

CHUNK = 256  # rows whose sum is taken in one go
_SMALLEST = 1024  # rows per thread below which a second thread costs more than it gives
_LARGE = 1 << 20  # numbers; from 4 MiB on NumPy asks for large pages
_ready: set[Any] = set()  # kernels that have run in this process
_announced = threading.Event()
_kernel_threads: list[int] = []


# Sums may be reordered so that they vectorise; nothing is assumed about NaN or infinity. No
# division looks whether it may. Nobody calls a kernel from C.
# A kernel called by kernels becomes part of each. As a function of its own it would be in the
# machine code of several, each with sums in another order, and which of them is called would depend
# on which kernel was read from disk first.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "forceinline": True,
}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that is called from Python, as :func:`compile_once` does."""
    return compile_once(function, **_OPTIONS)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call, as a part of each of them."""
    return numba.njit(no_cpython_wrapper=True, **_OPTIONS)(function)


def compile_quietly() -> None:
    """Do not say on a terminal that kernels are compiled."""
    _announced.set()


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


def array(tensor: Tensor) -> Any:
    """The tensor's memory as a NumPy array, contiguous, without its gradient."""
    plain = tensor.detach() if tensor.requires_grad else tensor
    return (plain if plain.is_contiguous() else plain.contiguous()).numpy()


def empty(*shape: int) -> Any:
    """A float32 array that begins at a multiple of 64 bytes, as torch's tensors do.

    The bits of a matrix product depend on where its matrices begin. A large one comes from NumPy,
    which asks the system for large pages: to fill those takes a fifth of the time.
    """
    size = math.prod(shape)
    if size < _LARGE:
        return torch.empty(shape).numpy()
    room = np.empty(size + 16, np.float32)
    start = -(room.__array_interface__["data"][0] // 4) % 16
    return room[start : start + size].reshape(shape)


def keep_freed_memory() -> None:
    """Let freed tensors be used again instead of going back to the system.

    The C library gives large blocks back at once and asks for them anew a moment later; the kernel
    then clears every page again, in every training step.
    Linux with glibc only, elsewhere nothing happens.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        trim_threshold, mmap_threshold = -1, -3
        mallopt(mmap_threshold, 1 << 25)  # the most it takes
        mallopt(trim_threshold, 1 << 30)


def num_threads() -> int:
    """How many threads a kernel may use: one, but inside :func:`exclusive_threads`."""
    return _kernel_threads[-1] if _kernel_threads else 1


@contextmanager
def exclusive_threads() -> Iterator[None]:
    """Inside, kernels have torch's threads to themselves and torch has one.

    Where all large products are in kernels, what torch does itself is small; its threads would only
    stand in the way of ours, because they wait awake.
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


def chunks(rows: int) -> NDArray[np.int64]:
    """Pointers to chunks of ``CHUNK`` rows, for sums over all rows that must not depend on the
    number of threads."""
    return np.minimum(np.arange(0, rows + CHUNK, CHUNK), rows) if rows else np.zeros(1, np.int64)


def split(run: Any, ptr: Any, *args: Any) -> None:
    """Call ``run(first, last, ptr, *args)`` on ranges that cover the segments of ``ptr``.

    Segments never straddle a range, so threads write to different places and the result does not
    depend on how many there are.
    """
    segments, rows = len(ptr) - 1, int(ptr[-1])
    threads = min(num_threads(), max(1, rows // _SMALLEST), max(1, segments))
    bounds = [int(ptr.searchsorted(rows * i // threads)) for i in range(1, threads)]
    launch(run, [0, *(min(b, segments) for b in bounds), segments], ptr, *args)


def launch(run: Any, bounds: list[int], *args: Any) -> None:
    """Call ``run(first, last, *args)`` for each two neighbours in ``bounds``, at the same time."""
    if run not in _ready:
        with _announcing():
            run(0, 0, *args)  # an empty range: compiles, or reads the code from disk
        _ready.add(run)
    threads = len(bounds) - 1
    if threads == 1:
        run(bounds[0], bounds[1], *args)
        return
    thread_pool(threads).run(run, bounds, args)


@contextmanager
def _announcing() -> Iterator[None]:
    """Say so, once and on a terminal only, when the first call takes long enough to wonder."""

    def say() -> None:
        if not _announced.is_set() and sys.stderr.isatty():
            sys.stderr.write(
                "gsat: compiling kernels for this machine, once, in twenty seconds or so\n"
            )
        _announced.set()

    timer = threading.Timer(0.3, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
