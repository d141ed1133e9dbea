"""Graphs in the cache: made once, memory-mapped afterwards, and used only if they are complete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gsat.core.errors import DataError
from gsat.graphs import GraphStore
from gsat.graphs.sharded_array import content_digest
from gsat.graphs.storage import file_versions

# Versions of files whose content this process has found to be what they say it is.
_verified: set[tuple[tuple[int, ...], ...]] = set()


def content_hash(store: GraphStore, leave_out: Sequence[str] = ()) -> str:
    """Hash the arrays of a store: the same graphs give the same hash on any machine."""
    return content_digest({k: v for k, v in store.arrays.items() if k not in leave_out})


def load_cached(folder: Path, leave_out: Sequence[str] = ()) -> GraphStore | None:
    """Load the graphs of a folder of the cache; None where they are missing, damaged or changed.

    The hash that a run records as that of its data is computed from the arrays themselves, once per
    process and version of the files; it is not taken from the files.
    """
    try:
        store = GraphStore.load(folder)
        version = file_versions(folder)
        if version not in _verified:
            if store.meta.get("content") != content_hash(store, leave_out):
                return None
            _verified.add(version)
        return store
    except (DataError, OSError):  # they are made again
        return None


def save_cached(store: GraphStore, folder: Path) -> GraphStore:
    """Write graphs to a folder of the cache."""
    try:
        return GraphStore.load(store.save(folder))
    # A cache that can't be written, or was replaced before it was read back, costs time, not the
    # run.
    except (DataError, OSError):
        return store
