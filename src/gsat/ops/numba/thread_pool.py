"""A pool of threads for kernels that last a fraction of a millisecond.

To wake a sleeping thread takes a good part of a kernel's time, so the pool's threads spin (check
for work in a loop, without Python's lock) for about a millisecond before they sleep. A kernel of
several stages waits between them by :func:`meet`, without leaving machine code.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gsat.ops.numba.compile import compile_once, inlined

_SPINS = 1_000_000  # about a millisecond
_PAUSE = 15_000  # spins; time for the caller to enter its own kernel and release Python's lock
_MEETING_SPINS = 20_000  # before a thread that waits for others offers its core to them
_STRIDE = 8  # numbers between two threads' counters: a cache line, so that they do not share one


on_thread_start: list[Callable[[], object]] = []  # what each new thread calls first


@intrinsic
def _load(typing_context, address):
    """Read the int64 at an address atomically; a loop would make an ordinary read only once."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(types.intp), generate


@intrinsic
def _increment(typing_context, address):
    """Add 1 to the int64 at an address, atomically; what was written before is seen by others."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, ir.Constant(ir.IntType(64), 1), "acq_rel")

    return types.int64(types.intp), generate


@intrinsic
def _call(typing_context, address):
    """Call the C function ``int f(void)`` at an address."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), [])

    return types.int32(types.intp), generate


@functools.cache
def _yield_address() -> int:
    """Return the address of the C library's ``sched_yield``; 0 where it has none."""
    try:
        return ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0
    except (OSError, AttributeError, TypeError):
        return 0


def new_meeting() -> Any:
    """Return the memory of :func:`meet` for one call of a kernel: arrivals, and sched_yield."""
    return np.array([0, _yield_address()], np.int64)


@inlined
def meet(meeting, threads, count):
    """Wait inside a kernel until all its threads have come here.

    What a thread wrote before is then visible to all. ``meeting`` is from :func:`new_meeting`;
    ``count`` says how many times the threads have met, this time included.
    """
    if threads > 1:
        address = meeting.ctypes.data
        _increment(address)
        spins = 0
        while _load(address) < threads * count:
            spins += 1
            if spins > _MEETING_SPINS and meeting[1] != 0:
                _call(meeting[1])


def _reached(counts, index, value, spins, pause):
    """Spin until counts[index] reaches value, then for ``pause`` more; False after ``spins``."""
    address = counts.ctypes.data + 8 * index
    spin = 0
    while _load(address) < value:
        spin += 1
        if spin == spins:
            return False
    for _ in range(pause):
        _load(address)
    return True


_reached = compile_once(_reached, nogil=True)


class ThreadPool:
    """Threads that run ranges of one kernel together: the caller's and ``size - 1`` of the pool."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = threading.Lock()
        self._rounds = 0
        # Per thread: the last round it was given work in, and the last round it finished.
        self._posted = np.zeros(_STRIDE * size, np.int64)
        self._done = np.zeros(_STRIDE * size, np.int64)
        self._work: list[Any] = [None] * size
        self._errors: list[BaseException | None] = [None] * size
        self._asleep = [False] * size
        self._wake = [threading.Semaphore(0) for _ in range(size)]
        _reached(self._posted, 0, 0, 1, 0)  # compiled before it is needed
        for number in range(1, size):
            threading.Thread(target=self._serve, args=(number,), daemon=True).start()

    def run(self, kernel: Any, bounds: Sequence[int], args: Sequence[Any]) -> None:
        """Run a kernel on ranges at the same time, one thread per range.

        While another Python thread uses the pool, the ranges run one after the other in this one.
        """
        if not self.try_run(kernel, bounds, args):
            for first, last in itertools.pairwise(bounds):
                kernel(first, last, *args)

    def try_run(self, kernel: Any, bounds: Sequence[int], args: Sequence[Any]) -> bool:
        """As :meth:`run`, unless another Python thread uses the pool: then nothing is run."""
        if not self._free.acquire(blocking=False):
            return False
        try:
            self._rounds += 1
            workers = range(1, len(bounds) - 1)
            for number in workers:
                self._work[number] = (kernel, bounds[number], bounds[number + 1], args)
                self._posted[_STRIDE * number] = self._rounds
                if self._asleep[number]:
                    self._wake[number].release()
            try:
                kernel(bounds[0], bounds[1], *args)
            finally:
                for number in workers:
                    _reached(self._done, _STRIDE * number, self._rounds, -1, 0)
            errors = [self._errors[number] for number in workers]
            self._errors = [None] * self.size
        finally:
            self._free.release()
        for error in errors:
            if error is not None:
                raise error
        return True

    def _serve(self, number: int) -> None:
        """The loop of one thread."""
        for prepare in on_thread_start:
            prepare()
        index = _STRIDE * number
        while True:
            wanted = int(self._done[index]) + 1
            # A round in which this thread has no range is not posted to it: the counts may jump.
            if not _reached(self._posted, index, wanted, _SPINS, _PAUSE):
                self._asleep[number] = True
                while self._posted[index] < wanted:
                    self._wake[number].acquire()
                self._asleep[number] = False
            kernel, first, last, args = self._work[number]
            self._work[number] = None
            try:
                kernel(first, last, *args)
            except BaseException as error:
                self._errors[number] = error
            del kernel, args
            self._done[index] = self._posted[index]


_pools: dict[int, ThreadPool] = {}
_making = threading.Lock()
# Threads do not survive a fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def thread_pool(size: int) -> ThreadPool:
    """Return the process's pool of that size, made on first use."""
    with _making:
        if size not in _pools:
            _pools[size] = ThreadPool(size)
        return _pools[size]
