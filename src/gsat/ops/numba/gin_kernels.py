"""The kernels of GIN's layers: all layers of a pass in one call, forward or backward.

What is different in each layer (weights, what is kept for backward) is named by a table of
addresses and sizes, a row per layer. Aggregation is split over the threads by graph; everything
else by block of rows, a few hundred at a time. Between the two, the threads meet.
"""

from __future__ import annotations

import numpy as np

from gsat.ops.numba.aggregate import (
    dense_backward,
    dense_forward,
    plain_backward,
    plain_forward,
    scalar_backward,
    scalar_forward,
)
from gsat.ops.numba.batch_norm import (
    INVERSE_STD,
    MEAN,
    SCALE,
    SHIFT,
    add_moments,
    gradient_sums,
    input_gradient,
    norm_of_blocks,
    normalise_rows,
)
from gsat.ops.numba.buffers import matrix_at, vector_at
from gsat.ops.numba.compile import inlined, kernel
from gsat.ops.numba.matmul import add_matmul_tn, add_to, fill_zero, matmul_nn, matmul_nt
from gsat.ops.numba.normalise import relu_backward, relu_forward
from gsat.ops.numba.parallel import share_of
from gsat.ops.numba.thread_pool import meet

CHUNK = 512  # rows that go through all steps together: at h = 64 they fit into the cache

# Columns of the table. Sizes: columns of x (and s), of z, of the output. Addresses: the weights;
# the layer's input x, s (x and the sum of its messages) and z = s innerᵀ; the output y; statistics
# (per block the mean of z and the squared distances from it; then mean, variance and ``norm``); the
# edge term and its gradient. KEY is that of the dropout, GRADS the first of the layer's columns in
# the gradients of a block.
(
    IN, MIDDLE, OUT, INNER, NORM_WEIGHT, NORM_BIAS, OUTER, OUTER_BIAS, X, S, Z, Y, MEANS, SQUARES,
    BATCH_MEAN, VARIANCE, NORM, TERM, SLOPE, OFFSET, KEY, GRADS, GRAD_TERM, GRAD_SLOPE, GRAD_OFFSET,
) = range(25)  # fmt: skip
COLUMNS = 25
PLAIN, DENSE, SCALAR = 0, 1, 3  # what an edge term is: as many arrays


@inlined
def _aggregate(first, last, node_ptr, dst_ptr, src, weight, kind, row, x, s):  # type: ignore[no-untyped-def]
    """s = x plus the sum of its messages, of graphs first to last - 1."""
    if kind == PLAIN:
        plain_forward(first, last, node_ptr, dst_ptr, src, weight, x, True, s)
    elif kind == SCALAR:
        scalar_forward(
            first, last, node_ptr, dst_ptr, src, weight, x, vector_at(row[TERM], len(src)),
            vector_at(row[SLOPE], row[IN]), vector_at(row[OFFSET], row[IN]), True, s,
        )  # fmt: skip
    else:
        term = matrix_at(row[TERM], len(src), row[IN])
        dense_forward(first, last, node_ptr, dst_ptr, src, weight, x, term, True, s)


@inlined
def _aggregate_backward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, src_ptr, by_src, dst, weight, kind, row, x, grad, grad_x, grad_weight
):
    """Gradients of x, of the weights of the edges and of the edge term."""
    h = row[IN]
    if kind == PLAIN:
        plain_backward(
            first, last, node_ptr, src_ptr, by_src, dst, weight, x, True, grad, grad_x, grad_weight
        )
    elif kind == SCALAR:
        graphs, edges = len(node_ptr) - 1, len(dst)
        scalar_backward(
            first, last, node_ptr, src_ptr, by_src, dst, weight, x, vector_at(row[TERM], edges),
            vector_at(row[SLOPE], h), vector_at(row[OFFSET], h), True, grad, grad_x, grad_weight,
            vector_at(row[GRAD_TERM], edges if row[GRAD_TERM] else 0),
            matrix_at(row[GRAD_SLOPE], graphs, h), matrix_at(row[GRAD_OFFSET], graphs, h),
        )  # fmt: skip
    else:
        dense_backward(
            first, last, node_ptr, src_ptr, by_src, dst, weight, x,
            matrix_at(row[TERM], len(dst), h), True, grad, grad_x, grad_weight,
            matrix_at(row[GRAD_TERM], len(dst), h),
        )  # fmt: skip


@inlined
def _inner_forward(first, last, ptr, sgemm, s, w, z, mean, squares, part, part_squares):  # type: ignore[no-untyped-def]
    """z = s wᵀ, and per block the mean of z and the sum of squared distances from it."""
    for b in range(first, last):
        for j in range(w.shape[0]):
            mean[b, j] = 0.0
            squares[b, j] = 0.0
        for lo in range(ptr[b], ptr[b + 1], CHUNK):
            hi = min(lo + CHUNK, ptr[b + 1])
            matmul_nt(sgemm, s[lo:hi], w, z[lo:hi])
            add_moments(z[lo:hi], lo - ptr[b], part, part_squares, mean[b], squares[b])


