"""Random numbers as a function, not a state.

The seed, epoch, purpose, … of a draw give a 64-bit key; its row (a node or an edge, identified by
graph and position) and its channel give the number. So a draw does not depend on the order of
batches, on threads or on other code in the process, and a resumed run needs no saved generator.

The 64-bit row hash is splitmix64's finaliser; the 32-bit channel hash has two multiply-xorshift
rounds. Here they are in torch; :mod:`gsat.ops.numba.random` has them for kernels, with the same
bits.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

MASK32 = 0xFFFFFFFF
GOLDEN64, MIX1_64, MIX2_64 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
GOLDEN32, MIX1_32, MIX2_32 = 0x9E3779B9, 0x7FEB352D, 0x846CA68B


class Draws:
    """A named source of random numbers.

    The same seed and path always give the same numbers; any other path gives independent ones.

    Args:
        seed: The run's seed, or the key of another source.
        *path: The purpose of the numbers: strings and integers.

    Attributes:
        key: 64-bit hash of seed and path; it decides all numbers.

    Example:
        >>> import torch
        >>> from gsat.ops import Draws
        >>> draws = Draws(0).child("epoch", 3).child("dropout", 0)
        >>> rows = torch.tensor([7, 8])
        >>> torch.equal(draws.uniform(rows)[1:], draws.uniform(rows[1:]))
        True
    """

    __slots__ = ("key",)

    def __init__(self, seed: int, *path: Any) -> None:
        # NumPy numbers become Python numbers: their repr depends on the version of NumPy.
        parts = (part.item() if isinstance(part, np.generic) else part for part in path)
        name = repr((int(seed), *parts)).encode()
        self.key = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little")

    def child(self, *path: Any) -> Draws:
        """Return the source for a more specific purpose."""
        return Draws(self.key, *path)

    def uniform(self, row_id: Tensor) -> Tensor:
        """Draw a number in (0, 1), never 0 or 1, for each row id: [M] long to [M] float32."""
        low, _ = row_words(self.key, row_id)
        return ((low >> 9).to(torch.float32) + 0.5) * 2.0**-23

    def keep(self, row_id: Tensor, channels: int, drop: float) -> Tensor:
        """Draw a dropout mask [M, channels], each entry False with probability ``drop``."""
        return channel_bits(self.key, row_id, channels) >= threshold(drop)

    def permutation(self, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Draw a permutation of 0 … count - 1, [count] int64."""
        return np.random.Generator(np.random.Philox(key=self.key)).permutation(count)

    def torch_seed(self) -> int:
        """Return a seed for torch's own generator, for initial weights and for wrapped modules."""
        return self.key >> 1


def threshold(drop: float) -> int:
    """Return the number below which the 32 random bits of an entry mean that it is dropped."""
    return min(round(drop * 2**32), MASK32)


def row_words(key: int, row_id: Tensor) -> tuple[Tensor, Tensor]:
    """Hash each row name to two 32-bit words: [M] to two long tensors [M]."""
    z = row_id * _signed(GOLDEN64) + _signed(key)
    z = (z ^ _shift(z, 30)) * _signed(MIX1_64)
    z = (z ^ _shift(z, 27)) * _signed(MIX2_64)
    z = z ^ _shift(z, 31)
    return z & MASK32, _shift(z, 32)


def channel_bits(key: int, row_id: Tensor, channels: int) -> Tensor:
    """Hash each row name and channel to 32 bits: [M] to a long tensor [M, channels]."""
    low, high = row_words(key, row_id)
    column = torch.arange(channels, device=row_id.device) * GOLDEN32
    x = (low[:, None] + column) & MASK32
    x = ((x ^ (x >> 16)) * MIX1_32) & MASK32
    x = x ^ high[:, None]
    x = ((x ^ (x >> 15)) * MIX2_32) & MASK32
    return x ^ (x >> 16)


def _signed(value: int) -> int:
    """The int64 with the bits of a uint64."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def _shift(z: Tensor, bits: int) -> Tensor:
    """Shift right, as unsigned."""
    # torch shifts signed integers arithmetically; the hash wants zeros from the left.
    return (z >> bits) & ((1 << (64 - bits)) - 1)
