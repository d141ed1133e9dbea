"""Graphs in the cache: built once, then memory-mapped, and used only if their hash is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gsat.core.errors import DataError
from gsat.graphs import GraphStore
from gsat.graphs.sharded_array import content_digest
from gsat.graphs.storage import file_versions

# Versions of files whose hash this process has checked.
_verified: set[tuple[tuple[int, ...], ...]] = set()


def cached(
    folder: Path, build: Callable[[], GraphStore], leave_out: Sequence[str] = ()
) -> GraphStore:
    """Load the graphs of a cache folder, or build and save them."""
    store = load_cached(folder, leave_out)
    return save_cached(build(), folder, leave_out) if store is None else store


def content_hash(store: GraphStore, leave_out: Sequence[str] = ()) -> str:
    """Hash the arrays of a store: the same graphs give the same hash on any machine."""
    return content_digest({k: v for k, v in store.arrays.items() if k not in leave_out})


def load_cached(folder: Path, leave_out: Sequence[str] = ()) -> GraphStore | None:
    """Load the graphs of a cache folder; None if they are missing, damaged or changed.

    The hash that a run records is computed from the arrays, once per process and version of the
    files; it is not taken from the files.
    """
    try:
        store = GraphStore.load(folder)
        version = file_versions(folder)
        if version not in _verified:
            if store.meta.get("content") != content_hash(store, leave_out):
                return None
            _verified.add(version)
        return store
    except (DataError, OSError):
        return None


def save_cached(store: GraphStore, folder: Path, leave_out: Sequence[str] = ()) -> GraphStore:
    """Write graphs with their hash to a cache folder; return them as loaded from there."""
    store.meta["content"] = content_hash(store, leave_out)
    try:
        return GraphStore.load(store.save(folder))
    # If the cache can't be written, or another process replaces it first, use the graphs in memory.
    except (DataError, OSError):
        return store
