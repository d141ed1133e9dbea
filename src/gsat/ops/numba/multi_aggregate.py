"""Several aggregations of weighted messages in one pass, as PNA needs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.ops.numba.buffers import empty_tensor
from gsat.ops.numba.compile import uncounted_kernel
from gsat.ops.numba.parallel import run_over_segments
from gsat.ops.numba.pna_rows import add_message_gradient, part_backward, part_forward, positions
from gsat.ops.reference import AGGREGATORS, STD_EPS

_STD = AGGREGATORS.index("std")
_NO_SPREAD = np.sqrt(np.float32(STD_EPS))

# Results go straight to their places in [N, A, h], which a matrix product then takes as it is.
# Backward, too, walks over the edges into each node: an edge never leaves its graph and a thread
# has whole graphs, so no two threads add to the same row. Arguments are those of ``part_forward``,
# with edges as the rows of x; scratch is [B, lines, h], and a thread uses that of its first graph.


@uncounted_kernel
def _forward(first, last, node_ptr, dst_ptr, index, weight, x, position, scratch, out):
    """out[v] = the aggregations of the messages into node v."""
    h, lines = x.shape[1], scratch[first]
    for v in range(node_ptr[first], node_ptr[last]):
        begin, end, row = dst_ptr[v], dst_ptr[v + 1], out[v]
        if end - begin > 1:
            part_forward(
                3, begin, end, index, x, weight, position, lines[0], lines[1], lines[2], row
            )
            continue
        for a in range(5):
            if position[a] >= 0:
                block = row[position[a] * h : (position[a] + 1) * h]
                for j in range(h):
                    block[j] = np.float32(0.0) if a != _STD else _NO_SPREAD
                if begin < end and a != _STD:
                    for j in range(h):
                        block[j] = weight[begin] * x[begin, j]


@uncounted_kernel
def _backward(
    first, last, node_ptr, dst_ptr, index, weight, x, position, scratch, out, grad, grad_x,
    grad_weight,
):  # fmt: skip
    """Add the gradients of x and weight."""
    h, lines = x.shape[1], scratch[first]
    for v in range(node_ptr[first], node_ptr[last]):
        begin, end, given = dst_ptr[v], dst_ptr[v + 1], grad[v]
        if end - begin > 1:
            part_backward(
                3, begin, end, index, x, weight, position, lines[0], lines[1], lines[2], lines[3],
                lines[4], lines[5], out[v], given, grad_x, grad_weight,
            )  # fmt: skip
        elif end - begin == 1:  # one message is its own mean, sum and extremes
            grad_m = lines[0]
            for j in range(h):
                grad_m[j] = np.float32(0.0)
            for a in (0, 4, 1, 2):
                if position[a] >= 0:
                    block = given[position[a] * h : (position[a] + 1) * h]
                    for j in range(h):
                        grad_m[j] += block[j]
            add_message_gradient(begin, index, x, weight, grad_m, grad_x, grad_weight)


class MultiAggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, e, batch, weight, aggregators):
        edges, h = len(e), e.shape[1]
        given = torch.ones(edges) if weight is None else weight
        out = empty_tensor(batch.num_nodes, len(aggregators) * h)
        scratch, position = empty_tensor(batch.num_graphs, 6, h), positions(aggregators)
        ctx.batch, ctx.rest = batch, (position, scratch)
        index = torch.arange(edges)
        pointers = batch.node_ptr, batch.dst_ptr
        run_over_segments(_forward, *pointers, index, given, e, *ctx.rest, out)
        ctx.save_for_backward(index, given, e, out)
        return out.view(len(out), len(aggregators), h)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *edges, e, out = ctx.saved_tensors
        weighted = ctx.needs_input_grad[2]
        grad_x = empty_tensor(*e.shape).zero_()
        grad_weight = empty_tensor(len(e) if weighted else 0).zero_()
        pointers = ctx.batch.node_ptr, ctx.batch.dst_ptr
        run_over_segments(
            _backward, *pointers, *edges, e, *ctx.rest, out, grad.flatten(1), grad_x, grad_weight
        )
        return grad_x, None, grad_weight if weighted else None, None
