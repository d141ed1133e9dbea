"""The extractor: three linear layers with all that lies between them, in one pass.

Normalisation is per graph, so a few graphs at a time go through all of it, matrix products
included, without leaving the cache. Backward keeps the products, not the wide rows between them:
those it computes again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.ops.numba.buffers import aligned_empty, empty_tensor
from gsat.ops.numba.compile import inlined, kernel
from gsat.ops.numba.matmul import (
    add_matmul_tn,
    block_ptr,
    fill_zero,
    matmul_nn,
    matmul_nt,
    run_over_blocks,
    sgemm_address,
    shifted_slice,
)
from gsat.ops.numba.normalise import (
    gather_again,
    gather_backward,
    gather_forward,
    normalise_again,
    normalise_backward,
    normalise_forward,
)
from gsat.ops.numba.random import dropout_arguments

_GROUP_ROWS = 256  # rows that go through all steps together, if the graphs are smaller


@inlined
def _group_end(g, last, ptr, node_ptr):
    """Return the end of the group of whole graphs that begins with graph g."""
    end = g + 1
    while (
        end < last
        and ptr[end + 1] - ptr[g] <= _GROUP_ROWS
        and node_ptr[end + 1] - node_ptr[g] <= _GROUP_ROWS
    ):
        end += 1
    return end


def _scratch(blocks: Any, ptr: Any, *widths: int) -> list[Any]:
    """Allocate scratch memory for the rows of a group, [blocks, rows of the largest group, width].

    A thread uses that of the first block of its range. No group has more than _GROUP_ROWS rows,
    unless a single graph has.
    """
    most = max(_GROUP_ROWS, int(np.diff(ptr).max(initial=0)))
    return [aligned_empty(len(blocks) - 1, most, width) for width in widths]


# A block is a range of graphs: blocks[k] to blocks[k + 1] - 1. Within it, groups of graphs g to
# end - 1 go through all steps together: rows lo to hi - 1 (edges or nodes; n of them), nodes
# ``nodes`` to ``nodes_end - 1``. ``spans`` are the segment boundaries counted from lo; ``sources``
# and ``targets`` are the ends of its edges counted from ``nodes``.
#
# a = h W_srcᵀ and b = h W_dstᵀ [N, c] are the node parts of the first layer; ``wide`` [n, c] is its
# output after ReLU and dropout; z [M, m] is the second product, y [n, m] its output likewise.
# mean1, scale1, mean2, scale2 are the statistics of the two normalisations.
# ``b`` is None where every row is a node: Numba then compiles the other branch only.


@kernel
def _forward(
    first, last, blocks, ptr, node_ptr, src, dst, sgemm, h, w1, w2, w3, bias, row_id, key1, key2,
    threshold, keep_scale, a, b, mean1, scale1, z, mean2, scale2, logits, wide_scratch, scratch,
):  # fmt: skip
    """Logits of the graphs in blocks first to last - 1, and what backward needs."""
    k = h.shape[1]
    wide, y = wide_scratch[first], scratch[first]
    for block in range(first, last):
        g = blocks[block]
        while g < blocks[block + 1]:
            end = _group_end(g, blocks[block + 1], ptr, node_ptr)
            lo, hi, nodes, nodes_end = ptr[g], ptr[end], node_ptr[g], node_ptr[end]
            n, graphs = hi - lo, end - g
            spans, ids = shifted_slice(ptr, g, end + 1, lo), row_id[lo:hi]
            group_h, group_a = h[nodes:nodes_end], a[nodes:nodes_end]
            matmul_nt(sgemm, group_h, w1[:, :k], group_a)
            if b is not None:
                group_b = b[nodes:nodes_end]
                sources = shifted_slice(src, lo, hi, nodes)
                targets = shifted_slice(dst, lo, hi, nodes)
                matmul_nt(sgemm, group_h, w1[:, k:], group_b)
                gather_forward(
                    0, graphs, spans, sources, targets, group_a, group_b,
                    ids, key1, threshold, keep_scale, mean1[g:end], scale1[g:end], wide,
                )  # fmt: skip
            else:
                normalise_forward(
                    0, graphs, spans, group_a, ids, key1, threshold, keep_scale, mean1[g:end],
                    scale1[g:end], wide,
                )  # fmt: skip
            matmul_nt(sgemm, wide[:n], w2, z[lo:hi])
            normalise_forward(
                0, graphs, spans, z[lo:hi], ids, key2, threshold, keep_scale, mean2[g:end],
                scale2[g:end], y,
            )  # fmt: skip
            for i in range(n):
                total = np.float32(0.0)
                for j in range(len(w3)):
                    total += y[i, j] * w3[j]
                logits[lo + i] = total + bias[0]
            g = end


@kernel
def _backward(
    first, last, blocks, ptr, node_ptr, src, dst, sgemm, h, w1, w2, w3, row_id, key1, key2,
    threshold, keep_scale, a, b, mean1, scale1, z, mean2, scale2, grad, grad_h, grad1, grad2, grad3,
    wide_scratch, more_wide_scratch, scratch, more_scratch, z_scratch, a_scratch, b_scratch,
):  # fmt: skip
    """Gradients of h, and of w1, w2 and w3 as one matrix per block."""
    k, m = h.shape[1], len(w3)
    wide, grad_wide = wide_scratch[first], more_wide_scratch[first]
    y, grad_y, grad_z = scratch[first], more_scratch[first], z_scratch[first]
    for block in range(first, last):
        fill_zero(grad1[block])
        fill_zero(grad2[block])
        fill_zero(grad3[block])
        g = blocks[block]
        while g < blocks[block + 1]:
            end = _group_end(g, blocks[block + 1], ptr, node_ptr)
            lo, hi, nodes, nodes_end = ptr[g], ptr[end], node_ptr[g], node_ptr[end]
            n, graphs = hi - lo, end - g
            spans, ids = shifted_slice(ptr, g, end + 1, lo), row_id[lo:hi]
            group_h, group_a = h[nodes:nodes_end], a[nodes:nodes_end]
            grad_a = a_scratch[first, : nodes_end - nodes]

            normalise_again(
                0, graphs, spans, z[lo:hi], ids, key2, threshold, keep_scale, mean2[g:end],
                scale2[g:end], y,
            )  # fmt: skip
            for i in range(n):
                g_logit = grad[lo + i]
                for j in range(m):
                    grad3[block, 0, j] += g_logit * y[i, j]
                for j in range(m):
                    grad_y[i, j] = g_logit * w3[j]
            normalise_backward(
                0, graphs, spans, z[lo:hi], y, mean2[g:end], scale2[g:end], keep_scale,
                grad_y, grad_z,
            )  # fmt: skip

            matmul_nn(sgemm, grad_z[:n], w2, False, grad_wide[:n])
            if b is not None:
                group_b = b[nodes:nodes_end]
                sources = shifted_slice(src, lo, hi, nodes)
                targets = shifted_slice(dst, lo, hi, nodes)
                gather_again(
                    0, graphs, spans, sources, targets, group_a, group_b, ids, key1, threshold,
                    keep_scale, mean1[g:end], scale1[g:end], wide,
                )  # fmt: skip
                add_matmul_tn(sgemm, grad_z[:n], wide[:n], grad2[block])
                grad_b = b_scratch[first, : nodes_end - nodes]
                node_spans = shifted_slice(node_ptr, g, end + 1, nodes)
                gather_backward(
                    0, graphs, spans, sources, targets, node_spans, group_a, group_b, wide,
                    mean1[g:end], scale1[g:end], keep_scale, grad_wide, grad_a, grad_b,
                )  # fmt: skip
                add_matmul_tn(sgemm, grad_b, group_h, grad1[block][:, k:])
                matmul_nn(sgemm, grad_b, w1[:, k:], False, grad_h[nodes:nodes_end])
            else:
                normalise_again(
                    0, graphs, spans, group_a, ids, key1, threshold, keep_scale, mean1[g:end],
                    scale1[g:end], wide,
                )  # fmt: skip
                add_matmul_tn(sgemm, grad_z[:n], wide[:n], grad2[block])
                normalise_backward(
                    0, graphs, spans, group_a, wide, mean1[g:end], scale1[g:end], keep_scale,
                    grad_wide, grad_a,
                )  # fmt: skip
            add_matmul_tn(sgemm, grad_a, group_h, grad1[block][:, :k])
            matmul_nn(sgemm, grad_a, w1[:, :k], b is not None, grad_h[nodes:nodes_end])
            g = end


class Extractor(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, batch, first, second, last, bias, drop, draws):
        ctx.save_for_backward(h, first, second, last)
        edges = first.shape[1] > h.shape[1]
        ptr, row_id = (batch.edge_ptr, batch.edge_id) if edges else (batch.node_ptr, batch.node_id)
        segments, count, n = ptr.numpy(), len(row_id), len(h)
        graphs, (m, c) = len(segments) - 1, second.shape
        blocks, sgemm = block_ptr(count, segments), sgemm_address()
        ctx.index = blocks, segments, batch.node_ptr.numpy(), batch.src, batch.dst, sgemm
        keys = [np.uint64(draws.child(layer).key if draws else 0) for layer in (0, 1)]
        ctx.dropout = row_id, *keys, *dropout_arguments(drop, draws)[1:]
        a, b = aligned_empty(n, c), aligned_empty(n, c) if edges else None
        shapes = [(graphs, c), (graphs, c), (count, m), (graphs, m), (graphs, m)]
        ctx.intermediate = [a, b, *(aligned_empty(*shape) for shape in shapes)]
        logits = empty_tensor(count)
        run_over_blocks(
            _forward, *ctx.index, h, first, second, last[0], bias, *ctx.dropout, *ctx.intermediate,
            logits, *_scratch(blocks, segments, c, m),
        )  # fmt: skip
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, first, second, last = ctx.saved_tensors
        blocks, segments, node_ptr = ctx.index[:3]
        grad_h, (m, c) = empty_tensor(*h.shape), second.shape
        parts = [aligned_empty(len(blocks) - 1, *w.shape) for w in (first, second, last)]
        run_over_blocks(
            _backward, *ctx.index, h, first, second, last[0], *ctx.dropout, *ctx.intermediate,
            grad, grad_h, *parts, *_scratch(blocks, segments, c, c, m, m, m),
            *_scratch(blocks, node_ptr, c, c),
        )  # fmt: skip
        grads = (torch.from_numpy(part.sum(0)) for part in parts)
        return grad_h, None, *grads, grad.sum()[None], None, None
