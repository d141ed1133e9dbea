"""Threads that wait for kernels awake.

A training step starts some thirty kernels, each a fraction of a millisecond long. To wake a
sleeping thread takes a good part of that, so the threads of a team look for work for about a
millisecond before they sleep, without Python's lock.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gsat.ops.compiling import compile_once

_LOOKS = 1_000_000  # about a millisecond
_PAUSE = 15_000  # looks; time for the caller to enter its own kernel and leave Python's lock


on_start: list[Callable[[], object]] = []  # what a new thread does first


@intrinsic
def _load(typing_context, address):  # type: ignore[no-untyped-def]
    """What is at an address now; an ordinary read in a loop would be made once, before it."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(types.intp), generate


def _reached(counts, number, value, looks, pause):  # type: ignore[no-untyped-def]
    """Whether ``counts[number]`` becomes ``value`` while one looks; then wait a moment longer."""
    address = counts.ctypes.data + 8 * number
    look = 0
    while _load(address) < value:
        look += 1
        if look == looks:
            return False
    for _ in range(pause):
        _load(address)
    return True


_reached = compile_once(_reached, nogil=True)


class ThreadPool:
    """The caller and ``size − 1`` threads of its own, which run ranges of a kernel together."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = threading.Lock()
        self._rounds = 0
        # Eight numbers, a cache line, apart.
        self._posted, self._done = np.zeros(8 * size, np.int64), np.zeros(8 * size, np.int64)
        self._work: list[Any] = [None] * size
        self._errors: list[BaseException | None] = [None] * size
        self._asleep = [False] * size
        self._bells = [threading.Semaphore(0) for _ in range(size)]
        _reached(self._posted, 0, 0, 1, 0)  # compiled before it is needed
        for number in range(1, size):
            threading.Thread(target=self._serve, args=(number,), daemon=True).start()

    def run(self, kernel: Any, bounds: Sequence[int], args: Sequence[Any]) -> None:
        """``kernel(first, last, *args)`` for each two neighbours of ``bounds``, at the same time;
        one after the other while another Python thread has the team."""
        if not self._free.acquire(blocking=False):
            for first, last in itertools.pairwise(bounds):
                kernel(first, last, *args)
            return
        try:
            self._rounds += 1
            helpers = range(1, len(bounds) - 1)
            for number in helpers:
                self._work[number] = (kernel, bounds[number], bounds[number + 1], args)
                self._posted[8 * number] = self._rounds
                if self._asleep[number]:
                    self._bells[number].release()
            try:
                kernel(bounds[0], bounds[1], *args)
            finally:
                for number in helpers:
                    _reached(self._done, 8 * number, self._rounds, -1, 0)
            errors = [self._errors[number] for number in helpers]
            self._errors = [None] * self.size
        finally:
            self._free.release()
        for error in errors:
            if error is not None:
                raise error

    def _serve(self, number: int) -> None:
        for prepare in on_start:
            prepare()
        place = 8 * number
        while True:
            wanted = int(self._done[place]) + 1
            # A round this thread has no part in is not posted to it: the counts may jump.
            if not _reached(self._posted, place, wanted, _LOOKS, _PAUSE):
                self._asleep[number] = True
                while self._posted[place] < wanted:
                    self._bells[number].acquire()
                self._asleep[number] = False
            kernel, first, last, args = self._work[number]
            self._work[number] = None
            try:
                kernel(first, last, *args)
            except BaseException as error:
                self._errors[number] = error
            del kernel, args
            self._done[place] = self._posted[place]


_pools: dict[int, ThreadPool] = {}
_making = threading.Lock()
# Threads do not survive a fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def thread_pool(size: int) -> ThreadPool:
    """The process's team of that size."""
    found = _pools.get(size)
    if found is None:
        with _making:
            found = _pools.setdefault(size, _pools.get(size) or ThreadPool(size))
    return found
