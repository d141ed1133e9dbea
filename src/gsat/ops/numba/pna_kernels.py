"""The kernels of PNA's layers: rows, their products with the merged weights, and what follows.

Arguments that several of them take (see ``_Pass`` in :mod:`gsat.ops.numba.pna_layers`): nodes are
sorted as in ``order``; block b has ptr[b] to ptr[b + 1] - 1 of them, and those of kind k in it are
bounds[b, k] to bounds[b, k + 1] - 1. ``blocks``, ``widths``, ``chunk`` and ``offsets`` describe the
rows of each kind. ``norm`` is as in :mod:`gsat.ops.numba.batch_norm`.
"""

from __future__ import annotations

import numpy as np

from gsat.ops.numba.batch_norm import INVERSE_STD, MEAN, SCALE, SHIFT, add_moments
from gsat.ops.numba.buffers import local_array
from gsat.ops.numba.compile import kernel, uncounted_inlined, uncounted_kernel
from gsat.ops.numba.matmul import add_matmul_tn, fill_zero, matmul_nn, matmul_nt
from gsat.ops.numba.pna_rows import (
    CENTRE,
    CONSTANT_EDGE,
    EDGE,
    KINDS,
    SOURCE,
    TAIL,
    WEIGHTED,
    centre_backward,
    centre_forward,
    part_backward,
    part_forward,
    spread_backward,
    spread_forward,
    statistics,
    statistics_backward,
)
from gsat.ops.numba.random import channel_bits_numba, column_offsets_numba, row_words_numba


@uncounted_inlined
def _rows_forward(
    lo, hi, kind, order, dst_ptr, src, position, options, edge_at, blocks, x, weight, edge,
    edge_rows, stats, lines, f,
):  # fmt: skip
    """f[i - lo] = the row of node order[i], for i from lo to hi - 1."""
    h = x.shape[1]
    weighted = options[WEIGHTED] != 0
    own = blocks[SOURCE, kind] * h
    centre = blocks[CENTRE, kind] * h
    for i in range(lo, hi):
        v, row = order[i], f[i - lo]
        begin, end = dst_ptr[v], dst_ptr[v + 1]
        part_forward(
            kind, begin, end, src, x, weight, position, lines[0], lines[1], lines[2], row[:own]
        )
        statistics(begin, end, weight, stats)
        centre_forward(kind, x[v], stats, weighted, position, row[own : own + centre])
        at = own + centre
        if options[CONSTANT_EDGE] and blocks[EDGE, kind] > 0:
            spread_forward(edge, stats[3], row[at : at + h])
            at += h
        for j in range(edge_at[i + 1] - edge_at[i]):
            row[at + j] = edge_rows[edge_at[i] + j]
        tail = row[len(row) - TAIL :]
        for j in range(TAIL):
            tail[j] = np.float32(0.0)
        tail[0] = np.float32(1.0)
        if options[CONSTANT_EDGE]:
            tail[1], tail[2], tail[3], tail[4] = stats[0], stats[1], stats[2], stats[4]


@uncounted_inlined
def _rows_backward(
    lo, hi, kind, order, dst_ptr, src, position, options, edge_at, blocks, x, weight, edge,
    stats, grad_stats, lines, f, grad_f, grad_x, grad_weight, grad_edge, grad_edge_rows,
):  # fmt: skip
    """Add the gradients of all that the rows are made of, given those of the rows."""
    h = x.shape[1]
    weighted = options[WEIGHTED] != 0
    own = blocks[SOURCE, kind] * h
    centre = blocks[CENTRE, kind] * h
    for i in range(lo, hi):
        v, row, grad = order[i], f[i - lo], grad_f[i - lo]
        begin, end = dst_ptr[v], dst_ptr[v + 1]
        part_backward(
            kind, begin, end, src, x, weight, position, lines[0], lines[1], lines[2], lines[3],
            lines[4], lines[5], row[:own], grad[:own], grad_x, grad_weight,
        )  # fmt: skip
        statistics(begin, end, weight, stats)
        for k in range(5):
            grad_stats[k] = np.float32(0.0)
        centre_backward(
            kind, x[v], stats, weighted, position, lines[0], row[own : own + centre],
            grad[own : own + centre], grad_x[v], grad_stats,
        )  # fmt: skip
        at = own + centre
        if options[CONSTANT_EDGE] and blocks[EDGE, kind] > 0:
            grad_stats[3] += spread_backward(
                edge, stats[3], lines[0], row[at : at + h], grad[at : at + h], grad_edge
            )
            at += h
        for j in range(edge_at[i + 1] - edge_at[i]):
            grad_edge_rows[edge_at[i] + j] += grad[at + j]
        if options[CONSTANT_EDGE]:
            tail = grad[len(grad) - TAIL :]
            grad_stats[0] += tail[1]
            grad_stats[1] += tail[2]
            grad_stats[2] += tail[3]
            grad_stats[4] += tail[4]
        if len(grad_weight) > 0:
            statistics_backward(begin, end, weight, stats, grad_stats, grad_weight)


