"""Random bits inside kernels: the same hash as in :mod:`gsat.ops.random`, for one row at a time.

Numba promotes 32-bit arithmetic to 64 bits, so every step below is cut back by hand: a hash that
does not wrap around stops dropping anything, silently.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from gsat.ops.random import (
    GOLDEN32,
    GOLDEN64,
    MASK32,
    MIX1_32,
    MIX1_64,
    MIX2_32,
    MIX2_64,
    Draws,
    threshold,
)


def dropout_arguments(drop: float, draws: Draws | None) -> tuple[Any, Any, Any]:
    """Return the arguments of a kernel for dropout: key, threshold and 1 / (1 - drop)."""
    drop, key = (drop, draws.key) if draws else (0.0, 0)
    return np.uint64(key), np.uint32(threshold(drop)), np.float32(1.0 / (1.0 - drop))


@numba.njit(inline="always")
def row_words_numba(key: np.uint64, row: np.int64) -> Any:
    """Return the two 32-bit words of :func:`gsat.ops.random.row_words` for one row."""
    z = np.uint64(row) * np.uint64(GOLDEN64) + key
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX1_64)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX2_64)
    z = z ^ (z >> np.uint64(31))
    return np.uint32(z & np.uint64(MASK32)), np.uint32(z >> np.uint64(32))


@numba.njit(inline="always")
def column_offsets_numba(channels: int) -> Any:
    """Return what :func:`channel_bits_numba` needs of each channel, ``[channels]`` uint32.

    Computed before the loop over channels: a loop that multiplies its 64-bit counter vectorises
    over half as many lanes.
    """
    offsets = np.empty(channels, np.uint32)
    for column in range(channels):
        offsets[column] = np.uint32(np.uint32(column) * np.uint32(GOLDEN32))
    return offsets


@numba.njit(inline="always")
def channel_bits_numba(low: np.uint32, high: np.uint32, offset: np.uint32) -> Any:
    """Return the bits of :func:`gsat.ops.random.channel_bits` for one row and one channel."""
    x = np.uint32(low + offset)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(16))) * np.uint32(MIX1_32))
    x = np.uint32(x ^ high)
    x = np.uint32(np.uint32(x ^ np.uint32(x >> np.uint32(15))) * np.uint32(MIX2_32))
    return np.uint32(x ^ np.uint32(x >> np.uint32(16)))
