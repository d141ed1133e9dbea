"""How the work of kernels is split over threads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from gsat.ops.numba import compile as compile_module
from gsat.ops.numba import parallel
from gsat.ops.numba.parallel import run_over_segments
from gsat.ops.numba.thread_pool import thread_pool


def use(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels use this number of threads."""
    monkeypatch.setattr(parallel, "_kernel_threads", [count])


@pytest.mark.parametrize("rows", [0, 1, 255, 256, 257, 1000])
def test_chunks_cover_all_rows(rows: int) -> None:
    ptr = parallel.chunk_ptr(rows)
    assert ptr[0] == 0
    assert ptr[-1] == rows
    assert len(ptr) - 1 == -(-rows // parallel.CHUNK)
    assert (np.diff(ptr) > 0).all()
    assert (np.diff(ptr) <= parallel.CHUNK).all()


class Recorder:
    """Stands for a kernel that is compiled already, and notes the ranges it is called with."""

    def __init__(self) -> None:
        compile_module._compiled.add(self)
        self.ranges: list[tuple[int, int]] = []

    def __call__(self, first: int, last: int, ptr: np.ndarray, *more: str) -> None:
        assert more == ("more",)
        self.ranges.append((first, last))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_ranges_cover_every_segment_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_MIN_ROWS", 1)
    use(count, monkeypatch)
    rng = np.random.default_rng(0)
    for case in range(60):
        sizes = rng.integers(0, 5, size=case % 12) * rng.integers(0, 2, size=case % 12)
        ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        kernel = Recorder()
        run_over_segments(kernel, ptr, "more")
        ranges = sorted(kernel.ranges)
        assert ranges[0][0] == 0
        assert ranges[-1][1] == len(sizes)
        assert all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
        assert len(ranges) == min(count, max(1, ptr[-1]), max(1, len(sizes)))


def test_the_work_is_shared_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_MIN_ROWS", 100)
    use(2, monkeypatch)
    ptr = np.concatenate([[0], np.cumsum([50] + [1] * 200)]).astype(np.int64)
    kernel = Recorder()
    run_over_segments(kernel, ptr, "more")
    assert sorted(ptr[b] - ptr[a] for a, b in kernel.ranges) == [125, 125]
    kernel = Recorder()
    run_over_segments(kernel, ptr[:140], "more")
    assert kernel.ranges == [(0, 139)]  # less than 100 rows for each: not worth a second thread


def test_exclusive_threads_go_to_the_kernels() -> None:
    torch.set_num_threads(3)
    assert parallel.num_threads() == 1  # torch's threads would stand in their way
    with parallel.exclusive_threads():
        assert (parallel.num_threads(), torch.get_num_threads()) == (3, 1)
        with parallel.exclusive_threads():
            assert (parallel.num_threads(), torch.get_num_threads()) == (3, 1)
        assert (parallel.num_threads(), torch.get_num_threads()) == (3, 1)
    assert (parallel.num_threads(), torch.get_num_threads()) == (1, 3)


def _twice(first, last, ptr, x):  # type: ignore[no-untyped-def]
    for i in range(ptr[first], ptr[last]):
        x[i] *= 2


def test_a_kernel_is_compiled_before_threads_enter_it() -> None:
    """And on an empty range: nothing is done twice."""
    compiled = compile_module.kernel(_twice)
    x = np.ones(3, np.float32)
    run_over_segments(compiled, np.array([0, 2, 3]), x)
    assert x.tolist() == [2, 2, 2]
    assert len(compiled.signatures) == 1


def test_stages_run_on_one_thread_while_the_pool_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that wait for each other can't run one after the other."""
    use(2, monkeypatch)
    seen: list[tuple[int, ...]] = []

    def stages(thread: int, end: int, threads: int, meeting: object, *_: object) -> None:
        if end:
            seen.append((thread, threads))

    parallel.run_together(stages, 2)
    assert sorted(seen) == [(0, 2), (1, 2)]
    seen.clear()
    pool = thread_pool(2)
    with pool._free:
        parallel.run_together(stages, 2)
    assert seen == [(0, 1)]
