"""Memory that kernels read and write."""

from __future__ import annotations

import contextlib
import ctypes
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

_LARGE = 1 << 20  # numbers; from 4 MiB on NumPy asks for large pages


def as_array(tensor: Tensor) -> Any:
    """View a tensor's memory as a NumPy array, contiguous and without its gradient."""
    plain = tensor.detach() if tensor.requires_grad else tensor
    return (plain if plain.is_contiguous() else plain.contiguous()).numpy()


def aligned_empty(*shape: int) -> Any:
    """Allocate a float32 array that begins at a multiple of 64 bytes, as torch's tensors do.

    The bits of a matrix product depend on where its matrices begin. A large array comes from NumPy,
    which asks the system for large pages: filling those takes a fifth of the time.
    """
    size = math.prod(shape)
    if size < _LARGE:
        return torch.empty(shape).numpy()
    memory = np.empty(size + 16, np.float32)
    start = -(memory.__array_interface__["data"][0] // 4) % 16
    return memory[start : start + size].reshape(shape)


def keep_freed_memory() -> None:
    """Reuse the memory of freed tensors instead of returning it to the system.

    The C library returns large blocks at once and asks for them again a moment later; the system
    then clears every page anew, in every training step. Works on Linux with glibc; elsewhere this
    does nothing.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        trim_threshold, mmap_threshold = -1, -3
        mallopt(mmap_threshold, 1 << 25)  # the largest value it accepts
        mallopt(trim_threshold, 1 << 30)
