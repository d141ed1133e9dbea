"""Matrix products called from compiled kernels."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch

from gsat.ops import StatisticsNetwork, train_statistics_network
from gsat.ops.numba import matmul, mutual_information, parallel
from gsat.ops.numba.matmul import (
    add_matmul_tn,
    block_ptr,
    matmul_nn,
    matmul_nt,
    run_over_blocks,
    sgemm_address,
)
from op_cases import normal

# These are inlined into kernels: only compiled code may call them.


@numba.njit
def forward(sgemm, x, w, out):  # type: ignore[no-untyped-def]
    matmul_nt(sgemm, x, w, out)


@numba.njit
def rows_gradient(sgemm, y, w, add, out):  # type: ignore[no-untyped-def]
    matmul_nn(sgemm, y, w, add, out)


@numba.njit
def weights_gradient(sgemm, y, x, out):  # type: ignore[no-untyped-def]
    add_matmul_tn(sgemm, y, x, out)


def test_sgemm_is_found_where_torch_has_mkl() -> None:
    assert torch.backends.mkl.is_available() == (sgemm_address() != 0)


@pytest.mark.skipif(not sgemm_address(), reason="torch's BLAS is not MKL here")
class TestProducts:
    @pytest.mark.parametrize("rows", [0, 1, 37])
    def test_products_with_columns_of_wider_matrices(self, rows: int) -> None:
        x, w, y = (t.numpy() for t in (normal(1, rows, 6), normal(2, 5, 14), normal(3, rows, 5)))
        w, wide = w[:, 4:10], np.ones((5, 13), np.float32)
        out, of_rows = np.full((rows, 5), np.nan, np.float32), np.full_like(x, np.nan)
        added = np.ones_like(x)
        forward(sgemm_address(), x, w, out)
        np.testing.assert_allclose(out, x @ w.T, rtol=0, atol=1e-5)
        rows_gradient(sgemm_address(), y, w, False, of_rows)
        rows_gradient(sgemm_address(), y, w, True, added)
        np.testing.assert_allclose(of_rows, y @ w, rtol=0, atol=1e-5)
        np.testing.assert_allclose(added, y @ w + 1, rtol=0, atol=1e-5)
        weights_gradient(sgemm_address(), y, x, wide[:, 3:9])
        np.testing.assert_allclose(wide[:, 3:9], y.T @ x + 1, rtol=0, atol=1e-5)
        assert (np.delete(wide, range(3, 9), axis=1) == 1).all()

    def test_products_of_torch_itself_keep_their_threads(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        library = matmul._library()
        torch.set_num_threads(2)
        try:
            before = library.MKL_Get_Max_Threads()
            inside = []

            class Run:
                def __call__(self, *_: object) -> None:
                    inside.append(library.MKL_Get_Max_Threads())

            run_over_blocks(Run(), np.array([0, 300]))
            monkeypatch.setattr(parallel, "_kernel_threads", [2])
            run_over_blocks(Run(), np.array([0, 300, 600]))  # one by each of two threads
            assert len(inside) == 5  # and two empty calls that would have compiled it
            assert set(inside) == {1}
            assert library.MKL_Get_Max_Threads() == before == 2
        finally:
            torch.set_num_threads(1)


def test_without_mkl_nothing_is_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(mutual_information, "train_statistics_network", lambda *_: calls.append(1))
    network, orders = StatisticsNetwork(2), torch.arange(3)[None]
    arguments = (network, network.adam(1e-3, 0.0), torch.ones(3, 2), torch.ones(3, 2), orders)
    train_statistics_network(*arguments)
    assert len(calls) == (sgemm_address() != 0)
    monkeypatch.setattr(matmul, "sgemm_address", lambda: 0)
    assert train_statistics_network(*arguments).shape == (1,)
    assert len(calls) == (sgemm_address() != 0)


@pytest.mark.parametrize("rows", [0, 1, 255, 256, 257, 700, 2697, 10**6])
def test_blocks_cover_all_rows(rows: int) -> None:
    ptr = block_ptr(rows)
    assert ptr[0] == 0
    assert ptr[-1] == rows
    sizes = np.diff(ptr)
    assert len(sizes) <= 8
    assert len(sizes)
    if rows:
        assert sizes.max() - sizes.min() <= 1
        assert sizes.min() >= min(rows, 100)


@pytest.mark.parametrize(
    "sizes", [[], [0], [0, 0], [0, 3, 0], [900, 0, 0], [0, 0, 900], [300] * 7, [1] * 2000]
)
def test_blocks_consist_of_whole_graphs_and_cover_all_of_them(sizes: list[int]) -> None:
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    bounds = block_ptr(int(ptr[-1]), ptr)
    assert bounds[0] == 0
    assert bounds[-1] == len(sizes)
    assert (np.diff(bounds) > 0).all() or not sizes  # no graph: one empty block
    if sizes == [1] * 2000:
        assert np.diff(bounds).tolist() == [250] * 8
