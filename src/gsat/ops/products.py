"""Matrix products inside compiled kernels.

A kernel that makes its rows, multiplies them and goes on with the result, some hundred rows at a
time, never leaves the cache; and one launch replaces many small steps. The product itself is the
``sgemm`` of the BLAS that torch brings along, called by its address, one thread per call: the
kernels split their rows over threads themselves. Where torch's BLAS can't be told so (it is not
MKL), :func:`blas` gives 0 and the ops take their unfused forms with ``torch.mm``.
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

from gsat.ops.engine import compiled, inlined, launch, num_threads
from gsat.ops.thread_pool import on_start

_TRANSPOSED, _AS_IS = np.uint8(ord("T")), np.uint8(ord("N"))
_BLOCKS, _LEAST = 8, 256  # at most so many blocks, of at least so many rows


@functools.cache
def _library() -> Any:
    """torch's own library, if its BLAS is MKL."""
    for path in (Path(torch.__file__).parent / "lib").glob("*torch_cpu.*"):
        try:
            library = ctypes.CDLL(str(path))
            if library.sgemm_ and library.MKL_Set_Num_Threads_Local:
                return library
        except (OSError, AttributeError):
            continue
    return None


@functools.cache
def blas() -> int:
    """The address of ``sgemm``, or 0."""
    library = _library()
    return (ctypes.cast(library.sgemm_, ctypes.c_void_p).value or 0) if library else 0


def fused(*tensors: torch.Tensor | None) -> bool:
    """Whether a kernel with products inside takes these tensors."""
    return compiled(*tensors) and blas() != 0


@contextmanager
def _one_thread_per_product() -> Iterator[None]:
    """Products called from this thread do not start threads of their own."""
    before = _library().MKL_Set_Num_Threads_Local(1)
    try:
        yield
    finally:
        _library().MKL_Set_Num_Threads_Local(before)


def _no_threads_of_their_own() -> None:
    if _library():
        _library().MKL_Set_Num_Threads_Local(1)


on_start.append(_no_threads_of_their_own)  # the threads that run kernels run nothing else


def blocks(rows: int, ptr: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Pointers to a few blocks of about as many rows each; with ``ptr``, of its whole segments.

    Sums over all rows are taken per block and then over blocks. Their number follows from the data
    alone, so the result does not depend on the number of threads.
    """
    count = max(1, min(_BLOCKS, -(-rows // _LEAST)))
    count += count % 2 if count > 1 else 0
    bounds = np.arange(count + 1) * rows // count
    if ptr is None or len(ptr) < 2:
        return bounds
    inner = np.searchsorted(ptr, bounds[1:-1])
    return np.unique(np.concatenate([[0], inner, [len(ptr) - 1]]))


def spread(run: Any, ptr: NDArray[np.int64], *args: Any) -> None:
    """Call a kernel with products on ranges of blocks, each thread taking as many."""
    with _one_thread_per_product():
        count = len(ptr) - 1
        threads = min(num_threads(), count)
        launch(run, [count * i // threads for i in range(threads + 1)], ptr, *args)


@intrinsic
def _sgemm(typing_context, address, ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc):  # type: ignore[no-untyped-def]
    """C = op(A) op(B) + beta C in Fortran's order, arguments by reference as BLAS wants them."""
    size, place = types.int32, types.intp
    signature = types.void(
        types.int64, types.uint8, types.uint8, size, size, size, place, size, place, size,
        types.float32, place, size,
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


# Rows are contiguous; a matrix may be a range of columns of a wider one. What is C[m, n] = A B in
# our order is Cᵀ = Bᵀ Aᵀ in Fortran's.


@inlined
def _width(matrix: Any) -> Any:
    # Of an empty matrix the stride may be anything, and the library complains on standard output.
    return np.int32(max(matrix.strides[0] // 4, matrix.shape[1], 1))


@inlined
def times_transposed(blas, x, w, out):  # type: ignore[no-untyped-def]
    """out = x wᵀ: [m, k] and [n, k] to [m, n]."""
    _sgemm(
        blas, _TRANSPOSED, _AS_IS, np.int32(w.shape[0]), np.int32(x.shape[0]), np.int32(x.shape[1]),
        w.ctypes.data, _width(w), x.ctypes.data, _width(x), np.float32(0.0),
        out.ctypes.data, _width(out),
    )  # fmt: skip


@inlined
def times(blas, y, w, add, out):  # type: ignore[no-untyped-def]
    """out = y w, added to what is there if ``add``: [m, n] and [n, k] to [m, k]."""
    _sgemm(
        blas, _AS_IS, _AS_IS, np.int32(w.shape[1]), np.int32(y.shape[0]), np.int32(y.shape[1]),
        w.ctypes.data, _width(w), y.ctypes.data, _width(y), np.float32(1.0 if add else 0.0),
        out.ctypes.data, _width(out),
    )  # fmt: skip


@inlined
def add_transposed_times(blas, y, x, out):  # type: ignore[no-untyped-def]
    """out += yᵀ x: [m, n] and [m, k] to [n, k]."""
    _sgemm(
        blas, _AS_IS, _TRANSPOSED, np.int32(x.shape[1]), np.int32(y.shape[1]), np.int32(y.shape[0]),
        x.ctypes.data, _width(x), y.ctypes.data, _width(y), np.float32(1.0),
        out.ctypes.data, _width(out),
    )  # fmt: skip


# Loops, not array expressions: Numba takes seconds to compile what those may have to complain of.


@inlined
def clear(matrix):  # type: ignore[no-untyped-def]
    """Set a matrix to zero."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] = 0.0


@inlined
def add(part, total):  # type: ignore[no-untyped-def]
    """Add one matrix to another."""
    for i in range(part.shape[0]):
        for j in range(part.shape[1]):
            total[i, j] += part[i, j]


@inlined
def shifted(index, first, last, by):  # type: ignore[no-untyped-def]
    """``index[first:last] - by``."""
    out = np.empty(last - first, np.int64)
    for i in range(last - first):
        out[i] = index[first + i] - by
    return out
