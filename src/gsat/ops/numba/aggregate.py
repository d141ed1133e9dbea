"""Attention-weighted sum of messages: GIN without edge features, GINE with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import types
from numba.extending import intrinsic
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.numba.buffers import aligned_empty, as_array, empty_tensor, local_array
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.parallel import run_over_segments
from gsat.ops.reference import EdgeTerm, ScalarTerm


def aggregate(x, batch, weight, term, include_self):
    return _Aggregate.apply(x, batch, weight, include_self, *arrays_of_term(term))


def arrays_of_term(term: EdgeTerm) -> tuple[Tensor, ...]:
    """The tensors of an edge term: 0 without one, 1 for a tensor, 3 for a scalar term."""
    return tuple(term) if isinstance(term, ScalarTerm) else () if term is None else (term,)


def scalar_term(attribute, encoder, edge):
    line = _ScalarTerm.apply(encoder.weight, encoder.bias, edge.weight, edge.bias)
    return ScalarTerm(attribute, *line)


class _ScalarTerm(torch.autograd.Function):
    """In NumPy: a dozen torch operations on a few numbers each took a tenth of a step."""

    @staticmethod
    def forward(ctx, w, b, edge, edge_bias):
        ctx.save_for_backward(w, b, edge)
        slope = as_array(edge) @ as_array(w)[:, 0]
        offset = as_array(edge) @ as_array(b) + as_array(edge_bias)
        return torch.from_numpy(slope), torch.from_numpy(offset)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_slope: Tensor, of_offset: Tensor) -> tuple[Tensor | None, ...]:
        w, b, edge = (as_array(t) for t in ctx.saved_tensors)
        grad_slope, grad_offset = as_array(of_slope), as_array(of_offset)
        grad_edge = np.outer(grad_slope, w[:, 0]) + np.outer(grad_offset, b)
        grads = (grad_slope @ edge)[:, None], grad_offset @ edge, grad_edge, grad_offset
        return tuple(torch.from_numpy(g) for g in grads)


@intrinsic
def _fma(typing_context, a, b, c):
    """a * b + c, rounded once.

    Kernels may reorder sums, and how they do depends on what is around them. Written with this, a
    message has the same bits in every kernel that it becomes a part of.
    """

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return builder.fma(*args)

    number = types.float32
    return number(number, number, number), generate


# Forward walks over the edges into each node, backward over the edges out of each node, so that
# each row is written by one thread. Both are split by graph. Three pairs of kernels: without an
# edge term ("plain"), with a ScalarTerm ("scalar") and with a term [E, h] ("dense").


@kernel
def plain_forward(first, last, node_ptr, dst_ptr, src, weight, x, include_self, out):
    """out[v] = sum over edges u -> v of w * x[u], plus x[v] if include_self."""
    h = x.shape[1]
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            out[v, j] = x[v, j] if include_self else np.float32(0.0)
        for e in range(dst_ptr[v], dst_ptr[v + 1]):
            u, w = src[e], weight[e]
            for j in range(h):
                out[v, j] += w * x[u, j]


@kernel
def plain_backward(
    first, last, node_ptr, src_ptr, by_src, dst, weight, x, include_self, grad, grad_x, grad_weight
):
    """grad_x[u] = sum over edges u -> v of w * grad[v]; grad_weight[e] = grad[v] . x[u]."""
    h = x.shape[1]
    weighted = len(grad_weight) > 0
    for u in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            grad_x[u, j] = grad[u, j] if include_self else np.float32(0.0)
        for k in range(src_ptr[u], src_ptr[u + 1]):
            e = by_src[k]
            v, w = dst[e], weight[e]
            for j in range(h):
                grad_x[u, j] += w * grad[v, j]
            if weighted:
                dot = np.float32(0.0)
                for j in range(h):
                    dot += grad[v, j] * x[u, j]
                grad_weight[e] = dot


@kernel
def scalar_forward(
    first, last, node_ptr, dst_ptr, src, weight, x, attribute, slope, offset, include_self, out
):
    """As the plain one, with messages w * ReLU(x[u] + a * slope + offset)."""
    h = x.shape[1]
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            out[v, j] = x[v, j] if include_self else np.float32(0.0)
        for e in range(dst_ptr[v], dst_ptr[v + 1]):
            u, w, a = src[e], weight[e], attribute[e]
            for j in range(h):
                message = max(_fma(a, slope[j], x[u, j] + offset[j]), np.float32(0.0))
                out[v, j] = _fma(w, message, out[v, j])


@kernel
def scalar_backward(
    first, last, node_ptr, src_ptr, by_src, dst, weight, x, attribute, slope, offset, include_self,
    grad, grad_x, grad_weight, grad_attribute, grad_slope, grad_offset,
):  # fmt: skip
    """Gradients of x, weight and attribute, and of slope and offset as one row per graph."""
    h = x.shape[1]
    zero = np.float32(0.0)
    weighted, attributed = len(grad_weight) > 0, len(grad_attribute) > 0
    row = local_array(h)
    for graph in range(first, last):
        # One row of partial sums per graph: the total does not depend on the threads.
        for j in range(h):
            grad_slope[graph, j] = 0.0
            grad_offset[graph, j] = 0.0
        for u in range(node_ptr[graph], node_ptr[graph + 1]):
            for j in range(h):
                grad_x[u, j] = 0.0
            for k in range(src_ptr[u], src_ptr[u + 1]):
                e = by_src[k]
                v, w, a = dst[e], weight[e], attribute[e]
                for j in range(h):
                    m = _fma(a, slope[j], x[u, j] + offset[j])
                    row[j] = w * grad[v, j] if m > zero else zero
                for j in range(h):
                    grad_x[u, j] += row[j]
                for j in range(h):
                    grad_slope[graph, j] = _fma(a, row[j], grad_slope[graph, j])
                if weighted:
                    dot = zero
                    for j in range(h):
                        dot += grad[v, j] * max(_fma(a, slope[j], x[u, j] + offset[j]), zero)
                    grad_weight[e] = dot
                if attributed:
                    dot_slope = zero
                    for j in range(h):
                        m = _fma(a, slope[j], x[u, j] + offset[j])
                        dot_slope += grad[v, j] * slope[j] if m > zero else zero
                    grad_attribute[e] = w * dot_slope
            for j in range(h):
                grad_offset[graph, j] += grad_x[u, j]
                grad_x[u, j] += grad[u, j] if include_self else zero


@kernel
def dense_forward(first, last, node_ptr, dst_ptr, src, weight, x, term, include_self, out):
    """As the plain one, with messages w * ReLU(x[u] + term[e])."""
    h = x.shape[1]
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            out[v, j] = x[v, j] if include_self else np.float32(0.0)
        for e in range(dst_ptr[v], dst_ptr[v + 1]):
            u, w = src[e], weight[e]
            for j in range(h):
                out[v, j] += w * max(x[u, j] + term[e, j], np.float32(0.0))


@kernel
def dense_backward(
    first, last, node_ptr, src_ptr, by_src, dst, weight, x, term, include_self, grad,
    grad_x, grad_weight, grad_term,
):  # fmt: skip
    """Gradients of x, weight and term."""
    h = x.shape[1]
    zero = np.float32(0.0)
    weighted = len(grad_weight) > 0
    for u in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            grad_x[u, j] = grad[u, j] if include_self else zero
        for k in range(src_ptr[u], src_ptr[u + 1]):
            e = by_src[k]
            v, w = dst[e], weight[e]
            for j in range(h):
                g = w * grad[v, j] if x[u, j] + term[e, j] > zero else zero
                grad_x[u, j] += g
                grad_term[e, j] = g
            if weighted:
                dot = zero
                for j in range(h):
                    dot += grad[v, j] * max(x[u, j] + term[e, j], zero)
                grad_weight[e] = dot


def aggregate_rows(
    batch: GraphBatch, include_self: bool, weight: Tensor | None, x: Any, *terms: Tensor
) -> Any:
    """The aggregation as an array; GIN's layers use it for evaluation."""
    out = aligned_empty(*x.shape)
    if weight is None:
        weight = torch.ones(batch.num_edges)
    run = {0: plain_forward, 1: dense_forward, 3: scalar_forward}[len(terms)]
    edges = batch.node_ptr, batch.dst_ptr, batch.src
    run_over_segments(run, *edges, weight, x, *terms, include_self, out)
    return out


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, batch, weight, include_self, *terms):
        ctx.save_for_backward(x, weight, *terms)
        ctx.batch, ctx.include_self = batch, include_self
        return torch.from_numpy(aggregate_rows(batch, include_self, weight, x, *terms))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        batch, (x, weight, *terms) = ctx.batch, ctx.saved_tensors
        _, _, needs_weight, _, *needs_terms = ctx.needs_input_grad
        if weight is None:
            weight = torch.ones(batch.num_edges)
        grad_x = empty_tensor(*x.shape)
        grad_weight = empty_tensor(len(weight)) if needs_weight else torch.empty(0)
        edges = batch.node_ptr, batch.src_ptr, batch.by_src, batch.dst
        common = *edges, weight, x, *terms, ctx.include_self, grad, grad_x, grad_weight
        grad_terms: list[Tensor | None] = []
        if not terms:
            run_over_segments(plain_backward, *common)
        elif len(terms) == 1:
            grad_terms = [empty_tensor(*terms[0].shape)]
            run_over_segments(dense_backward, *common, *grad_terms)
        else:
            grad_attribute = empty_tensor(len(terms[0]) if needs_terms[0] else 0)
            sums = aligned_empty(2, batch.num_graphs, x.shape[1])  # of slope and offset, per graph
            run_over_segments(scalar_backward, *common, grad_attribute, *sums)
            slope, offset = (torch.from_numpy(part.sum(0)) for part in sums)
            grad_terms = [grad_attribute if needs_terms[0] else None, slope, offset]
        return grad_x, None, grad_weight if needs_weight else None, None, *grad_terms
