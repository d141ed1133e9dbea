"""Matrix products inside compiled kernels.

A kernel that makes its rows, multiplies them and continues with the result, a few hundred rows at a
time, never leaves the cache; and one call replaces many small steps. The product itself is the
``sgemm`` of the BLAS that torch brings along, called by its address, one thread per call: the
kernels split their rows over threads themselves. That needs MKL; where torch has another BLAS,
:func:`sgemm_address` returns 0 and the ops take their unfused forms with ``torch.mm``.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gsat.ops.numba.compile import inlined
from gsat.ops.numba.parallel import num_threads, run_ranges, run_together
from gsat.ops.numba.thread_pool import on_thread_start

_TRANSPOSED, _AS_IS = np.uint8(ord("T")), np.uint8(ord("N"))
_MAX_BLOCKS, _MIN_BLOCK_ROWS = 8, 256


@functools.cache
def _library() -> Any:
    """Return torch's own library if its BLAS is MKL, else None."""
    for path in (Path(torch.__file__).parent / "lib").glob("*torch_cpu.*"):
        try:
            library = ctypes.CDLL(str(path))
            if library.sgemm_ and library.MKL_Set_Num_Threads_Local:
                return library
        except (OSError, AttributeError):
            continue
    return None


@functools.cache
def sgemm_address() -> int:
    """Return the address of MKL's ``sgemm``, or 0 where torch has another BLAS."""
    library = _library()
    return (ctypes.cast(library.sgemm_, ctypes.c_void_p).value or 0) if library else 0


@contextmanager
def _one_thread_per_product() -> Iterator[None]:
    """Keep products that are called from this thread from starting threads of their own."""
    before = _library().MKL_Set_Num_Threads_Local(1)
    try:
        yield
    finally:
        _library().MKL_Set_Num_Threads_Local(before)


def _limit_products_to_one_thread() -> None:
    if _library():
        _library().MKL_Set_Num_Threads_Local(1)


on_thread_start.append(_limit_products_to_one_thread)  # these threads run nothing but kernels


def block_ptr(
    rows: int, ptr: NDArray[np.int64] | None = None, most: int = _MAX_BLOCKS
) -> NDArray[np.int64]:
    """Return the boundaries of a few blocks with about the same number of rows each.

    Sums over all rows are taken per block and then over blocks. The number of blocks follows from
    the data alone, so the result does not depend on the number of threads.
    """
    count = max(1, min(most, -(-rows // _MIN_BLOCK_ROWS)))
    count += count % 2 if count > 1 else 0
    bounds = np.arange(count + 1) * rows // count
    if ptr is None or len(ptr) < 2:
        return bounds
    inner = np.searchsorted(ptr, bounds[1:-1])
    return np.unique(np.concatenate([[0], inner, [len(ptr) - 1]]))


def run_over_blocks(run: Any, ptr: NDArray[np.int64], *args: Any) -> None:
    """Run a kernel with matrix products inside, each thread on the same number of blocks."""
    with _one_thread_per_product():
        count = len(ptr) - 1
        threads = min(num_threads(), count)
        run_ranges(run, [count * i // threads for i in range(threads + 1)], ptr, *args)


def run_stages(run: Any, ptr: NDArray[np.int64], *args: Any) -> None:
    """Run a kernel of several stages with matrix products inside; see ``run_together``."""
    with _one_thread_per_product():
        run_together(run, len(ptr) - 1, ptr, *args)


@intrinsic
def _sgemm(typing_context, address, ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc):
    """C = op(A) op(B) + beta C in Fortran's order, with arguments by reference as in BLAS."""
    size, pointer = types.int32, types.intp
    signature = types.void(
        types.int64, types.uint8, types.uint8, size, size, size, pointer, size, pointer, size,
        types.float32, pointer, size,
    )  # fmt: skip

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        char, integer, real = ir.IntType(8), ir.IntType(32), ir.FloatType()
        kinds = [char, char, *[integer] * 3, real, real, integer, real, integer, real, real]
        kinds.append(integer)
        kind = ir.FunctionType(ir.VoidType(), [each.as_pointer() for each in kinds])
        address, ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc = args

        def by_reference(value: Any) -> Any:
            return cgutils.alloca_once_value(builder, value)

        def matrix(value: Any) -> Any:
            return builder.inttoptr(value, real.as_pointer())

        sizes = [by_reference(value) for value in (ta, tb, m, n, k, ir.Constant(real, 1.0))]
        builder.call(
            builder.inttoptr(address, kind.as_pointer()),
            [
                *sizes, matrix(a), by_reference(lda), matrix(b), by_reference(ldb),
                by_reference(beta), matrix(c), by_reference(ldc),
            ],
        )  # fmt: skip
        return context.get_dummy_value()

    return signature, generate


# The functions below are for use in kernels; sgemm is the address from sgemm_address(). In their
# names, n and t say whether each factor is taken as it is or transposed. Rows are contiguous; a
# matrix may be a range of columns of a wider one. C[m, n] = A B in our order is Cᵀ = Bᵀ Aᵀ in
# Fortran's.


@inlined
def _row_stride(matrix: Any) -> Any:
    """Numbers from the beginning of one row to that of the next."""
    # The stride of an empty matrix is arbitrary; the library would complain on standard output.
    return np.int32(max(matrix.strides[0] // 4, matrix.shape[1], 1))


@inlined
def matmul_nt(sgemm, x, w, out):
    """out = x wᵀ: [m, k] and [n, k] to [m, n]."""
    _sgemm(
        sgemm, _TRANSPOSED, _AS_IS,
        np.int32(w.shape[0]), np.int32(x.shape[0]), np.int32(x.shape[1]),
        w.ctypes.data, _row_stride(w), x.ctypes.data, _row_stride(x), np.float32(0.0),
        out.ctypes.data, _row_stride(out),
    )  # fmt: skip


@inlined
def matmul_nn(sgemm, y, w, add, out):
    """out = y w, plus what out holds if ``add``: [m, n] and [n, k] to [m, k]."""
    _sgemm(
        sgemm, _AS_IS, _AS_IS,
        np.int32(w.shape[1]), np.int32(y.shape[0]), np.int32(y.shape[1]),
        w.ctypes.data, _row_stride(w), y.ctypes.data, _row_stride(y),
        np.float32(1.0 if add else 0.0), out.ctypes.data, _row_stride(out),
    )  # fmt: skip


@inlined
def add_matmul_tn(sgemm, y, x, out):
    """out += yᵀ x: [m, n] and [m, k] to [n, k]."""
    _sgemm(
        sgemm, _AS_IS, _TRANSPOSED,
        np.int32(x.shape[1]), np.int32(y.shape[1]), np.int32(y.shape[0]),
        x.ctypes.data, _row_stride(x), y.ctypes.data, _row_stride(y), np.float32(1.0),
        out.ctypes.data, _row_stride(out),
    )  # fmt: skip


# Loops, not array expressions: Numba takes seconds to compile the error handling of those.


@inlined
def fill_zero(matrix):
    """Set a matrix to zero."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = 0.0


@inlined
def add_to(part, total):
    """total += part, for matrices."""
    for i in range(part.shape[0]):
        for j in range(part.shape[1]):
            total[i, j] += part[i, j]


@inlined
def shifted_slice(index, first, last, by):
    """``index[first:last] - by``."""
    out = np.empty(last - first, np.int64)
    for i in range(last - first):
        out[i] = index[first + i] - by
    return out