@uncounted_kernel
def product_forward(
    first, last, ptr, bounds, order, dst_ptr, src, position, options, edge_at, blocks, sgemm,
    x, weight, edge, edge_rows, merged, offsets, widths, chunk, z, mean, squares, line_scratch,
    stats_scratch, scratch,
):  # fmt: skip
    """z = the rows times the merged weights; mean and squares of z per block."""
    h = z.shape[1]
    lines, stats = line_scratch[first], stats_scratch[first, 0]
    for b in range(first, last):
        for j in range(h):
            mean[b, j] = np.float32(0.0)
            squares[b, j] = np.float32(0.0)
        for kind in range(KINDS):
            width = widths[kind]
            w = merged[offsets[kind] : offsets[kind + 1]].reshape(h, width)
            step = chunk[kind]
            for lo in range(bounds[b, kind], bounds[b, kind + 1], step):
                hi = min(lo + step, bounds[b, kind + 1])
                f = scratch[first, : (hi - lo) * width].reshape(hi - lo, width)
                _rows_forward(
                    lo, hi, kind, order, dst_ptr, src, position, options, edge_at, blocks, x,
                    weight, edge, edge_rows, stats, lines, f,
                )  # fmt: skip
                matmul_nt(sgemm, f, w, z[lo:hi])
                add_moments(z[lo:hi], lo - ptr[b], lines[6], lines[7], mean[b], squares[b])


@uncounted_kernel
def product_backward(
    first, last, ptr, bounds, order, dst_ptr, src, position, options, edge_at, blocks, sgemm,
    x, weight, edge, edge_rows, merged, offsets, widths, chunk, z, norm, means, grad_y, grad_x,
    grad_weight, grad_edge, grad_edge_rows, grad_merged, line_scratch, stats_scratch,
    scratch, more_scratch,
    z_scratch,
):  # fmt: skip
    """Add the gradients of x, weights and edge attributes; that of the merged weights per block."""
    h = z.shape[1]
    lines, stats, grad_stats = line_scratch[first], stats_scratch[first, 0], stats_scratch[first, 1]
    for b in range(first, last):
        fill_zero(grad_merged[b : b + 1])
        for kind in range(KINDS):
            width = widths[kind]
            w = merged[offsets[kind] : offsets[kind + 1]].reshape(h, width)
            grad_w = grad_merged[b, offsets[kind] : offsets[kind + 1]].reshape(h, width)
            step = chunk[kind]
            for lo in range(bounds[b, kind], bounds[b, kind + 1], step):
                hi = min(lo + step, bounds[b, kind + 1])
                f = scratch[first, : (hi - lo) * width].reshape(hi - lo, width)
                grad_f = more_scratch[first, : (hi - lo) * width].reshape(hi - lo, width)
                grad_z = z_scratch[first, : hi - lo]
                for i in range(hi - lo):
                    for j in range(h):
                        normal = (z[lo + i, j] - norm[MEAN, j]) * norm[INVERSE_STD, j]
                        passing = grad_y[lo + i, j] - means[0, j] - normal * means[1, j]
                        grad_z[i, j] = norm[SCALE, j] * passing
                _rows_forward(
                    lo, hi, kind, order, dst_ptr, src, position, options, edge_at, blocks, x,
                    weight, edge, edge_rows, stats, lines, f,
                )  # fmt: skip
                add_matmul_tn(sgemm, grad_z, f, grad_w)
                matmul_nn(sgemm, grad_z, w, False, grad_f)
                _rows_backward(
                    lo, hi, kind, order, dst_ptr, src, position, options, edge_at, blocks, x,
                    weight, edge, stats, grad_stats, lines, f, grad_f, grad_x, grad_weight,
                    grad_edge[b], grad_edge_rows,
                )  # fmt: skip


