"""Memory of kernels: where arrays begin, and that neighbours in memory change no result."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gsat.ops.numba.batch_norm import input_gradient
from gsat.ops.numba.buffers import GUARD, aligned_empty, as_array


@pytest.mark.parametrize("shape", [(3,), (5, 8), (1 << 20, 2)])
def test_arrays_begin_at_64_bytes_behind_a_gap(shape: tuple[int, ...]) -> None:
    array = aligned_empty(*shape)
    assert array.shape == shape
    assert array.dtype == np.float32
    start = array.ctypes.data
    assert start % 64 == 0
    memory = array
    while memory.base is not None and isinstance(memory.base, np.ndarray):
        memory = memory.base
    owner = memory if memory.base is None else torch.from_numpy(memory)
    first = owner.ctypes.data if isinstance(owner, np.ndarray) else owner.data_ptr()
    assert start - first >= 4 * GUARD
    array[:] = 1.0


def test_tensors_are_read_without_a_copy() -> None:
    x = torch.ones(3, 2, requires_grad=True)
    assert np.shares_memory(as_array(x), x.detach().numpy())
    assert as_array(x.detach().t()).tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("h", [1, 4, 8, 16, 24, 64])
def test_an_array_read_before_the_gap_changes_no_bit_of_the_one_behind_it(h: int) -> None:
    rng, rows = np.random.default_rng(0), 20
    z, y, grad = rng.standard_normal((3, rows, h)).astype(np.float32)
    mean, inverse_std, scale, mean_grad, mean_dot = rng.random((5, h), np.float32)
    memory, found = np.zeros(1 << 16, np.float32), set()
    # Right before the gap, and far away.
    for distance in (GUARD + h, GUARD + h + 1, 1 << 14, 1 << 15):
        written = memory[-rows * h :].reshape(rows, h)
        start = memory.size - rows * h - distance
        memory[start : start + h] = mean_dot
        input_gradient(
            0, 1, np.array([0, rows]), z, y, mean, inverse_std, scale, mean_grad,
            memory[start : start + h], grad, written,
        )  # fmt: skip
        found.add(written.tobytes())
    assert len(found) == 1
