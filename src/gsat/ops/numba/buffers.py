"""Memory that kernels read and write."""

from __future__ import annotations

import contextlib
import ctypes
import math
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from gsat.ops.numba.compile import inlined

_LARGE = 1 << 20  # numbers; from 4 MiB on NumPy asks for large pages
# Numbers left unused before every array that a kernel writes. A compiled loop checks whether an
# array that it reads begins less than a few vectors before the one it writes. If so, it takes a
# copy of the loop without vectors, which rounds differently: without this gap, the bits of a result
# would depend on which arrays happen to be neighbours in memory.
GUARD = 256


def as_array(tensor: Tensor) -> Any:
    """View a tensor's memory as a NumPy array, contiguous and without its gradient."""
    plain = tensor.detach() if tensor.requires_grad else tensor
    return (plain if plain.is_contiguous() else plain.contiguous()).numpy()


def aligned_empty(*shape: int) -> Any:
    """Allocate a float32 array for a kernel to write, at a multiple of 64 bytes.

    The bits of a matrix product depend on where its matrices begin. A large array comes from NumPy,
    which asks the system for large pages: filling those takes a fifth of the time.
    """
    size = math.prod(shape)
    if size < _LARGE:
        return torch.empty(GUARD + size).numpy()[GUARD:].reshape(shape)
    memory = np.empty(GUARD + size + 16, np.float32)
    start = GUARD + -(memory.__array_interface__["data"][0] // 4) % 16
    return memory[start : start + size].reshape(shape)


def aligned_empties(*shapes: tuple[int, ...]) -> list[Any]:
    """Allocate several arrays as :func:`aligned_empty` does, in one go if they are small."""
    sizes = [math.prod(shape) for shape in shapes]
    starts, total = [], 0
    for size in sizes:
        starts.append(total + GUARD)
        total += GUARD + -(-size // 16) * 16
    if total >= _LARGE:
        return [aligned_empty(*shape) for shape in shapes]
    memory = torch.empty(total).numpy()
    return [
        memory[start : start + size].reshape(shape)
        for start, size, shape in zip(starts, sizes, shapes, strict=True)
    ]


def empty_tensor(*shape: int) -> Tensor:
    """Allocate a tensor for a kernel to write; see :func:`aligned_empty`."""
    return torch.from_numpy(aligned_empty(*shape))


@inlined
def local_array(size):
    """Allocate a float32 array of ``size`` numbers inside a kernel."""
    return np.empty(size + GUARD, np.float32)[GUARD:]


@intrinsic
def _pointer(typing_context, address):
    """The float32 numbers at an address."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.FloatType().as_pointer())

    return types.CPointer(types.float32)(types.int64), generate


@inlined
def matrix_at(address, rows, columns):
    """View the float32 numbers at an address as a matrix, inside a kernel.

    A kernel that takes a table of addresses does for any number of layers; a call with an array for
    each weight of each layer would take as long as the layers themselves.
    """
    return numba.carray(_pointer(address), (rows, columns))


@inlined
def vector_at(address, size):
    """View the float32 numbers at an address as a vector, inside a kernel."""
    return numba.carray(_pointer(address), (size,))


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # options of glibc's mallopt


def keep_freed_memory() -> None:
    """Reuse the memory of freed arrays instead of returning it to the system.

    The C library returns large blocks at once and asks for them again a moment later; the system
    then clears every page anew, in every training step. Works on Linux with glibc; elsewhere this
    does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(_MMAP_MAX, 0)  # no block gets pages of its own, however large
        library.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)


def return_freed_memory() -> None:
    """End :func:`keep_freed_memory`: give the system back what is not in use."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(_MMAP_MAX, 1 << 16)  # glibc's default
        library.mallopt(_TRIM_THRESHOLD, 1 << 27)
        library.malloc_trim(0)
