"""The extractor's three linear layers with what lies between them, from node embeddings to logits.

    z₁ = h_u W_srcᵀ + h_v W_dstᵀ per edge, or h_v W₁ᵀ per node
    z₂ = dropout(ReLU(norm(z₁))) W₂ᵀ
    logit = dropout(ReLU(norm(z₂))) · w₃ + b₃

norm is per graph, so the biases of the first two layers cancel, and a few graphs at a time go
through all of it, products included, without leaving the cache. Backward keeps the products, not
the wide rows between them: those it makes again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.engine import array, empty, inlined, kernel
from gsat.ops.normalise import (
    dropout_numbers,
    gather_again,
    gather_backward,
    gather_forward,
    gather_normalise_relu_dropout,
    normalise_again,
    normalise_backward,
    normalise_forward,
    normalise_relu_dropout,
)
from gsat.ops.products import (
    add_transposed_times,
    blas,
    blocks,
    clear,
    fused,
    shifted,
    spread,
    times,
    times_transposed,
)
from gsat.ops.random import Draws

_ROWS = 256  # rows that go through all steps together, if the graphs are smaller


def extractor(
    h: Tensor,
    batch: GraphBatch,
    first: Tensor,
    second: Tensor,
    last: Tensor,
    bias: Tensor,
    drop: float = 0.0,
    draws: Draws | None = None,
) -> Tensor:
    """Attention logits, [E] if ``first`` takes two embeddings, [N] if it takes one.

    Args:
        h: [N, k]. first: [c, 2k] or [c, k]. second: [m, c]. last: [1, m]. bias: [1].
        drop: share that is dropped after each hidden layer, if there are ``draws``.
    """
    if not fused(h, first, second, last):
        return extractor_plain(h, batch, first, second, last, bias, drop, draws)
    keys = (draws.child(0).key, draws.child(1).key) if draws else (0, 0)
    weights = (first, second, last, bias)
    return _Extractor.apply(batch, drop if draws else 0.0, keys, h, *weights)


def extractor_plain(
    h: Tensor,
    batch: GraphBatch,
    first: Tensor,
    second: Tensor,
    last: Tensor,
    bias: Tensor,
    drop: float = 0.0,
    draws: Draws | None = None,
) -> Tensor:
    """The meaning of :func:`extractor`, from smaller ops."""
    one, two = (draws.child(0), draws.child(1)) if draws else (None, None)
    if first.shape[1] > h.shape[1]:
        # W concat(h_u, h_v) = W_src h_u + W_dst h_v: products on nodes, not edges.
        from_src, from_dst = first.split(h.shape[1], dim=1)
        ptr, rows = batch.edge_ptr, batch.edge_id
        y = gather_normalise_relu_dropout(h @ from_src.T, h @ from_dst.T, batch, drop, one)
    else:
        ptr, rows = batch.node_ptr, batch.node_id
        y = normalise_relu_dropout(h @ first.T, ptr, rows, drop, one)
    y = normalise_relu_dropout(y @ second.T, ptr, rows, drop, two)
    return (y @ last.T + bias)[:, 0]


@inlined
def _group_end(g, last, ptr, node_ptr):  # type: ignore[no-untyped-def]
    """How many whole graphs from g on go together."""
    end = g + 1
    while (
        end < last and ptr[end + 1] - ptr[g] <= _ROWS and node_ptr[end + 1] - node_ptr[g] <= _ROWS
    ):
        end += 1
    return end


def _rooms(blocks: Any, ptr: Any, *widths: int) -> list[Any]:
    """Room for the rows of a group on their way through a kernel: one for each range of blocks it
    may run on. No group is larger than _ROWS, unless one graph is."""
    most = max(_ROWS, int(np.diff(ptr).max(initial=0)))
    return [empty(len(blocks) - 1, most, width) for width in widths]


# ``b`` is None where every row is a node: Numba then compiles the other branch alone.


@kernel
def _forward(  # type: ignore[no-untyped-def]
    first, last, blocks, ptr, node_ptr, src, dst, blas, h, w1, w2, w3, bias, rows, key1, key2,
    below, grow, a, b, mean1, scale1, z, mean2, scale2, logits, wide_rooms, rooms,
):  # fmt: skip
    k = h.shape[1]
    wide, y = wide_rooms[first], rooms[first]
    for block in range(first, last):
        g = blocks[block]
        while g < blocks[block + 1]:
            end = _group_end(g, blocks[block + 1], ptr, node_ptr)
            lo, hi, nodes, nodes_end = ptr[g], ptr[end], node_ptr[g], node_ptr[end]
            n, graphs, spans, names = hi - lo, end - g, shifted(ptr, g, end + 1, lo), rows[lo:hi]
            mine, mine_a = h[nodes:nodes_end], a[nodes:nodes_end]
            times_transposed(blas, mine, w1[:, :k], mine_a)
            if b is not None:
                mine_b = b[nodes:nodes_end]
                sources, targets = shifted(src, lo, hi, nodes), shifted(dst, lo, hi, nodes)
                times_transposed(blas, mine, w1[:, k:], mine_b)
                gather_forward(
                    0, graphs, spans, sources, targets, mine_a, mine_b,
                    names, key1, below, grow, mean1[g:end], scale1[g:end], wide,
                )  # fmt: skip
            else:
                normalise_forward(
                    0, graphs, spans, mine_a, names, key1, below, grow, mean1[g:end],
                    scale1[g:end], wide,
                )  # fmt: skip
            times_transposed(blas, wide[:n], w2, z[lo:hi])
            normalise_forward(
                0, graphs, spans, z[lo:hi], names, key2, below, grow, mean2[g:end],
                scale2[g:end], y,
            )  # fmt: skip
            for i in range(n):
                total = np.float32(0.0)
                for j in range(len(w3)):
                    total += y[i, j] * w3[j]
                logits[lo + i] = total + bias[0]
            g = end


@kernel
def _backward(  # type: ignore[no-untyped-def]
    first, last, blocks, ptr, node_ptr, src, dst, blas, h, w1, w2, w3, rows, key1, key2,
    below, grow, a, b, mean1, scale1, z, mean2, scale2, grad, grad_h, grad1, grad2, grad3,
    wide_rooms, more_wide_rooms, rooms, more_rooms, z_rooms, a_rooms, b_rooms,
):  # fmt: skip
    k, m = h.shape[1], len(w3)
    wide, grad_wide = wide_rooms[first], more_wide_rooms[first]
    y, grad_y, grad_z = rooms[first], more_rooms[first], z_rooms[first]
    for block in range(first, last):
        clear(grad1[block])
        clear(grad2[block])
        clear(grad3[block])
        g = blocks[block]
        while g < blocks[block + 1]:
            end = _group_end(g, blocks[block + 1], ptr, node_ptr)
            lo, hi, nodes, nodes_end = ptr[g], ptr[end], node_ptr[g], node_ptr[end]
            n, graphs, spans, names = hi - lo, end - g, shifted(ptr, g, end + 1, lo), rows[lo:hi]
            mine, mine_a = h[nodes:nodes_end], a[nodes:nodes_end]
            grad_a = a_rooms[first, : nodes_end - nodes]

            normalise_again(
                0, graphs, spans, z[lo:hi], names, key2, below, grow, mean2[g:end],
                scale2[g:end], y,
            )  # fmt: skip
            for i in range(n):
                by = grad[lo + i]
                for j in range(m):
                    grad3[block, 0, j] += by * y[i, j]
                for j in range(m):
                    grad_y[i, j] = by * w3[j]
            normalise_backward(
                0, graphs, spans, z[lo:hi], y, mean2[g:end], scale2[g:end], grow, grad_y, grad_z
            )

            times(blas, grad_z[:n], w2, False, grad_wide[:n])
            if b is not None:
                mine_b = b[nodes:nodes_end]
                sources, targets = shifted(src, lo, hi, nodes), shifted(dst, lo, hi, nodes)
                gather_again(
                    0, graphs, spans, sources, targets, mine_a, mine_b, names, key1, below, grow,
                    mean1[g:end], scale1[g:end], wide,
                )  # fmt: skip
                add_transposed_times(blas, grad_z[:n], wide[:n], grad2[block])
                grad_b = b_rooms[first, : nodes_end - nodes]
                node_spans = shifted(node_ptr, g, end + 1, nodes)
                gather_backward(
                    0, graphs, spans, sources, targets, node_spans, mine_a, mine_b, wide,
                    mean1[g:end], scale1[g:end], grow, grad_wide, grad_a, grad_b,
                )  # fmt: skip
                add_transposed_times(blas, grad_b, mine, grad1[block][:, k:])
                times(blas, grad_b, w1[:, k:], False, grad_h[nodes:nodes_end])
            else:
                normalise_again(
                    0, graphs, spans, mine_a, names, key1, below, grow, mean1[g:end],
                    scale1[g:end], wide,
                )  # fmt: skip
                add_transposed_times(blas, grad_z[:n], wide[:n], grad2[block])
                normalise_backward(
                    0, graphs, spans, mine_a, wide, mean1[g:end], scale1[g:end], grow,
                    grad_wide, grad_a,
                )  # fmt: skip
            add_transposed_times(blas, grad_a, mine, grad1[block][:, :k])
            times(blas, grad_a, w1[:, :k], b is not None, grad_h[nodes:nodes_end])
            g = end


class _Extractor(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, batch: GraphBatch, drop: float, keys: tuple[int, int],
        h: Tensor, first: Tensor, second: Tensor, last: Tensor, bias: Tensor,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(h, first, second, last)
        pairs = first.shape[1] > h.shape[1]
        ptr, rows = (batch.edge_ptr, batch.edge_id) if pairs else (batch.node_ptr, batch.node_id)
        segments, count, n = ptr.numpy(), len(rows), len(h)
        graphs, (m, c) = len(segments) - 1, second.shape
        below, grow = dropout_numbers(drop, 0)[1:]
        ctx.places = (
            blocks(count, segments), segments, *(
                place.numpy() for place in (batch.node_ptr, batch.src, batch.dst)
            ), blas(),
        )  # fmt: skip
        ctx.draws = (rows.numpy(), *(np.uint64(key) for key in keys), below, grow)
        a, b = empty(n, c), empty(n, c) if pairs else None
        shapes = [(graphs, c), (graphs, c), (count, m), (graphs, m), (graphs, m)]
        ctx.kept = [a, b, *(empty(*shape) for shape in shapes)]
        logits = empty(count)
        weights = array(h), array(first), array(second), array(last)[0], array(bias)
        rooms = _rooms(*ctx.places[:2], c, m)
        spread(_forward, *ctx.places, *weights, *ctx.draws, *ctx.kept, logits, *rooms)
        return torch.from_numpy(logits)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, first, second, last = (array(t) for t in ctx.saved_tensors)
        count = len(ctx.places[0]) - 1
        grad_h = empty(*h.shape)
        parts = [empty(count, *w.shape) for w in (first, second, last)]
        m, c = second.shape
        rooms = [*_rooms(*ctx.places[:2], c, c, m, m, m), *_rooms(*ctx.places[::2][:2], c, c)]
        spread(
            _backward, *ctx.places, h, first, second, last[0], *ctx.draws, *ctx.kept, array(grad),
            grad_h, *parts, *rooms,
        )  # fmt: skip
        grads = (grad_h, *(part.sum(0) for part in parts))
        return None, None, None, *(torch.from_numpy(g) for g in grads), grad.sum()[None]
