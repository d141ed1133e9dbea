"""Kernels are compiled once, kept on disk, and work where nothing can be kept."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

engine = importlib.import_module("gsat.ops.engine")

TRAIN_A_LAYER = """
import hashlib
import torch
from gsat.graphs import from_pyg
from gsat.gsat import GSAT
from gsat.models import GIN
from gsat.ops import Draws
from gsat.ops.pool import segment_sums
from gsat.tasks import Task
from reference import random_graphs

torch.set_num_threads(1)
batch = from_pyg(random_graphs(6, 40, awkward=False)).batch([i % 40 for i in range(200)])
model = GSAT(GIN(batch.x.shape[1], Task("binary"), hidden=16)).train()
model(batch, Draws(0)).logits.square().sum().backward()
grads = b"".join(p.grad.numpy().tobytes() for p in model.parameters() if p.grad is not None)
hits, misses = segment_sums.stats.cache_hits, segment_sums.stats.cache_misses
print(hashlib.sha256(grads).hexdigest(), sum(hits.values()), sum(misses.values()))
"""


@pytest.mark.medium
def test_code_is_read_from_disk_and_gives_the_bits_of_code_just_compiled(tmp_path: Path) -> None:
    """A run that is resumed in another process must go on as it would have."""
    place = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    place["PYTHONPATH"] = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", TRAIN_A_LAYER]
    (compiled, *first), (read, *second) = [
        subprocess.run(
            command, env=place, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert (first, second) == (["0", "1"], ["1", "0"])  # hits and misses
    assert compiled == read


def test_it_works_where_no_folder_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba refuses to decorate then; the kernel is compiled in memory instead."""
    real = numba.njit

    def refuse(*args: Any, **options: Any) -> Any:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **options)

    monkeypatch.setattr(numba, "njit", refuse)

    def double(first, last, ptr, x):  # type: ignore[no-untyped-def]
        for i in range(ptr[first], ptr[last]):
            x[i] *= 2

    values = np.arange(4.0)
    engine.split(engine.kernel(double), np.array([0, 1, 4]), values)
    assert values.tolist() == [0, 2, 4, 6]


NOWHERE = """
from numba.core import caching
for kind in (caching.CacheImpl, *caching.CacheImpl.__subclasses__()):
    kind._locator_classes = []
import gsat.ops
from gsat.ops import thread_pool
assert thread_pool._reached.py_func.__name__ == "_reached"
"""


def test_the_package_can_be_imported_where_no_folder_can_be_written() -> None:
    subprocess.run([sys.executable, "-c", NOWHERE], check=True)


class Terminal(io.StringIO):
    """Standard error on a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "told"), [(Terminal(), 1), (io.StringIO(), 0)])
def test_a_long_compile_is_announced_once_and_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, told: int
) -> None:
    class Slow:
        def __call__(self, *_: object) -> None:
            time.sleep(0.5)

    monkeypatch.setattr(sys, "stderr", stream)
    engine._announced.clear()
    try:
        for _ in range(2):
            engine.split(Slow(), np.array([0, 0]))
    finally:
        engine._announced.set()
    assert stream.getvalue().count("compiling kernels") == told
