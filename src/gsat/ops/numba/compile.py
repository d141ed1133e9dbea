"""Compilation of kernels: once per machine, with the machine code kept on disk.

Numba keeps machine code in pickles, so write access to the folder means running code here. The
folder is therefore a private one in the user's cache; ``NUMBA_CACHE_DIR``, which is often shared,
is not used. If the folder can't be used, kernels are compiled in memory.
"""

from __future__ import annotations

import functools
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numba

from gsat.core.folders import kernel_folder

# Sums may be reordered so that they vectorise; nothing is assumed about NaN or infinity. Divisions
# do not check for zero. No C code calls kernels.
# A kernel that kernels call is inlined into each of them. Otherwise the machine code of each would
# hold a copy, with sums in a different order, and the order in which kernels were read from disk
# would decide which copy runs.
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

    Where the folder for it can't be used, the function is compiled anew in each process.

    Numba compiles again when the file of ``function`` changes. It does not notice a change of a
    function in another file that was inlined into this one: touch this file after editing one of
    those.
    """
    compiled = _compile(function, options)
    _kernels.append(compiled)
    return compiled


def _compile(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    folder = _private_folder(kernel_folder())
    if folder is None:
        return numba.njit(**options)(function)
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
    try:
        compiled = numba.njit(cache=True, **options)(function)
        if folder not in Path(compiled._cache.cache_path).parents:
            raise RuntimeError("Numba was told to keep code elsewhere")
        compiled._cache = _Forgiving(compiled._cache)
        return compiled
    except (RuntimeError, OSError, AttributeError):
        return numba.njit(**options)(function)
    finally:
        numba.config.CACHE_DIR = before


class _Forgiving:
    """Numba's cache of one function; after any failure, the function is compiled in memory."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, *args: Any) -> Any:
        try:
            return self._cache.load_overload(*args)
        except Exception:  # cut off, damaged, not readable
            with suppress(Exception):
                self._cache.flush()  # the index is written anew
            return None

    def save_overload(self, *args: Any) -> None:
        with suppress(Exception):  # a full disk, an index that can't be read
            self._cache.save_overload(*args)


@functools.cache
def _private_folder(folder: Path) -> Path | None:
    """Create a private folder; return None if it or one of its parents is not safe."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.name == "nt":  # the user's profile is private
            return folder
        folder = folder.resolve()
        user = os.geteuid()
        if folder.stat().st_uid != user:
            return None
        for place in (folder, *folder.parents):
            info = place.stat()
            # Sticky bit, as on /tmp: other users can't replace the folder.
            shared = info.st_mode & 0o022 and (place == folder or not info.st_mode & stat.S_ISVTX)
            if shared or info.st_uid not in (user, 0):
                return None
        return folder
    except (OSError, RuntimeError):
        return None


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that is called from Python (and possibly by other kernels)."""
    return compile_once(function, **_OPTIONS)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call; it becomes part of each of them."""
    return numba.njit(no_cpython_wrapper=True, **_OPTIONS)(function)


# For kernels that slice an array for every row: counting the references of a slice takes two atomic
# operations, longer than the work on the row. These kernels can't allocate arrays.


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
    """Compile a kernel, or read its machine code from disk, by a call on an empty range."""
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
