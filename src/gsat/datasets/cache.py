"""Graphs in the cache: made once, memory-mapped afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from safetensors import SafetensorError

from gsat.errors import DataError
from gsat.graphs import GraphStore
from gsat.graphs.sharded_array import content_digest


def content_hash(store: GraphStore, leave_out: Sequence[str] = ()) -> str:
    """Hash the arrays of a store: the same graphs give the same hash on any machine.

    Args:
        store: The graphs.
        leave_out: Arrays that do not count, as SMILES of published molecules: they describe the
            graphs a second time, and recorded hashes are from before. (default: none)

    Returns:
        The first 16 hex digits of a SHA-256.
    """
    return content_digest({k: v for k, v in store.arrays.items() if k not in leave_out})


def load_cached(folder: Path) -> GraphStore | None:
    """Load the graphs of a folder of the cache; None where they are missing or damaged."""
    try:
        return GraphStore.load(folder)
    except (DataError, OSError):  # they are made again
        return None


def save_cached(store: GraphStore, folder: Path) -> GraphStore:
    """Write graphs to a folder of the cache.

    Args:
        store: The graphs.
        folder: Where to write them.

    Returns:
        The graphs, memory-mapped from the folder; or as they were given, where it can't be written.
    """
    try:
        return GraphStore.load(store.save(folder))
    # A cache that can't be written, or was replaced before it was read back, costs time, not the
    # run; safetensors has an error of its own for a full disk.
    except (DataError, OSError, SafetensorError):
        return store