@inlined
def _outer_forward(  # type: ignore[no-untyped-def]
    first, last, ptr, sgemm, z, norm, w, bias, row_id, key, threshold, keep_scale, out, y, product,
    span,
):  # fmt: skip
    """out = dropout(ReLU(ReLU(BatchNorm(z)) wᵀ + bias))."""
    for b in range(first, last):
        for lo in range(ptr[b], ptr[b + 1], CHUNK):
            hi = min(lo + CHUNK, ptr[b + 1])
            n = hi - lo
            span[1] = n
            normalise_rows(0, 1, span, z[lo:hi], norm[MEAN], norm[SCALE], norm[SHIFT], y)
            matmul_nt(sgemm, y[:n], w, product[:n])
            relu_forward(
                0, 1, span, product, bias, row_id[lo:hi], key, threshold, keep_scale, out[lo:hi]
            )


@kernel
def forward_pass(  # type: ignore[no-untyped-def]
    thread, end, threads, meeting, ptr, node_ptr, dst_ptr, src, weight, row_id, kind,
    sgemm, table, eps, threshold, keep_scale, scratch,
):  # fmt: skip
    """All layers. scratch: [threads, 2 * CHUNK * the widest row]."""
    if end == 0:
        return
    blocks, n = len(ptr) - 1, ptr[-1]
    first, last = blocks * thread // threads, blocks * (thread + 1) // threads
    graphs = share_of(node_ptr, thread, threads)
    graphs_end = share_of(node_ptr, thread + 1, threads)
    span, met = np.zeros(2, np.int64), 0  # span: a ptr with one segment, the chunk at hand
    memory = scratch[thread].ctypes.data
    more_memory = memory + 2 * scratch.shape[1]  # half of the row, of 4 bytes each
    for layer in range(len(table)):
        row = table[layer]
        h, d = row[MIDDLE], row[OUT]
        x, s = matrix_at(row[X], n, row[IN]), matrix_at(row[S], n, row[IN])
        z, norm = matrix_at(row[Z], n, h), matrix_at(row[NORM], 4, h)
        means, squares = matrix_at(row[MEANS], blocks, h), matrix_at(row[SQUARES], blocks, h)
        _aggregate(graphs, graphs_end, node_ptr, dst_ptr, src, weight, kind, row, x, s)
        met += 1
        meet(meeting, threads, met)
        _inner_forward(
            first, last, ptr, sgemm, s, matrix_at(row[INNER], h, row[IN]), z, means, squares,
            vector_at(memory, h), vector_at(more_memory, h),
        )  # fmt: skip
        met += 1
        meet(meeting, threads, met)
        if thread == 0:
            norm_of_blocks(
                ptr, means, squares, vector_at(row[NORM_WEIGHT], h), vector_at(row[NORM_BIAS], h),
                eps[layer], vector_at(row[BATCH_MEAN], h), vector_at(row[VARIANCE], h), norm,
            )  # fmt: skip
        met += 1
        meet(meeting, threads, met)
        _outer_forward(
            first, last, ptr, sgemm, z, norm, matrix_at(row[OUTER], d, h),
            vector_at(row[OUTER_BIAS], d), row_id, np.uint64(row[KEY]), threshold, keep_scale,
            matrix_at(row[Y], n, d), matrix_at(memory, CHUNK, h), matrix_at(more_memory, CHUNK, d),
            span,
        )  # fmt: skip
        met += 1
        meet(meeting, threads, met)


@inlined
def _outer_backward(  # type: ignore[no-untyped-def]
    b, ptr, sgemm, z, norm, w, out, keep_scale, grad, grad_y, grad_w, grad_sums, grad_bias, y,
    gated, part, part_sums, span,
):  # fmt: skip
    """Compute the gradient of y = ReLU(BatchNorm(z)).

    Adds the gradients of w and bias of a block, and the sums that the backward pass of batch norm
    needs (see ``gradient_sums``): grad_sums = total, dot.
    """
    for lo in range(ptr[b], ptr[b + 1], CHUNK):
        hi = min(lo + CHUNK, ptr[b + 1])
        n = hi - lo
        span[1] = n
        relu_backward(0, 1, span, out[lo:hi], keep_scale, grad[lo:hi], gated, part)
        add_to(part, grad_bias)
        matmul_nn(sgemm, gated[:n], w, False, grad_y[lo:hi])
        normalise_rows(0, 1, span, z[lo:hi], norm[MEAN], norm[SCALE], norm[SHIFT], y)
        add_matmul_tn(sgemm, gated[:n], y[:n], grad_w)
        gradient_sums(
            0, 1, span, z[lo:hi], y, norm[MEAN], norm[INVERSE_STD], grad_y[lo:hi],
            part_sums[:1], part_sums[1:],
        )  # fmt: skip
        add_to(part_sums, grad_sums)


