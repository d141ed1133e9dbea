"""Memory of kernels: where arrays begin, and that neighbours in memory change no result."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch

from gsat.ops.numba.batch_norm import INVERSE_STD, MEAN, SCALE, input_gradient
from gsat.ops.numba.buffers import GUARD, aligned_empties, aligned_empty, as_array


@pytest.mark.parametrize("rows", [5, 1 << 20])
def test_arrays_begin_at_64_bytes_with_gaps_between_them(rows: int) -> None:
    arrays = [*aligned_empties((rows, 3), (7,), (2, 2, rows)), aligned_empty(rows, 5)]
    assert [array.shape for array in arrays] == [(rows, 3), (7,), (2, 2, rows), (rows, 5)]
    assert all(array.dtype == np.float32 for array in arrays)
    places = sorted((array.ctypes.data, array.nbytes) for array in arrays)
    assert all(start % 64 == 0 for start, _ in places)
    for (start, size), (following, _) in itertools.pairwise(places):
        assert following - start - size >= 4 * GUARD


@pytest.mark.skipif(sys.platform != "linux", reason="an option of glibc")
def test_freed_memory_is_reused_and_returned_at_the_end() -> None:
    """As seen by the pages that the system has to provide for large arrays."""
    code = """
import resource, torch
from gsat.ops import keep_freed_memory, return_freed_memory
size = 1 << 24  # 64 MiB
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.empty(size).fill_(1.0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def resident():
    return int(open("/proc/self/statm").read().split()[1])
usual = faults()
keep_freed_memory()
faults()
kept, held = faults(), resident()
return_freed_memory()
print(usual, kept, held, resident())
"""
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    usual, kept, held, left = map(int, out.split())
    if usual < 100:
        pytest.skip("another C library, or pages so large that there is nothing to see")
    assert kept < usual / 10
    assert left < held - (1 << 24) // 4096


def test_tensors_are_read_without_a_copy() -> None:
    x = torch.ones(3, 2, requires_grad=True)
    assert np.shares_memory(as_array(x), x.detach().numpy())
    assert as_array(x.detach().t()).tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("h", [1, 4, 8, 16, 24, 64])
def test_an_array_read_before_the_gap_changes_no_bit_of_the_one_behind_it(h: int) -> None:
    rng, rows = np.random.default_rng(0), 500
    z, y, grad = rng.standard_normal((3, rows, h)).astype(np.float32)
    norm, means = rng.random((4, h), np.float32), rng.random((2, h), np.float32)
    memory, written, found = np.zeros((1 << 16), np.float32), rows * h, set()
    # Right before the gap, and far away. (With no gap, the bits differ for some h on some CPUs.)
    for distance in (GUARD + 2 * h, GUARD + 2 * h + 1, 1 << 13, 1 << 14):
        start = memory.size - written - distance
        read = memory[start : start + 2 * h].reshape(2, h)
        read[:] = means
        grad_z = memory[-written:].reshape(rows, h)
        input_gradient(
            0, 1, np.array([0, rows]), z, y, norm[MEAN], norm[INVERSE_STD], norm[SCALE], *read,
            grad, grad_z,
        )  # fmt: skip
        found.add(grad_z.tobytes())
    assert len(found) == 1
