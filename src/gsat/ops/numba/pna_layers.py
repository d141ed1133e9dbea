"""All layers of PNA in one pass.

Nodes are grouped by in-degree (see :mod:`gsat.ops.numba.pna_rows`) within blocks of whole graphs: a
thread has whole blocks, and an edge never leaves its graph, so no two threads write to the same
place. A few hundred rows at a time are made, multiplied and forgotten; backward makes them again.
Per layer it keeps z, the product; the gradient of the bias is 0 while training, because the batch
norm subtracts the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
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
from gsat.ops.numba.pna_rows import CONSTANT_EDGE, EDGE, KINDS, TAIL, positions, row_blocks
from gsat.ops.numba.pna_weights import block_factors, merge_weights, split_gradient
from gsat.ops.numba.random import dropout_arguments
from gsat.ops.random import Draws
from gsat.ops.reference import Aggregator

_BLOCKS = 4  # at most; each has gradients of all merged weights to itself
_CHUNK, _CHUNK_NUMBERS = 512, 1 << 16  # rows that go through all steps together, and their size


def pna_layers(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    edge: Tensor | None,
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d]],
    aggregators: Sequence[Aggregator],
    scale: None,
    drop: float,
    draws: Sequence[Draws | None] | None,
) -> Tensor:
    dropout = [dropout_arguments(drop, source) for source in draws or [None] * len(layers)]
    plan = _plan(batch, weight is not None, edge, aggregators, x.shape[1])
    given = torch.ones(batch.num_edges) if weight is None else weight
    weights = [
        tensor
        for linear, norm in layers
        for tensor in (linear.weight, linear.bias, norm.weight, norm.bias)
    ]
    norms = [norm for _, norm in layers]
    return _PNALayers.apply(plan, norms, dropout, x, given, edge, *weights)


class Plan(NamedTuple):
    """How the nodes of a batch are grouped, and what their rows look like.

    Attributes:
        ptr: First node of each block in ``order``, ``[blocks + 1]``.
        bounds: First node of each kind in each block, ``[blocks, KINDS + 1]``.
        order: The nodes, by block and kind, ``[N]``.
        dst_ptr: First edge into each node, ``[N + 1]``.
        src: Source of each edge, ``[E]``.
        node_id: Names of the nodes for the draws, ``[N]``.
        position: Position of each of AGGREGATORS among the aggregators, or -1.
        options: See ``pna_rows``.
        blocks: Blocks of the parts of a row, from :func:`row_blocks`.
        widths: Columns of the rows of each kind, ``[KINDS]``.
        chunk: Rows of each kind that go through all steps together, ``[KINDS]``.
        offsets: First weight of each kind among the merged ones, ``[KINDS + 1]``.
        edge_at: First number of each node's blocks of edge messages, ``[N + 1]``, in ``order``;
            all 0 without edge attributes or with a constant one.
    """

    ptr: NDArray[np.int64]
    bounds: NDArray[np.int64]
    order: NDArray[np.int64]
    dst_ptr: NDArray[np.int64]
    src: NDArray[np.int64]
    node_id: NDArray[np.int64]
    position: NDArray[np.int64]
    options: NDArray[np.int64]
    blocks: NDArray[np.int64]
    widths: NDArray[np.int64]
    chunk: NDArray[np.int64]
    offsets: NDArray[np.int64]
    edge_at: NDArray[np.int64]

    @property
    def scratch_size(self) -> int:
        """Numbers of the largest chunk of rows."""
        return int((self.chunk * self.widths).max())


def _plan(
    batch: GraphBatch,
    weighted: bool,
    edge: Tensor | None,
    aggregators: Sequence[Aggregator],
    h: int,
) -> Plan:
    node_ptr, dst_ptr = batch.node_ptr.numpy(), batch.dst_ptr.numpy()
    blocks = block_ptr(batch.num_nodes, node_ptr, most=_BLOCKS)
    ptr = node_ptr[blocks]
    kinds = np.minimum(np.diff(dst_ptr), KINDS - 1)
    count = len(blocks) - 1
    group = np.repeat(np.arange(count) * KINDS, np.diff(ptr)) + kinds
    order = np.argsort(group.astype(np.int16), kind="stable")
    sizes = np.bincount(group, minlength=count * KINDS).reshape(count, KINDS)
    bounds = np.zeros((count, KINDS + 1), np.int64)
    bounds[:, 1:] = np.cumsum(sizes, axis=1)
    bounds += ptr[:-1, None]
    constant = edge is not None and len(edge) == 1
    position = positions(aggregators)
    options = np.array([weighted, constant], np.int64)
    messages = edge is not None and not constant
    blocks_of = row_blocks(position, options, messages)
    widths = blocks_of.sum(0) * h + TAIL
    chunk = np.clip(_CHUNK_NUMBERS // widths, 64, _CHUNK)
    edge_at = np.zeros(batch.num_nodes + 1, np.int64)
    if messages:
        edge_at[1:] = np.cumsum(h * blocks_of[EDGE][kinds[order]])
    return Plan(
        ptr, bounds, order, dst_ptr, batch.src.numpy(), batch.node_id.numpy(), position, options,
        blocks_of, widths, chunk, np.concatenate([[0], np.cumsum(widths * h)]), edge_at,
    )  # fmt: skip


class _PNALayers(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, plan: Plan, norms: Sequence[nn.BatchNorm1d], dropout: list[tuple[Any, ...]],
        x: Tensor, weight: Tensor, edge: Tensor | None, *weights: Tensor,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(*weights)
        n, h = x.shape
        values, edges = as_array(x), as_array(weight)
        run = _Run(plan, edges, None if edge is None else as_array(edge), h)
        count, training = len(plan.ptr) - 1, norms[0].training
        ctx.run, ctx.dropout, ctx.training, ctx.layers = run, dropout, training, []
        scratch = aligned_empty(count, plan.scratch_size)
        line_scratch = _line_scratch(count, h)
        moments: list[tuple[Tensor, Tensor]] = []
        for number, norm in enumerate(norms):
            linear, bias, scale, shift = (as_array(t) for t in weights[4 * number :][:4])
            merged, z, out = run.merged(linear), aligned_empty(n, h), aligned_empty(n, h)
            means, squares = aligned_empty(2, count, h)
            run_over_blocks(
                product_forward, *run.index, sgemm_address(), values, *run.edges, merged,
                plan.offsets, plan.widths, plan.chunk, z, means, squares, *line_scratch, scratch,
            )  # fmt: skip
            lines = aligned_empty(4, h)
            if training:
                mean, variance = aligned_empty(h), aligned_empty(h)
                norm_of_blocks(
                    plan.ptr, means, squares, scale, shift, np.float32(norm.eps), mean, variance,
                    lines,
                )  # fmt: skip
                moments.append((torch.from_numpy(mean + bias), torch.from_numpy(variance)))
            else:
                norm_of_running_statistics(norm, bias, lines)
            finish = plan.ptr, plan.order
            run_over_blocks(
                finish_forward, *finish, values, z, lines, plan.node_id, *dropout[number], out
            )
            ctx.layers.append((values, merged, z, lines))
            values = out
        if training:
            means_of, variances = zip(*moments, strict=True)
            update_running_statistics(norms, means_of, variances, n)
        return torch.from_numpy(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        run, plan, weights = ctx.run, ctx.run.plan, ctx.saved_tensors
        needs_weight, needs_edge = ctx.needs_input_grad[4:6]
        count, (n, h) = len(plan.ptr) - 1, grad.shape
        grad_weight = _zeros(len(run.weight) if needs_weight else 0)
        grad_edge, grad_edge_rows = _zeros(count, h), _zeros(int(plan.edge_at[-1]))
        scratch = [aligned_empty(count, plan.scratch_size) for _ in range(2)]
        line_scratch = _line_scratch(count, h)
        z_scratch, gated = aligned_empty(count, _CHUNK, h), aligned_empty(n, h)
        grads: list[Any] = [None] * len(weights)
        above = as_array(grad)
        for number in reversed(range(len(ctx.layers))):
            values, merged, z, lines = ctx.layers[number]
            grad_x, block_sums = aligned_empty(n, h), aligned_empty(count, 2, h)
            finish = plan.ptr, plan.order
            run_over_blocks(
                finish_backward, *finish, z, lines, plan.node_id, *ctx.dropout[number], above,
                grad_x, gated, block_sums,
            )  # fmt: skip
            sums = block_sums.sum(0)
            means = sums / np.float32(n) if ctx.training else np.zeros_like(sums)
            grad_merged = aligned_empty(count, int(plan.offsets[-1]))
            run_over_blocks(
                product_backward, *run.index, sgemm_address(), values, *run.edges, merged,
                plan.offsets, plan.widths, plan.chunk, z, lines, means, gated, grad_x, grad_weight,
                grad_edge, grad_edge_rows, grad_merged, *line_scratch, *scratch, z_scratch,
            )  # fmt: skip
            linear = as_array(weights[4 * number])
            grads[4 * number] = run.split(linear, grad_merged.sum(0), grad_edge[0])
            if not ctx.training:
                grads[4 * number + 1] = lines[SCALE] * sums[0]
            grads[4 * number + 2], grads[4 * number + 3] = sums[1], sums[0]
            above = grad_x
        of_edge = None
        if needs_edge or run.messages:  # the messages also have a gradient of the weights
            of_edge = run.edge_gradient(grad_edge, grad_edge_rows, grad_weight)
        of_weight = grad_weight if needs_weight else None
        every = above, of_weight, of_edge if needs_edge else None, *grads
        return None, None, None, *(None if g is None else torch.from_numpy(g) for g in every)


class _Run:
    """What the layers of one pass share."""

    def __init__(self, plan: Plan, weight: Any, edge: Any, h: int) -> None:
        self.plan, self.weight, self.edge, self.h = plan, weight, edge, h
        self.parts = 2 if edge is None else 3
        self.factors = block_factors(plan.position, plan.options)
        self.aggregators = int((plan.position >= 0).sum())
        self.messages = edge is not None and not plan.options[CONSTANT_EDGE]
        self.edge_rows = aligned_empty(int(plan.edge_at[-1]))
        if self.messages:
            lines, _ = _line_scratch(len(plan.ptr) - 1, h)
            arrays = edge, weight, lines, self.edge_rows
            run_over_blocks(edge_rows_forward, *self._edge_index, *arrays)
        self.constant = edge[0] if plan.options[CONSTANT_EDGE] else np.zeros(0, np.float32)
        self.index = (
            plan.ptr, plan.bounds, plan.order, plan.dst_ptr, plan.src, plan.position, plan.options,
            plan.edge_at, plan.blocks,
        )  # fmt: skip
        self.edges = weight, self.constant, self.edge_rows

    def merged(self, linear: Any) -> Any:
        """The weights of a layer, merged for each kind of node."""
        out = aligned_empty(int(self.plan.offsets[-1]))
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
        out = _zeros(*self.edge.shape)
        run_over_blocks(
            edge_rows_backward, *self._edge_index, self.edge, self.weight,
            _line_scratch(len(grad_edge), self.h)[0], self.edge_rows, grad_edge_rows, out,
            grad_weight,
        )  # fmt: skip
        return out

    def _by_part(self, linear: Any) -> Any:
        return linear.reshape(self.h, self.parts, self.aggregators, self.h)

    @property
    def _merging(self) -> tuple[Any, ...]:
        plan = self.plan
        rows = plan.position, plan.options, plan.blocks, *self.factors
        return *rows, self.constant, plan.offsets, plan.widths

    @property
    def _edge_index(self) -> tuple[Any, ...]:
        plan = self.plan
        index = np.arange(len(self.weight))
        return plan.ptr, plan.order, plan.dst_ptr, index, plan.position, plan.edge_at


def _line_scratch(blocks: int, h: int) -> tuple[Any, Any]:
    """Scratch memory for a row: lines of h numbers, and statistics of weights with gradients."""
    return aligned_empty(blocks, 8, h), aligned_empty(blocks, 2, 5)


def _zeros(*shape: int) -> Any:
    out = aligned_empty(*shape)
    out.fill(0.0)
    return out
