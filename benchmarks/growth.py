"""How time and memory grow with the number of edges."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from benchmarks.common import case, peak_memory, use_threads
from gsat.methods import Context
from gsat.ops import Draws, keep_freed_memory


def _positions(edges: int, per_graph: float, graphs: int) -> np.ndarray[Any, Any]:
    return np.arange(round(edges / per_graph)) % graphs


def training_step(edges: int) -> dict[str, Any]:
    """Measure a training step on a batch of about ``edges`` edges, in this (fresh) process."""
    use_threads(1)
    made = case("ba2motifs")
    assert made is not None
    store = made.data.store
    rows = _positions(edges, store.num_edges / len(store), len(store))
    keep_freed_memory()  # as a training does
    made.model.train()
    made.method.step(store.batch([0]), Context("train", 0, Draws(0)))  # compiles
    before = peak_memory()
    taken = []
    for i in range(5):
        start = time.perf_counter()
        batch = store.batch(rows)
        made.method.step(batch, Context("train", 0, Draws(i)))
        taken.append(time.perf_counter() - start)
    used = peak_memory() - before
    count = batch.num_edges
    return {
        "edges": count, "us_per_edge": statistics.median(taken) / count * 1e6,
        "kib_per_edge": 1024 * used / count,
    }  # fmt: skip


def inference(edges: int) -> dict[str, Any]:
    """Measure scoring about ``edges`` edges, batch by batch, in this (fresh) process."""
    use_threads(1)
    made = case("ba2motifs")
    assert made is not None
    store = made.data.store
    view = store.select(_positions(edges, store.num_edges / len(store), len(store)))
    made.model.score_edges(store.select(range(512)))  # compiles
    before = peak_memory()
    start = time.perf_counter()
    _, scores = made.model.score_edges(view)
    taken = time.perf_counter() - start
    used = peak_memory() - before
    return {"edges": len(scores), "us_per_edge": taken / len(scores) * 1e6, "mib": used}
