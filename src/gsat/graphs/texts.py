"""Texts of graphs, such as SMILES, and words of nodes, as arrays of UTF-8 bytes.

Stored as per-graph arrays (``graph.NAME``), they need no Python object per graph or word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from gsat.core.errors import DataError, escape_controls
from gsat.core.limits import check_size

if TYPE_CHECKING:
    from gsat.graphs.store import GraphStore

WORDS: Final = "words"  # name of the per-graph array of the nodes' words


def encode_texts(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Encode one text per graph."""
    try:
        encoded = [text.encode() for text in texts]
    except UnicodeEncodeError:
        raise DataError("a text of a graph contains a lone surrogate") from None
    longest = max(map(len, encoded), default=0)
    check_size(longest * len(encoded), f"a text of {longest} bytes, as one of many", DataError)
    padded = np.array(encoded, dtype=np.bytes_)
    return padded.view(np.uint8).reshape(len(padded), padded.dtype.itemsize)


def decode_texts(rows: NDArray[np.uint8]) -> list[str]:
    """Decode what :func:`encode_texts` returned."""
    packed = np.ascontiguousarray(rows)
    if not packed.shape[1]:
        return [""] * len(packed)
    return [_decode(text) for text in packed.view(f"S{packed.shape[1]}").ravel().tolist()]


def _decode(text: bytes) -> str:
    try:
        # Words are separated by zero bytes.
        return "\0".join(map(escape_controls, text.decode().split("\0")))
    except UnicodeDecodeError:
        raise DataError("a text of a graph is not UTF-8; save the graphs again") from None


def pad_texts(parts: Sequence[NDArray[np.uint8]]) -> list[NDArray[np.uint8]]:
    """Pad encoded arrays to a common width."""
    width = max(rows.shape[1] for rows in parts)
    return [np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in parts]


def encode_words(graphs: Sequence[Sequence[str]]) -> NDArray[np.uint8]:
    """Encode one word per node."""
    rows = ["".join(f"{word}\0" for word in words).encode() for words in graphs]
    width = max(map(len, rows), default=0)
    text = b"".join(row.ljust(width, b"\0") for row in rows)
    return np.frombuffer(text, dtype=np.uint8).reshape(len(rows), width).copy()


def node_words(store: GraphStore, position: int) -> list[str]:
    """Read the words of one graph's nodes."""
    view = store.select([position])
    words = [_decode(word) for word in view.per_graph(WORDS)[0].tobytes().split(b"\0")]
    return words[: int(view.node_counts[0])]
