"""The layers of GIN, each with the ReLU and the dropout that follow it: one call per pass.

A table with one row per layer holds the addresses and sizes of all that differs between layers:
weights, and the arrays that backward needs. Aggregation is split over the threads by graph, and the
rest by block of rows, a few hundred at a time. Between the two, the threads meet.

Backward keeps s (the aggregated messages), z (its first product) and the result, and computes the
rest again. While training, the first bias cancels: the batch norm subtracts the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.numba.aggregate import (
    aggregate_rows,
    arrays_of_term,
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
    update_running_statistics,
)
from gsat.ops.numba.buffers import (
    aligned_empties,
    aligned_empty,
    as_array,
    empty_tensor,
    matrix_at,
    vector_at,
)
from gsat.ops.numba.compile import inlined, kernel
from gsat.ops.numba.matmul import (
    add_matmul_tn,
    add_to,
    block_ptr,
    fill_zero,
    matmul_nn,
    matmul_nt,
    run_over_blocks,
    run_stages,
    sgemm_address,
)
from gsat.ops.numba.normalise import relu_backward, relu_forward
from gsat.ops.numba.parallel import num_threads, share_of
from gsat.ops.numba.random import dropout_arguments
from gsat.ops.numba.thread_pool import meet

CHUNK = 512  # rows that go through all steps together: at h = 64 they fit into the cache
_WEIGHTS = 6  # tensors of a layer

# Columns of the table. Sizes: columns of x (and s), of z, of the output. Addresses: the weights;
# the layer's input x, s (x and the sum of its messages) and z = s innerᵀ; the output y; statistics
# (per block the mean of z and the squared distances from it; then mean, variance and ``norm``); the
# edge term and its gradient. KEY is that of the dropout. GRAD_INNER, GRAD_OUTER, GRAD_SUMS and
# GRAD_BIAS say where, in bytes, the layer's gradients begin in those of a block.
(
    IN, MIDDLE, OUT, INNER, NORM_WEIGHT, NORM_BIAS, OUTER, OUTER_BIAS, X, S, Z, Y, MEANS, SQUARES,
    BATCH_MEAN, VARIANCE, NORM, TERM, SLOPE, OFFSET, KEY, GRAD_INNER, GRAD_OUTER, GRAD_SUMS,
    GRAD_BIAS, GRAD_TERM, GRAD_SLOPE, GRAD_OFFSET, COLUMNS,
) = range(29)  # fmt: skip
PLAIN, DENSE, SCALAR = 0, 1, 3  # what an edge term is: as many arrays


@inlined
def _aggregate(first, last, node_ptr, dst_ptr, src, weight, kind, row, x, s):
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
def _aggregate_backward(
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
def _inner_forward(first, last, ptr, sgemm, s, w, z, mean, squares, part, part_squares):
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
def _outer_forward(
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
def forward_pass(
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
def _outer_backward(
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
def _inner_backward(b, ptr, sgemm, z, norm, means, grad_y, s, w, grad_s, grad_w, y, grad_z, span):
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
def _means_of_blocks(address, stride, blocks, n, means):
    """means = the blocks' grad_sums, added in order, / n."""
    h = means.shape[1]
    fill_zero(means)
    for b in range(blocks):
        add_to(matrix_at(address + stride * b, 2, h), means)
    for i in range(2):
        for j in range(h):
            means[i, j] /= np.float32(n)


