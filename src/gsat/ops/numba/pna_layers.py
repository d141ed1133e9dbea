"""All layers of PNA in one pass.

Nodes are grouped by in-degree (see :mod:`gsat.ops.numba.pna_rows`) within blocks of whole graphs: a
thread has whole blocks, and an edge never leaves its graph, so no two threads write to the same
place. A few hundred rows at a time are made, multiplied and forgotten; backward makes them again.
Per layer it keeps z, the product; the gradient of the bias is 0 while training, because the batch
norm subtracts the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.numba.batch_norm import (
    SCALE,
    norm_of_blocks,
    norm_of_running_statistics,
    update_running_statistics,
)
from gsat.ops.numba.buffers import aligned_empty, as_array
from gsat.ops.numba.matmul import block_ptr, run_over_blocks, sgemm_address
from gsat.ops.numba.pna_kernels import (
    edge_rows_backward,
    edge_rows_forward,
    finish_backward,
    finish_forward,
    product_backward,
    product_forward,
)
from gsat.ops.numba.pna_rows import EDGE, KINDS, TAIL, positions, row_blocks
from gsat.ops.numba.pna_weights import block_factors, merge_weights, split_gradient
from gsat.ops.numba.random import dropout_arguments
from gsat.ops.reference import Aggregator

_BLOCKS = 4  # at most; each has gradients of all merged weights to itself
_CHUNK, _CHUNK_NUMBERS = 512, 1 << 16  # rows that go through all steps together, and their size


def pna_layers(x, batch, weight, edge, layers, aggregators, scale, drop, draws):
    dropout = [dropout_arguments(drop, source) for source in draws or [None] * len(layers)]
    weights = [
        tensor
        for linear, norm in layers
        for tensor in (linear.weight, linear.bias, norm.weight, norm.bias)
    ]
    norms = [norm for _, norm in layers]
    return _PNALayers.apply(batch, aggregators, norms, dropout, x, weight, edge, *weights)


class _Pass:
    """How the nodes of a batch are grouped, and what else the layers of one pass share."""

    def __init__(
        self,
        batch: GraphBatch,
        aggregators: Sequence[Aggregator],
        weight: Tensor | None,
        edge: Tensor | None,
        h: int,
    ) -> None:
        self.h, constant = h, edge is not None and len(edge) == 1
        self.messages = edge is not None and not constant  # whether messages depend on the edge
        node_ptr, self.dst_ptr = batch.node_ptr.numpy(), batch.dst_ptr.numpy()
        self.src, self.node_id = batch.src.numpy(), batch.node_id.numpy()
        self.position = positions(aggregators)
        self.options = np.array([weight is not None, constant], np.int64)
        self.blocks = row_blocks(self.position, self.options, self.messages)
        self.factors = block_factors(self.position, self.options)
        # First node of each block of graphs; nodes by block and kind; first node of each kind in
        # each block, [blocks, KINDS + 1].
        self.ptr = node_ptr[block_ptr(batch.num_nodes, node_ptr, most=_BLOCKS)]
        self.count = len(self.ptr) - 1
        kinds = np.minimum(np.diff(self.dst_ptr), KINDS - 1)
        group = np.repeat(np.arange(self.count) * KINDS, np.diff(self.ptr)) + kinds
        self.order = np.argsort(group.astype(np.int16), kind="stable")
        sizes = np.bincount(group, minlength=self.count * KINDS).reshape(self.count, KINDS)
        self.bounds = np.zeros((self.count, KINDS + 1), np.int64)
        self.bounds[:, 1:] = np.cumsum(sizes, axis=1)
        self.bounds += self.ptr[:-1, None]
        # For each kind: columns of its rows, rows that go through all steps together, and position
        # of its first merged weight.
        self.widths = self.blocks.sum(0) * h + TAIL
        self.chunk = np.clip(_CHUNK_NUMBERS // self.widths, 64, _CHUNK)
        self.offsets = np.concatenate([[0], np.cumsum(self.widths * h)])
        # First number of each node's blocks of edge messages, in ``order``.
        self.edge_at = np.zeros(batch.num_nodes + 1, np.int64)
        self.weight = np.ones(batch.num_edges, np.float32) if weight is None else as_array(weight)
        self.edge = None if edge is None else as_array(edge)
        self.constant = as_array(edge)[0] if edge is not None and constant else _zeros(0)
        if self.messages:
            self.edge_at[1:] = np.cumsum(h * self.blocks[EDGE][kinds[self.order]])
        self.edge_rows = aligned_empty(int(self.edge_at[-1]))
        if self.messages:
            arrays = self.edge, self.weight, self.line_scratch()[0], self.edge_rows
            run_over_blocks(edge_rows_forward, *self._edge_index, *arrays)

    def scratch(self) -> Any:
        """Scratch memory for a chunk of rows."""
        return aligned_empty(self.count, int((self.chunk * self.widths).max()))

    def line_scratch(self) -> tuple[Any, Any]:
        """Scratch memory for a row: lines of h numbers, and statistics of weights and gradients."""
        return aligned_empty(self.count, 8, self.h), aligned_empty(self.count, 2, 5)

    def merged(self, linear: Any) -> Any:
        """The weights of a layer, merged for each kind of node."""
        out = aligned_empty(int(self.offsets[-1]))
        merge_weights(self._by_part(linear), *self._merging, out)
        return out

    def split(self, linear: Any, grad_merged: Any, grad_edge: Any) -> Any:
        """The gradient of a layer's weights; adds that of a constant edge attribute."""
        out = aligned_empty(*linear.shape)
        arrays = grad_merged, self._by_part(linear), *self._merging, self._by_part(out), grad_edge
        split_gradient(*arrays)
        return out

    def edge_gradient(self, grad_edge: Any, grad_edge_rows: Any, grad_weight: Any) -> Any:
        """The gradient of the edge attributes; adds to that of the weights what comes from them."""
        if not self.messages:
            return grad_edge.sum(0)[None]
        assert self.edge is not None
        out = _zeros(*self.edge.shape)
        run_over_blocks(
            edge_rows_backward, *self._edge_index, self.edge, self.weight, self.line_scratch()[0],
            self.edge_rows, grad_edge_rows, out, grad_weight,
        )  # fmt: skip
        return out

    def product_arguments(self, x: Any, merged: Any) -> tuple[Any, ...]:
        """The arguments that both product kernels begin with."""
        return (
            self.ptr, self.bounds, self.order, self.dst_ptr, self.src, self.position, self.options,
            self.edge_at, self.blocks, sgemm_address(), x, self.weight, self.constant,
            self.edge_rows, merged, self.offsets, self.widths, self.chunk,
        )  # fmt: skip

    def _by_part(self, linear: Any) -> Any:
        aggregators = int((self.position >= 0).sum())
        return linear.reshape(self.h, 2 if self.edge is None else 3, aggregators, self.h)

    @property
    def _merging(self) -> tuple[Any, ...]:
        rows = self.position, self.options, self.blocks, *self.factors
        return *rows, self.constant, self.offsets, self.widths

    @property
    def _edge_index(self) -> tuple[Any, ...]:
        index = np.arange(len(self.weight))
        return self.ptr, self.order, self.dst_ptr, index, self.position, self.edge_at