@inlined
def _inner_backward(  # type: ignore[no-untyped-def]
    b, ptr, sgemm, z, norm, means, grad_y, s, w, grad_s, grad_w, y, grad_z, span
):
    """Gradient of s; adds that of w of a block. means = grad_sums over all rows, / N."""
    for lo in range(ptr[b], ptr[b + 1], CHUNK):
        hi = min(lo + CHUNK, ptr[b + 1])
        n = hi - lo
        span[1] = n
        normalise_rows(0, 1, span, z[lo:hi], norm[MEAN], norm[SCALE], norm[SHIFT], y)
        input_gradient(
            0, 1, span, z[lo:hi], y, norm[MEAN], norm[INVERSE_STD], norm[SCALE], means[0],
            means[1], grad_y[lo:hi], grad_z,
        )  # fmt: skip
        add_matmul_tn(sgemm, grad_z[:n], s[lo:hi], grad_w)
        matmul_nn(sgemm, grad_z[:n], w, False, grad_s[lo:hi])


@inlined
def _means_of_blocks(address, stride, blocks, n, means):  # type: ignore[no-untyped-def]
    """means = the blocks' grad_sums, added in order, / n."""
    h = means.shape[1]
    fill_zero(means)
    for b in range(blocks):
        add_to(matrix_at(address + stride * b, 2, h), means)
    for i in range(2):
        for j in range(h):
            means[i, j] /= np.float32(n)


@inlined
def padded(size):  # type: ignore[no-untyped-def]
    """Round a number of float32 up to a multiple of 64 bytes."""
    return (size + 15) // 16 * 16


@kernel
def backward_pass(  # type: ignore[no-untyped-def]
    thread, end, threads, meeting, ptr, node_ptr, dst_ptr, src_ptr, by_src, dst,
    weight, kind, sgemm, table, keep_scale, grad, grads, grad_weight, weight_scratch, rows, scratch,
):  # fmt: skip
    """All layers, the last one first.

    grads: [blocks, numbers], the gradients of the weights by block: of each layer those of inner
    and outer, the sums [2, h] (which are those of the batch norm's bias and weight) and that of
    outer's bias, each padded. rows: addresses of grad_y, grad_s and of the gradients of the layers'
    inputs, of even and of odd layers. scratch: [threads, 4 * CHUNK * the widest row].
    """
    if end == 0:
        return
    blocks, n = len(ptr) - 1, ptr[-1]
    first, last = blocks * thread // threads, blocks * (thread + 1) // threads
    graphs = share_of(node_ptr, thread, threads)
    graphs_end = share_of(node_ptr, thread + 1, threads)
    edges, edges_end = dst_ptr[node_ptr[graphs]], dst_ptr[node_ptr[graphs_end]]
    span, met = np.zeros(2, np.int64), 0
    memory, quarter = scratch[thread].ctypes.data, scratch.shape[1]  # bytes: a fourth of the row
    block, stride = grads.ctypes.data, grads.strides[0]
    fill_zero(grads[first:last])
    above = grad
    for layer in range(len(table) - 1, -1, -1):
        row = table[layer]
        width, h, d = row[IN], row[MIDDLE], row[OUT]
        z, norm, s = (
            matrix_at(row[Z], n, h),
            matrix_at(row[NORM], 4, h),
            matrix_at(row[S], n, width),
        )
        grad_y, grad_s = matrix_at(rows[0], n, h), matrix_at(rows[1], n, width)
        y = matrix_at(memory, CHUNK, h)
        of_inner = row[GRADS]
        of_outer = of_inner + 4 * padded(h * width)
        of_sums = of_outer + 4 * padded(d * h)
        of_bias = of_sums + 4 * padded(2 * h)
        part, part_sums = memory + 2 * quarter, memory + 3 * quarter
        for b in range(first, last):
            at = block + stride * b
            _outer_backward(
                b, ptr, sgemm, z, norm, matrix_at(row[OUTER], d, h), matrix_at(row[Y], n, d),
                keep_scale, above, grad_y, matrix_at(at + of_outer, d, h),
                matrix_at(at + of_sums, 2, h), matrix_at(at + of_bias, 1, d), y,
                matrix_at(memory + quarter, CHUNK, d), matrix_at(part, 1, d),
                matrix_at(part_sums, 2, h), span,
            )  # fmt: skip
        met += 1
        meet(meeting, threads, met)
        means = matrix_at(part_sums, 2, h)  # each thread computes them for itself
        _means_of_blocks(block + of_sums, stride, blocks, n, means)
        for b in range(first, last):
            _inner_backward(
                b, ptr, sgemm, z, norm, means, grad_y, s, matrix_at(row[INNER], h, width), grad_s,
                matrix_at(block + stride * b + of_inner, h, width), y,
                matrix_at(memory + quarter, CHUNK, h), span,
            )  # fmt: skip
        met += 1
        meet(meeting, threads, met)
        last_layer = layer == len(table) - 1
        of_weight = grad_weight if last_layer else weight_scratch
        grad_x = matrix_at(rows[2 + layer % 2], n, width)
        _aggregate_backward(
            graphs, graphs_end, node_ptr, src_ptr, by_src, dst, weight, kind, row,
            matrix_at(row[X], n, width), grad_s, grad_x, of_weight,
        )  # fmt: skip
        if len(grad_weight) > 0 and not last_layer:
            for e in range(edges, edges_end):
                grad_weight[e] += weight_scratch[e]
        above = grad_x
        met += 1
        meet(meeting, threads, met)
