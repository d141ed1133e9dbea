"""Splits that data sets share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def shuffled(count: int, seed: int) -> dict[str, NDArray[np.int64]]:
    """80/10/10 of a shuffle; the same as ``np.random.seed(seed)`` and ``np.random.shuffle``."""
    order = np.random.RandomState(seed).permutation(count).astype(np.int64)
    train, valid = int(0.8 * count), int(0.1 * count)
    parts = np.split(order, [train, train + valid])
    return dict(zip(("train", "valid", "test"), parts, strict=True))