class _PNALayers(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, batch: GraphBatch, aggregators: Sequence[Aggregator],
        norms: Sequence[nn.BatchNorm1d], dropout: list[tuple[Any, ...]], x: Tensor,
        weight: Tensor | None, edge: Tensor | None, *weights: Tensor,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(*weights)
        (n, h), values, training = x.shape, as_array(x), norms[0].training
        shared = _Pass(batch, aggregators, weight, edge, h)
        ctx.shared, ctx.dropout, ctx.training, ctx.layers = shared, dropout, training, []
        scratch, line_scratch = shared.scratch(), shared.line_scratch()
        moments: list[tuple[Tensor, Tensor]] = []
        for number, norm in enumerate(norms):
            linear, bias, scale, shift = (as_array(t) for t in weights[4 * number :][:4])
            merged, z, out = shared.merged(linear), aligned_empty(n, h), aligned_empty(n, h)
            means, squares = aligned_empty(2, shared.count, h)
            run_over_blocks(
                product_forward, *shared.product_arguments(values, merged), z, means, squares,
                *line_scratch, scratch,
            )  # fmt: skip
            lines = aligned_empty(4, h)
            if training:
                mean, variance = aligned_empty(h), aligned_empty(h)
                norm_of_blocks(
                    shared.ptr, means, squares, scale, shift, np.float32(norm.eps), mean, variance,
                    lines,
                )  # fmt: skip
                moments.append((torch.from_numpy(mean + bias), torch.from_numpy(variance)))
            else:
                norm_of_running_statistics(norm, bias, lines)
            rows = shared.order, values, z, lines, shared.node_id
            run_over_blocks(finish_forward, shared.ptr, *rows, *dropout[number], out)
            ctx.layers.append((values, merged, z, lines))
            values = out
        if training:
            means_of, variances = zip(*moments, strict=True)
            update_running_statistics(norms, means_of, variances, n)
        return torch.from_numpy(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        shared, weights = ctx.shared, ctx.saved_tensors
        needs_weight, needs_edge = ctx.needs_input_grad[5:7]
        count, (n, h) = shared.count, grad.shape
        grad_weight = _zeros(len(shared.weight) if needs_weight else 0)
        grad_edge, grad_edge_rows = _zeros(count, h), _zeros(int(shared.edge_at[-1]))
        scratch = shared.scratch(), shared.scratch()
        line_scratch = shared.line_scratch()
        z_scratch, gated = aligned_empty(count, _CHUNK, h), aligned_empty(n, h)
        grads: list[Any] = [None] * len(weights)
        above = as_array(grad)
        for number in reversed(range(len(ctx.layers))):
            values, merged, z, lines = ctx.layers[number]
            grad_x, block_sums = aligned_empty(n, h), aligned_empty(count, 2, h)
            rows = shared.order, z, lines, shared.node_id, *ctx.dropout[number], above
            run_over_blocks(finish_backward, shared.ptr, *rows, grad_x, gated, block_sums)
            sums = block_sums.sum(0)
            means = sums / np.float32(n) if ctx.training else np.zeros_like(sums)
            grad_merged = aligned_empty(count, int(shared.offsets[-1]))
            run_over_blocks(
                product_backward, *shared.product_arguments(values, merged), z, lines, means, gated,
                grad_x, grad_weight, grad_edge, grad_edge_rows, grad_merged, *line_scratch,
                *scratch, z_scratch,
            )  # fmt: skip
            linear = as_array(weights[4 * number])
            grads[4 * number] = shared.split(linear, grad_merged.sum(0), grad_edge[0])
            if not ctx.training:
                grads[4 * number + 1] = lines[SCALE] * sums[0]
            grads[4 * number + 2], grads[4 * number + 3] = sums[1], sums[0]
            above = grad_x
        of_edge = None
        if needs_edge or shared.messages:  # the messages also have a gradient of the weights
            of_edge = shared.edge_gradient(grad_edge, grad_edge_rows, grad_weight)
        of_weight = grad_weight if needs_weight else None
        every = above, of_weight, of_edge if needs_edge else None, *grads
        tensors = (None if g is None else torch.from_numpy(g) for g in every)
        return None, None, None, None, *tensors


def _zeros(*shape: int) -> Any:
    out = aligned_empty(*shape)
    out.fill(0.0)
    return out
