"""Texts of graphs (a SMILES, an identifier) as an array, so that they are stored like the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def encode(texts: Sequence[str]) -> NDArray[np.uint8]:
    """G texts as UTF-8 bytes [G, L], padded with zeros."""
    padded = np.array([text.encode() for text in texts], dtype=np.bytes_)
    return padded.view(np.uint8).reshape(len(padded), padded.dtype.itemsize)


def pad(parts: Sequence[NDArray[np.uint8]]) -> list[NDArray[np.uint8]]:
    """Texts of :func:`encode`, all as wide as the widest."""
    width = max(rows.shape[1] for rows in parts)
    return [np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in parts]


def decode(rows: NDArray[np.uint8]) -> list[str]:
    """The texts of :func:`encode`."""
    packed = np.ascontiguousarray(rows)
    return [text.decode() for text in packed.view(f"S{packed.shape[1]}").ravel().tolist()]
