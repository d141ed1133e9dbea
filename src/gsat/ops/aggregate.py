"""Attention-weighted sum of messages: GIN without edge features, GINE with them.

    out_v = Σ_{u→v} w_uv · x_u                     (no edge term)
    out_v = Σ_{u→v} w_uv · ReLU(x_u + c_uv)        (edge term c)

The edge term comes in two kinds: ``c_uv = a_uv · slope + offset`` for a scalar attribute a (two
linear layers on a scalar are one line, so no E × h × h product is paid), or any tensor [E, h].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.engine import compiled, kernel, split


class ScalarTerm(NamedTuple):
    """``c = attribute · slope + offset``: attribute [E], slope and offset [h]."""

    attribute: Tensor
    slope: Tensor
    offset: Tensor


EdgeTerm = ScalarTerm | Tensor | None


def aggregate(x: Tensor, batch: GraphBatch, weight: Tensor | None, term: EdgeTerm = None) -> Tensor:
    """Sum of weighted messages at each node.

    Args:
        x: [N, h]. weight: [E], or None for all ones. term: none, :class:`ScalarTerm` or [E, h].

    Returns:
        [N, h]; zero where nothing arrives.
    """
    if not compiled(x, weight, *(term if isinstance(term, tuple) else (term,))):
        return aggregate_plain(x, batch, weight, term)
    if weight is None:
        weight = torch.ones(batch.num_edges)
    if term is None:
        return _Plain.apply(x, weight, batch)
    if isinstance(term, ScalarTerm):
        return _Scalar.apply(x, weight, term.attribute, term.slope, term.offset, batch)
    return _Dense.apply(x, weight, term, batch)


def aggregate_plain(
    x: Tensor, batch: GraphBatch, weight: Tensor | None, term: EdgeTerm = None
) -> Tensor:
    """The meaning of :func:`aggregate`, in plain torch."""
    message = x[batch.src]
    if isinstance(term, ScalarTerm):
        term = term.attribute[:, None] * term.slope + term.offset
    if term is not None:
        message = torch.relu(message + term)
    if weight is not None:
        message = message * weight[:, None]
    return torch.zeros_like(x).index_add(0, batch.dst, message)


# -- compiled forms ---------------------------------------------------------------------------
# Forward walks the edges into each node; backward walks the edges out of each node, so that no two
# rows are written by two threads. Both split by graph.


@kernel
def _plain_forward(first, last, node_ptr, dst_ptr, src, weight, x, out):  # type: ignore[no-untyped-def]
    h = x.shape[1]
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            out[v, j] = 0.0
        for e in range(dst_ptr[v], dst_ptr[v + 1]):
            u, w = src[e], weight[e]
            for j in range(h):
                out[v, j] += w * x[u, j]


@kernel
def _plain_backward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, src_ptr, by_src, dst, weight, x, grad, grad_x, grad_weight
):
    h = x.shape[1]
    for u in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            grad_x[u, j] = 0.0
        for k in range(src_ptr[u], src_ptr[u + 1]):
            e = by_src[k]
            v, w = dst[e], weight[e]
            dot = np.float32(0.0)
            for j in range(h):
                g = grad[v, j]
                dot += g * x[u, j]
                grad_x[u, j] += w * g
            grad_weight[e] = dot


@kernel
def _scalar_forward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, dst_ptr, src, weight, x, attribute, slope, offset, out
):
    h = x.shape[1]
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            out[v, j] = 0.0
        for e in range(dst_ptr[v], dst_ptr[v + 1]):
            u, w, a = src[e], weight[e], attribute[e]
            for j in range(h):
                out[v, j] += w * max(x[u, j] + (a * slope[j] + offset[j]), np.float32(0.0))


@kernel
def _scalar_backward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, src_ptr, by_src, dst, weight, x, attribute, slope, offset, grad,
    grad_x, grad_weight, grad_attribute, grad_slope, grad_offset,
):  # fmt: skip
    h = x.shape[1]
    zero = np.float32(0.0)
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
                dot = zero
                along = zero
                for j in range(h):
                    m = x[u, j] + (a * slope[j] + offset[j])
                    g = grad[v, j] if m > zero else zero
                    dot += g * m
                    g *= w
                    along += g * slope[j]
                    grad_x[u, j] += g
                    grad_slope[graph, j] += a * g
                grad_weight[e] = dot
                grad_attribute[e] = along
            for j in range(h):
                grad_offset[graph, j] += grad_x[u, j]


@kernel
def _dense_forward(first, last, node_ptr, dst_ptr, src, weight, x, term, out):  # type: ignore[no-untyped-def]
    h = x.shape[1]
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            out[v, j] = 0.0
        for e in range(dst_ptr[v], dst_ptr[v + 1]):
            u, w = src[e], weight[e]
            for j in range(h):
                out[v, j] += w * max(x[u, j] + term[e, j], np.float32(0.0))


@kernel
def _dense_backward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, src_ptr, by_src, dst, weight, x, term, grad,
    grad_x, grad_weight, grad_term,
):  # fmt: skip
    h = x.shape[1]
    zero = np.float32(0.0)
    for u in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            grad_x[u, j] = 0.0
        for k in range(src_ptr[u], src_ptr[u + 1]):
            e = by_src[k]
            v, w = dst[e], weight[e]
            dot = zero
            for j in range(h):
                m = x[u, j] + term[e, j]
                g = grad[v, j] if m > zero else zero
                dot += g * m
                g *= w
                grad_x[u, j] += g
                grad_term[e, j] = g
            grad_weight[e] = dot


def _forward_places(batch: GraphBatch) -> tuple[Any, ...]:
    return batch.node_ptr.numpy(), batch.dst_ptr.numpy(), batch.src.numpy()


def _backward_places(batch: GraphBatch) -> tuple[Any, ...]:
    places = (batch.node_ptr, batch.src_ptr, batch.by_src, batch.dst)
    return tuple(place.numpy() for place in places)


def _arrays(*tensors: Tensor) -> tuple[Any, ...]:
    return tuple(t.detach().contiguous().numpy() for t in tensors)


class _Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, batch: GraphBatch) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.batch = batch
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        split(_plain_forward, *_forward_places(batch), *_arrays(weight, x, out))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_x, grad_weight = torch.empty(x.shape), torch.empty_like(weight)
        split(
            _plain_backward,
            *_backward_places(ctx.batch),
            *_arrays(weight, x, grad, grad_x, grad_weight),
        )
        return grad_x, grad_weight, None


class _Scalar(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, attribute: Tensor, slope: Tensor, offset: Tensor,
        batch: GraphBatch,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(x, weight, attribute, slope, offset)
        ctx.batch = batch
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        arrays = _arrays(weight, x, attribute, slope, offset, out)
        split(_scalar_forward, *_forward_places(batch), *arrays)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, attribute, slope, offset = ctx.saved_tensors
        grads = (torch.empty(x.shape), torch.empty_like(weight), torch.empty_like(weight))
        partial = (len(ctx.batch.graph_row), x.shape[1])
        slopes, offsets = torch.empty(partial), torch.empty(partial)
        split(
            _scalar_backward,
            *_backward_places(ctx.batch),
            *_arrays(weight, x, attribute, slope, offset, grad, *grads, slopes, offsets),
        )
        return (*grads, slopes.sum(0), offsets.sum(0), None)


class _Dense(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, term: Tensor, batch: GraphBatch) -> Tensor:
        ctx.save_for_backward(x, weight, term)
        ctx.batch = batch
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        split(_dense_forward, *_forward_places(batch), *_arrays(weight, x, term, out))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, term = ctx.saved_tensors
        grads = (torch.empty(x.shape), torch.empty_like(weight), torch.empty(term.shape))
        split(
            _dense_backward,
            *_backward_places(ctx.batch),
            *_arrays(weight, x, term, grad, *grads),
        )
        return (*grads, None)
