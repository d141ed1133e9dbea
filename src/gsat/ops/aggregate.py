"""Attention-weighted sum of messages: GIN without edge features, GINE with them.

    out_v = Σ_{u→v} w_uv · x_u                     (no edge term)
    out_v = Σ_{u→v} w_uv · ReLU(x_u + c_uv)        (edge term c)

With ``own=True`` the node's own x_v is added, as GIN's update wants it.

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
from gsat.ops.engine import array, compiled, kernel, split


class ScalarTerm(NamedTuple):
    """``c = attribute · slope + offset``: attribute [E], slope and offset [h]."""

    attribute: Tensor
    slope: Tensor
    offset: Tensor


EdgeTerm = ScalarTerm | Tensor | None


def aggregate(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    term: EdgeTerm = None,
    own: bool = False,
) -> Tensor:
    """Sum of weighted messages at each node.

    Args:
        x: [N, h]. weight: [E], or None for all ones. term: none, :class:`ScalarTerm` or [E, h].
        own: whether x itself is added.

    Returns:
        [N, h]; zero (or x) where nothing arrives.
    """
    if not compiled(x, weight, *(term if isinstance(term, tuple) else (term,))):
        return aggregate_plain(x, batch, weight, term, own)
    if weight is None:
        weight = torch.ones(batch.num_edges)
    if term is None:
        return _Plain.apply(x, weight, batch, own)
    if isinstance(term, ScalarTerm):
        return _Scalar.apply(x, weight, term.attribute, term.slope, term.offset, batch, own)
    return _Dense.apply(x, weight, term, batch, own)


def aggregate_plain(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    term: EdgeTerm = None,
    own: bool = False,
) -> Tensor:
    """The meaning of :func:`aggregate`, in plain torch."""
    message = x[batch.src]
    if isinstance(term, ScalarTerm):
        term = term.attribute[:, None] * term.slope + term.offset
    if term is not None:
        message = torch.relu(message + term)
    if weight is not None:
        message = message * weight[:, None]
    return (x if own else torch.zeros_like(x)).index_add(0, batch.dst, message)


# -- compiled forms ---------------------------------------------------------------------------
# Forward walks the edges into each node; backward walks the edges out of each node, so that no two
# rows are written by two threads. Both split by graph.


@kernel
def _plain_forward(first, last, node_ptr, dst_ptr, src, weight, x, own, out):  # type: ignore[no-untyped-def]
    h = x.shape[1]
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            out[v, j] = x[v, j] if own else np.float32(0.0)
        for e in range(dst_ptr[v], dst_ptr[v + 1]):
            u, w = src[e], weight[e]
            for j in range(h):
                out[v, j] += w * x[u, j]


@kernel
def _plain_backward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, src_ptr, by_src, dst, weight, x, own, grad, grad_x, grad_weight
):
    h = x.shape[1]
    weighted = len(grad_weight) > 0
    for u in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            grad_x[u, j] = grad[u, j] if own else np.float32(0.0)
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
def _scalar_forward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, dst_ptr, src, weight, x, attribute, slope, offset, own, out
):
    h = x.shape[1]
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            out[v, j] = x[v, j] if own else np.float32(0.0)
        for e in range(dst_ptr[v], dst_ptr[v + 1]):
            u, w, a = src[e], weight[e], attribute[e]
            for j in range(h):
                out[v, j] += w * max(x[u, j] + (a * slope[j] + offset[j]), np.float32(0.0))


@kernel
def _scalar_backward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, src_ptr, by_src, dst, weight, x, attribute, slope, offset, own, grad,
    grad_x, grad_weight, grad_attribute, grad_slope, grad_offset,
):  # fmt: skip
    h = x.shape[1]
    zero = np.float32(0.0)
    weighted, attributed = len(grad_weight) > 0, len(grad_attribute) > 0
    row = np.empty(h, np.float32)
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
                    m = x[u, j] + (a * slope[j] + offset[j])
                    row[j] = w * grad[v, j] if m > zero else zero
                for j in range(h):
                    grad_x[u, j] += row[j]
                for j in range(h):
                    grad_slope[graph, j] += a * row[j]
                if weighted:
                    dot = zero
                    for j in range(h):
                        dot += grad[v, j] * max(x[u, j] + (a * slope[j] + offset[j]), zero)
                    grad_weight[e] = dot
                if attributed:
                    along = zero
                    for j in range(h):
                        m = x[u, j] + (a * slope[j] + offset[j])
                        along += grad[v, j] * slope[j] if m > zero else zero
                    grad_attribute[e] = w * along
            for j in range(h):
                grad_offset[graph, j] += grad_x[u, j]
                grad_x[u, j] += grad[u, j] if own else zero


@kernel
def _dense_forward(first, last, node_ptr, dst_ptr, src, weight, x, term, own, out):  # type: ignore[no-untyped-def]
    h = x.shape[1]
    for v in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            out[v, j] = x[v, j] if own else np.float32(0.0)
        for e in range(dst_ptr[v], dst_ptr[v + 1]):
            u, w = src[e], weight[e]
            for j in range(h):
                out[v, j] += w * max(x[u, j] + term[e, j], np.float32(0.0))


@kernel
def _dense_backward(  # type: ignore[no-untyped-def]
    first, last, node_ptr, src_ptr, by_src, dst, weight, x, term, own, grad,
    grad_x, grad_weight, grad_term,
):  # fmt: skip
    h = x.shape[1]
    zero = np.float32(0.0)
    weighted = len(grad_weight) > 0
    for u in range(node_ptr[first], node_ptr[last]):
        for j in range(h):
            grad_x[u, j] = grad[u, j] if own else zero
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


def _forward_places(batch: GraphBatch) -> tuple[Any, ...]:
    return batch.node_ptr.numpy(), batch.dst_ptr.numpy(), batch.src.numpy()


def _backward_places(batch: GraphBatch) -> tuple[Any, ...]:
    places = (batch.node_ptr, batch.src_ptr, batch.by_src, batch.dst)
    return tuple(place.numpy() for place in places)


def _arrays(*tensors: Tensor) -> tuple[Any, ...]:
    return tuple(array(t) for t in tensors)


def _wanted(like: Tensor, needed: bool) -> Tensor:
    """Room for a gradient; of length 0, which a kernel takes as "don't", when nobody asks."""
    return torch.empty(like.shape) if needed else torch.empty(0)


class _Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, batch: GraphBatch, own: bool) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.batch, ctx.own = batch, own
        out = torch.empty(x.shape)
        split(_plain_forward, *_forward_places(batch), *_arrays(weight, x), own, out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grads = torch.empty(x.shape), _wanted(weight, ctx.needs_input_grad[1])
        places = _backward_places(ctx.batch)
        split(_plain_backward, *places, *_arrays(weight, x), ctx.own, *_arrays(grad, *grads))
        return *_asked(ctx, grads), None, None


class _Scalar(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, attribute: Tensor, slope: Tensor, offset: Tensor,
        batch: GraphBatch, own: bool,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(x, weight, attribute, slope, offset)
        ctx.batch, ctx.own = batch, own
        out = torch.empty(x.shape)
        arrays = _arrays(weight, x, attribute, slope, offset)
        split(_scalar_forward, *_forward_places(batch), *arrays, own, out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, attribute, slope, offset = ctx.saved_tensors
        needs = ctx.needs_input_grad
        grads = (torch.empty(x.shape), _wanted(weight, needs[1]), _wanted(attribute, needs[2]))
        slopes, offsets = (torch.empty(ctx.batch.num_graphs, x.shape[1]) for _ in range(2))
        arrays = _arrays(weight, x, attribute, slope, offset)
        outs = _arrays(grad, *grads, slopes, offsets)
        split(_scalar_backward, *_backward_places(ctx.batch), *arrays, ctx.own, *outs)
        return *_asked(ctx, grads), slopes.sum(0), offsets.sum(0), None, None


class _Dense(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, term: Tensor, batch: GraphBatch, own: bool
    ) -> Tensor:
        ctx.save_for_backward(x, weight, term)
        ctx.batch, ctx.own = batch, own
        out = torch.empty(x.shape)
        split(_dense_forward, *_forward_places(batch), *_arrays(weight, x, term), own, out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, term = ctx.saved_tensors
        grads = (
            torch.empty(x.shape),
            _wanted(weight, ctx.needs_input_grad[1]),
            torch.empty(term.shape),
        )
        places, arrays = _backward_places(ctx.batch), _arrays(weight, x, term)
        split(_dense_backward, *places, *arrays, ctx.own, *_arrays(grad, *grads))
        return *_asked(ctx, grads), None, None


def _asked(ctx: Any, grads: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    needs = ctx.needs_input_grad
    return tuple(g if needed else None for g, needed in zip(grads, needs, strict=False))
