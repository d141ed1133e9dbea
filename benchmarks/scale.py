"""A million small graphs, written and read in bounded memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import peak_memory, side_by_side
from gsat.graphs import GraphStore, ShardWriter

NODES, EDGES = 20, 40  # of each graph
CHUNK = 10_000  # graphs made at once
BATCH = 128
BATCHES = 500


def write(folder: str, graphs: int) -> dict[str, Any]:
    """Make ``graphs`` graphs and write them, in this (fresh) process."""
    rng = np.random.default_rng(0)
    _chunk(rng, CHUNK)  # what making them needs is not counted
    before = peak_memory()
    making = 0.0
    start = time.perf_counter()
    with ShardWriter(folder) as writer:
        for first in range(0, graphs, CHUNK):
            began = time.perf_counter()
            chunk = _chunk(rng, min(CHUNK, graphs - first))
            making += time.perf_counter() - began
            writer.add(chunk)
    writing = time.perf_counter() - start - making
    used = peak_memory() - before
    files = [file.stat().st_size for file in Path(folder).glob("*.safetensors")]
    return {
        "graphs": graphs, "shards": len(files), "disk_mib": sum(files) / 2**20,
        "making_s": making, "writing_s": writing, "writing_mib": used,
    }  # fmt: skip


def read(folder: str) -> dict[str, Any]:
    """Read random batches of what was written, in this (fresh) process.

    Memory is what belongs to no file: mapped pages are given up when memory is short.
    """
    before = _own_memory()
    start = time.perf_counter()
    store = GraphStore.load(folder)
    opening = time.perf_counter() - start
    rng = np.random.default_rng(1)
    peak = _own_memory()
    for _ in range(BATCHES):
        store.batch(rng.integers(0, len(store), BATCH))
        peak = max(peak, _own_memory())
    whole = GraphStore({name: np.asarray(values) for name, values in store.arrays.items()}, {})
    rows = rng.integers(0, len(store), (BATCHES, BATCH))

    def batches(of: GraphStore) -> None:
        for some in rows:
            of.batch(some)

    timings = side_by_side([lambda: batches(store), lambda: batches(whole)])
    sharded, plain = (timing.wall for timing in timings)
    return {
        "opening_s": opening, "reading_mib": (peak - before) / 2**20,
        "batch_ms": sharded / BATCHES * 1e3, "in_memory_ms": plain / BATCHES * 1e3,
        "ratio": sharded / plain,
    }  # fmt: skip


def _chunk(rng: np.random.Generator, graphs: int) -> GraphStore:
    """Make undirected random graphs with four features per node and two classes."""
    u = rng.integers(0, NODES, (graphs, EDGES // 2))
    v = (u + rng.integers(1, NODES, u.shape)) % NODES
    there, back = np.concatenate([u, v], axis=1), np.concatenate([v, u], axis=1)
    return GraphStore.from_arrays(
        node_ptr=np.arange(graphs + 1) * NODES,
        edge_ptr=np.arange(graphs + 1) * EDGES,
        edge_index=np.stack([there.ravel(), back.ravel()]),
        x=rng.normal(size=(graphs * NODES, 4)).astype(np.float32),
        y=rng.integers(0, 2, graphs),
    )


def _own_memory() -> int:
    text = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    return int(text.split("Anonymous:")[1].split()[0]) * 1024