@uncounted_kernel
def edge_rows_forward(
    first, last, ptr, order, dst_ptr, index, position, edge_at, edge, weight, line_scratch, out
):
    """The blocks of the messages from the edges, for each node in ``order``."""
    lines = line_scratch[first]
    for i in range(ptr[first], ptr[last]):
        begin, end = dst_ptr[order[i]], dst_ptr[order[i] + 1]
        kind = min(end - begin, KINDS - 1)
        part_forward(
            kind, begin, end, index, edge, weight, position, lines[0], lines[1], lines[2],
            out[edge_at[i] : edge_at[i + 1]],
        )  # fmt: skip


@uncounted_kernel
def edge_rows_backward(
    first, last, ptr, order, dst_ptr, index, position, edge_at, edge, weight, line_scratch,
    out, grad, grad_edge, grad_weight,
):  # fmt: skip
    """Add the gradients of the edge attributes and of the weights."""
    lines = line_scratch[first]
    for i in range(ptr[first], ptr[last]):
        begin, end = dst_ptr[order[i]], dst_ptr[order[i] + 1]
        kind = min(end - begin, KINDS - 1)
        part_backward(
            kind, begin, end, index, edge, weight, position, lines[0], lines[1], lines[2],
            lines[3], lines[4], lines[5], out[edge_at[i] : edge_at[i + 1]],
            grad[edge_at[i] : edge_at[i + 1]], grad_edge, grad_weight,
        )  # fmt: skip


# What follows the product: batch norm, ReLU, residual connection and dropout. z has the nodes in
# another order than x: order[i] is the node of its row i.


@kernel
def finish_forward(first, last, ptr, order, x, z, norm, row_id, key, threshold, keep_scale, out):
    """out = dropout(x + ReLU(BatchNorm(z)))."""
    h = z.shape[1]
    zero = np.float32(0.0)
    line = local_array(h)
    offsets = column_offsets_numba(h)
    for i in range(ptr[first], ptr[last]):
        v = order[i]
        for j in range(h):
            value = (z[i, j] - norm[MEAN, j]) * norm[SCALE, j] + norm[SHIFT, j]
            # Cut where it is <= 0, not kept where it is > 0: a NaN gets through, as in torch.
            line[j] = zero if value <= zero else value
        if threshold == 0:
            for j in range(h):
                out[v, j] = x[v, j] + line[j]
        else:
            low, high = row_words_numba(key, row_id[v])
            for j in range(h):
                dropped = channel_bits_numba(low, high, offsets[j]) < threshold
                out[v, j] = zero if dropped else (x[v, j] + line[j]) * keep_scale


@kernel
def finish_backward(
    first, last, ptr, order, z, norm, row_id, key, threshold, keep_scale, grad, grad_x, grad_y, sums
):
    """Gradient of x by the residual connection, and what passes the ReLU.

    Per block, sums[b] = the sum of that, and of its products with (z - mean) / std.
    """
    h = z.shape[1]
    zero = np.float32(0.0)
    offsets = column_offsets_numba(h)
    for b in range(first, last):
        total, dot = sums[b, 0], sums[b, 1]
        for j in range(h):
            total[j] = zero
            dot[j] = zero
        for i in range(ptr[b], ptr[b + 1]):
            v = order[i]
            if threshold == 0:
                for j in range(h):
                    grad_x[v, j] = grad[v, j]
            else:
                # Hashed again: a sum may be 0 where it was kept, so the result does not show it.
                low, high = row_words_numba(key, row_id[v])
                for j in range(h):
                    dropped = channel_bits_numba(low, high, offsets[j]) < threshold
                    grad_x[v, j] = zero if dropped else grad[v, j] * keep_scale
            for j in range(h):
                value = (z[i, j] - norm[MEAN, j]) * norm[SCALE, j] + norm[SHIFT, j]
                grad_y[i, j] = grad_x[v, j] if value > zero else zero
            for j in range(h):
                total[j] += grad_y[i, j]
            for j in range(h):
                dot[j] += grad_y[i, j] * (z[i, j] - norm[MEAN, j])
        for j in range(h):
            dot[j] *= norm[INVERSE_STD, j]
