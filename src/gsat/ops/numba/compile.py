"""Compilation of kernels: once per machine, with the machine code kept on disk."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba

# Sums may be reordered so that they vectorise; nothing is assumed about NaN or infinity. No
# division checks for zero. Nobody calls a kernel from C.
# A kernel called by kernels is inlined into each. As a function of its own it would be in the
# machine code of several, each with sums in another order, and which of them is called would depend
# on which kernel was read from disk first.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"reassoc", "contract", "nsz"},
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "forceinline": True,
}

_kernels: list[Any] = []  # all of them, compiled or not
_compiled: set[Any] = set()  # kernels that have run in this process
_announced = threading.Event()


def compile_once(function: Callable[..., Any], **options: Any) -> Any:
    """Compile a function on its first call and keep the machine code on disk for later processes.

    Where no cache folder is writable, the function is compiled anew in each process.

    Numba compiles again when the file of ``function`` changes. It does not notice a change of a
    function in another file that was inlined into this one: remove ``__pycache__`` after editing
    one of those.

    Args:
        function: The function, in the subset of Python that Numba compiles.
        **options: Options of :func:`numba.njit`.

    Returns:
        The compiled function.
    """
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        compiled = numba.njit(**options)(function)
    _kernels.append(compiled)
    return compiled


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that is called from Python (and possibly by other kernels)."""
    return compile_once(function, **_OPTIONS)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call; it becomes part of each of them."""
    return numba.njit(no_cpython_wrapper=True, **_OPTIONS)(function)


# For kernels that take a slice of an array for every row: each would be counted, and counting needs
# two atomic operations, which take longer than the row itself. These may not make arrays.


def uncounted_kernel(function: Callable[..., Any]) -> Any:
    """Compile a :func:`kernel` without reference counts; it can't make arrays of its own."""
    return compile_once(function, _nrt=False, **_OPTIONS)


def uncounted_inlined(function: Callable[..., Any]) -> Any:
    """Compile an :func:`inlined` function for an :func:`uncounted_kernel`."""
    return numba.njit(no_cpython_wrapper=True, _nrt=False, **_OPTIONS)(function)


def compiled_kernels() -> list[str]:
    """Return the names of the kernels that this process has compiled or read from disk.

    One entry per kind of arguments: a kernel may be compiled for several.
    """
    return [
        f"{kernel.py_func.__module__}.{kernel.py_func.__name__}{signature}"
        for kernel in _kernels
        for signature in kernel.signatures
    ]


def compile_quietly() -> None:
    """Suppress the notice on the terminal that kernels are being compiled."""
    _announced.set()


def ensure_compiled(run: Any, *args: Any) -> None:
    """Compile a kernel, or read its machine code from disk, by a call on an empty range.

    Args:
        run: The kernel.
        *args: Its arguments after ``first`` and ``last``.
    """
    if run not in _compiled:
        with _announce_if_slow():
            run(0, 0, *args)
        _compiled.add(run)


@contextmanager
def _announce_if_slow() -> Iterator[None]:
    """Print a notice, once and on a terminal only, when compilation takes noticeable time."""

    def announce() -> None:
        if not _announced.is_set() and sys.stderr.isatty():
            sys.stderr.write(
                "gsat: compiling kernels for this machine (once, about twenty seconds)\n"
            )
        _announced.set()

    timer = threading.Timer(0.3, announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