@kernel
def backward_pass(
    thread, end, threads, meeting, ptr, node_ptr, dst_ptr, src_ptr, by_src, dst,
    weight, kind, sgemm, table, keep_scale, grad, grads, grad_weight, weight_scratch, rows, scratch,
):  # fmt: skip
    """All layers, the last one first.

    grads: [blocks, numbers], the gradients of the weights by block: of each layer those of inner
    and outer, the sums [2, h] (which are those of the batch norm's bias and weight) and that of
    outer's bias. rows: addresses of grad_y, grad_s and of the gradients of the layers'
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
        z, norm = matrix_at(row[Z], n, h), matrix_at(row[NORM], 4, h)
        s = matrix_at(row[S], n, width)
        grad_y, grad_s = matrix_at(rows[0], n, h), matrix_at(rows[1], n, width)
        y = matrix_at(memory, CHUNK, h)
        part, part_sums = memory + 2 * quarter, memory + 3 * quarter
        for b in range(first, last):
            at = block + stride * b
            _outer_backward(
                b, ptr, sgemm, z, norm, matrix_at(row[OUTER], d, h), matrix_at(row[Y], n, d),
                keep_scale, above, grad_y, matrix_at(at + row[GRAD_OUTER], d, h),
                matrix_at(at + row[GRAD_SUMS], 2, h), matrix_at(at + row[GRAD_BIAS], 1, d), y,
                matrix_at(memory + quarter, CHUNK, d), matrix_at(part, 1, d),
                matrix_at(part_sums, 2, h), span,
            )  # fmt: skip
        met += 1
        meet(meeting, threads, met)
        means = matrix_at(part_sums, 2, h)  # each thread computes them for itself
        _means_of_blocks(block + row[GRAD_SUMS], stride, blocks, n, means)
        for b in range(first, last):
            _inner_backward(
                b, ptr, sgemm, z, norm, means, grad_y, s, matrix_at(row[INNER], h, width), grad_s,
                matrix_at(block + stride * b + row[GRAD_INNER], h, width), y,
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


def gin_layers(x, batch, weight, terms, layers, drop, draws):
    parts = [arrays_of_term(term) for term in terms]
    if not layers[0][1].training:
        return _evaluated(x, batch, weight, parts, layers)
    dropout = [dropout_arguments(drop, source) for source in draws or [None] * len(layers)]
    weights = [
        tensor
        for inner, norm, outer in layers
        for tensor in (inner.weight, inner.bias, norm.weight, norm.bias, outer.weight, outer.bias)
    ]
    norms = [norm for _, norm, _ in layers]
    flat = [tensor for part in parts for tensor in part]
    return _GINLayers.apply(batch, norms, dropout, x, weight, *weights, *flat)


def _evaluated(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    terms: Sequence[tuple[Tensor, ...]],
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d, nn.Linear]],
) -> Tensor:
    """The layers in evaluation mode, without dropout or gradients."""
    ptr = block_ptr(len(x))
    for term, (inner, norm, outer) in zip(terms, layers, strict=True):
        s, out = aggregate_rows(batch, True, weight, x, *term), outer.out_features
        assert norm.running_mean is not None
        assert norm.running_var is not None
        mean = as_array(norm.running_mean) - as_array(inner.bias)
        scale = as_array(norm.weight) / np.sqrt(as_array(norm.running_var) + np.float32(norm.eps))
        lines = mean, scale, norm.bias
        x = empty_tensor(len(s), out)
        # A thread uses the scratch memory of the first block of its range.
        widths = inner.out_features, inner.out_features, out
        scratch = aligned_empties(*((len(ptr) - 1, CHUNK, width) for width in widths))
        weights = outer.weight, outer.bias
        run_over_blocks(
            _inference, ptr, sgemm_address(), s, inner.weight, *lines, *weights, x, *scratch
        )
    return x


@kernel
def _inference(
    first, last, ptr, sgemm, s, w, mean, scale, shift, outer, bias, out, scratch, more_scratch,
    wide_scratch,
):  # fmt: skip
    """out = ReLU(ReLU((s wᵀ - mean) * scale + shift) outerᵀ + bias)."""
    z, y, product = scratch[first], more_scratch[first], wide_scratch[first]
    span = np.zeros(2, np.int64)  # a ptr with one segment: the chunk at hand
    for b in range(first, last):
        for lo in range(ptr[b], ptr[b + 1], CHUNK):
            hi = min(lo + CHUNK, ptr[b + 1])
            n = hi - lo
            span[1] = n
            matmul_nt(sgemm, s[lo:hi], w, z[:n])
            normalise_rows(0, 1, span, z, mean, scale, shift, y)
            matmul_nt(sgemm, y[:n], outer, product[:n])
            for i in range(n):
                for j in range(len(bias)):
                    value = product[i, j] + bias[j]
                    out[lo + i, j] = np.float32(0.0) if value <= np.float32(0.0) else value


class _GINLayers(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, batch: GraphBatch, norms: Sequence[nn.BatchNorm1d],
        dropout: Sequence[tuple[Any, ...]], x: Tensor, weight: Tensor | None, *tensors: Tensor,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(x, weight, *tensors)  # they may not be changed until backward
        tensors = tuple(tensor.contiguous() for tensor in tensors)
        given, layers, ptr = x.contiguous(), len(norms), block_ptr(len(x))
        weights, terms = tensors[: _WEIGHTS * layers], tensors[_WEIGHTS * layers :]
        edges = np.ones(batch.num_edges, np.float32) if weight is None else as_array(weight)
        table, kind = _weights_table(weights, terms, layers), len(terms) // layers
        memory = _allocate(table, len(x), len(ptr) - 1)
        out = empty_tensor(len(x), int(table[-1, OUT]))
        table[-1, Y] = out.data_ptr()
        table[:, X] = [given.data_ptr(), *table[:-1, Y]]
        keys, thresholds, keep_scales = zip(*dropout, strict=True)
        table[:, KEY] = np.array(keys, np.uint64).view(np.int64)
        widest = int(table[:, IN : OUT + 1].max())
        run_stages(
            forward_pass, ptr, batch.node_ptr, batch.dst_ptr, batch.src, edges, batch.node_id, kind,
            sgemm_address(), table, np.array([norm.eps for norm in norms], np.float32),
            thresholds[0], keep_scales[0], aligned_empty(num_threads(), 2 * CHUNK * widest),
        )  # fmt: skip
        means, variances = ([torch.from_numpy(kept[at]) for kept in memory] for at in (4, 5))
        biases = [weights[_WEIGHTS * number + 1].detach() for number in range(layers)]
        update_running_statistics(norms, torch._foreach_add(means, biases), variances, len(x))
        ctx.batch, ctx.table, ctx.kind, ctx.widest = batch, table, kind, widest
        ctx.shared = ptr, edges, keep_scales[0]
        ctx.kept = given, tensors, memory, out.detach()  # what the addresses point to
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ctx.saved_tensors  # noqa: B018  checks that nothing was changed in place
        batch, table, needs = ctx.batch, ctx.table, ctx.needs_input_grad[3:]
        ptr, edges, keep_scale = ctx.shared
        n, layers = int(ptr[-1]), len(table)
        starts, total = _grads_layout(table)
        table[:, GRAD_INNER : GRAD_BIAS + 1] = 4 * starts
        grads = aligned_empty(len(ptr) - 1, total)
        of_terms = _term_gradients(table, ctx.kind, batch, needs[2 + _WEIGHTS * layers :])
        of_weight = empty_tensor(len(edges) if needs[1] else 0)
        rows = [empty_tensor(n * ctx.widest) for _ in range(2 + min(layers, 2))]
        index = batch.node_ptr, batch.dst_ptr, batch.src_ptr, batch.by_src, batch.dst
        run_stages(
            backward_pass, ptr, *index, edges, ctx.kind, sgemm_address(), table, keep_scale, grad,
            grads, of_weight, empty_tensor(len(of_weight)),
            np.array([row.data_ptr() for row in rows]),
            aligned_empty(num_threads(), 4 * CHUNK * ctx.widest),
        )  # fmt: skip
        width = int(table[0, IN])
        of_x = rows[2][: n * width].view(n, width)
        of_weights = _split_gradients(table, starts, torch.from_numpy(grads.sum(0)))
        first = of_x, of_weight if needs[1] else None
        return None, None, None, *first, *of_weights, *_tensors_of(of_terms, ctx.kind)


def _weights_table(
    weights: Sequence[Tensor], terms: Sequence[Tensor], layers: int
) -> NDArray[np.int64]:
    """Make the table, with the addresses and sizes of weights and edge terms."""
    table = np.zeros((layers, COLUMNS), np.int64)
    kind = len(terms) // layers
    for number in range(layers):
        inner, _, scale, shift, outer, bias = weights[_WEIGHTS * number :][:_WEIGHTS]
        table[number, : OUTER_BIAS + 1] = [
            inner.shape[1], *outer.shape[::-1],
            *(tensor.data_ptr() for tensor in (inner, scale, shift, outer, bias)),
        ]  # fmt: skip
        of_term = [term.data_ptr() for term in terms[kind * number :][:kind]]
        table[number, TERM : TERM + kind] = of_term
    return table


def _allocate(table: NDArray[np.int64], n: int, blocks: int) -> list[list[Any]]:
    """Allocate what each layer keeps, except the last result, and write where it is."""
    memory = []
    for number, row in enumerate(table):
        width, h, d = row[IN : OUT + 1].tolist()
        result = (n if number < len(table) - 1 else 0, d)
        arrays = aligned_empties(
            (n, width), (n, h), (blocks, h), (blocks, h), (h,), (h,), (4, h), result
        )
        columns = [S, Z, MEANS, SQUARES, BATCH_MEAN, VARIANCE, NORM, Y]
        row[columns] = [array.ctypes.data for array in arrays]
        memory.append(arrays)
    return memory


def _grads_layout(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Where the gradients of each layer's weights begin in those of a block, and how many they are.

    ``[layers, 4]``: of inner, of outer, the batch norm's sums, of outer's bias; each at a multiple
    of 64 bytes.
    """
    width, h, d = table[:, IN : OUT + 1].T
    steps = -(-np.stack([h * width, d * h, 2 * h, d], axis=1) // 16) * 16
    return np.cumsum(steps).reshape(steps.shape) - steps, int(steps.sum())


def _split_gradients(
    table: NDArray[np.int64], starts: NDArray[np.int64], total: Tensor
) -> list[Tensor | None]:
    """Gradients of the weights of all layers; the first bias of a layer has none."""
    gradients: list[Tensor | None] = []
    for (width, h, d), at in zip(table[:, IN : OUT + 1].tolist(), starts.tolist(), strict=True):
        inner = total[at[0] : at[0] + h * width].view(h, width)
        outer = total[at[1] : at[1] + d * h].view(d, h)
        shift, scale = total[at[2] : at[2] + 2 * h].view(2, h)
        gradients += [inner, None, scale, shift, outer, total[at[3] : at[3] + d]]
    return gradients


def _term_gradients(
    table: NDArray[np.int64], kind: int, batch: GraphBatch, needs: Sequence[bool]
) -> list[Any]:
    """Allocate the gradients of the edge terms and write where they are; None where not needed."""
    gradients: list[Any] = []
    for number, row in enumerate(table):
        if kind == DENSE:
            gradients.append(aligned_empty(batch.num_edges, int(row[IN])))
            row[GRAD_TERM] = gradients[-1].ctypes.data
        elif kind == SCALAR:
            needed = needs[kind * number]
            attribute = aligned_empty(batch.num_edges) if needed else None
            # One row of partial sums per graph, of slope and of offset.
            sums = aligned_empty(2, batch.num_graphs, int(row[IN]))
            row[GRAD_TERM] = attribute.ctypes.data if attribute is not None else 0
            row[GRAD_SLOPE], row[GRAD_OFFSET] = sums[0].ctypes.data, sums[1].ctypes.data
            gradients += [attribute, sums]
    return gradients


def _tensors_of(gradients: list[Any], kind: int) -> list[Tensor | None]:
    """The gradients of the edge terms from what :func:`_term_gradients` allocated."""
    if kind != SCALAR:
        return [torch.from_numpy(array) for array in gradients]
    tensors: list[Tensor | None] = []
    for attribute, sums in zip(gradients[::2], gradients[1::2], strict=True):
        slope, offset = torch.from_numpy(sums.sum(1))
        of_attribute = None if attribute is None else torch.from_numpy(attribute)
        tensors += [of_attribute, slope, offset]
    return tensors
