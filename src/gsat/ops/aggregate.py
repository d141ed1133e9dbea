"""Attention-weighted sum of messages: GIN without edge features, GINE with them.

    out_v = Σ_{u→v} w_uv · x_u                     (no edge term)
    out_v = Σ_{u→v} w_uv · ReLU(x_u + c_uv)        (edge term c)

With ``own=True`` the node's own x_v is added, as GIN's update wants it.

The edge term comes in two kinds: ``c_uv = a_uv · slope + offset`` for a scalar attribute a (two
linear layers on a scalar are one line, so no E × h × h product is paid), or any tensor [E, h].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from gsat.graphs.batch import GraphBatch
from gsat.ops.engine import array, compiled, empty, kernel, split


class ScalarTerm(NamedTuple):
    """``c = attribute · slope + offset``: attribute [E], slope and offset [h]."""

    attribute: Tensor
    slope: Tensor
    offset: Tensor


EdgeTerm = ScalarTerm | Tensor | None


def scalar_term(attribute: Tensor, encoder: nn.Linear, edge: nn.Linear) -> ScalarTerm:
    """``edge(encoder(a))`` of a scalar attribute [E]: two linear layers on a scalar are one line,
    exactly."""
    line = _Line.apply if compiled(encoder.weight, edge.weight) else _line_plain
    return ScalarTerm(attribute, *line(encoder.weight, encoder.bias, edge.weight, edge.bias))


def _line_plain(w: Tensor, b: Tensor, edge: Tensor, edge_b: Tensor) -> tuple[Tensor, Tensor]:
    return edge @ w[:, 0], edge @ b + edge_b


class _Line(torch.autograd.Function):
    # The same in NumPy: a dozen torch operations on a few numbers each took a tenth of a step.
    @staticmethod
    def forward(
        ctx: Any, w: Tensor, b: Tensor, edge: Tensor, edge_b: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(w, b, edge)
        slope, offset = array(edge) @ array(w)[:, 0], array(edge) @ array(b) + array(edge_b)
        return torch.from_numpy(slope), torch.from_numpy(offset)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor, offset: Tensor) -> tuple[Tensor | None, ...]:
        w, b, edge = (array(t) for t in ctx.saved_tensors)
        to_slope, to_offset = array(slope), array(offset)
        to_edge = np.outer(to_slope, w[:, 0]) + np.outer(to_offset, b)
        grads = (to_slope @ edge)[:, None], to_offset @ edge, to_edge, to_offset
        return tuple(torch.from_numpy(g) for g in grads)


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
    terms = term if isinstance(term, ScalarTerm) else () if term is None else (term,)
    return _Aggregate.apply(batch, own, x, weight, *terms)


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


# The same on arrays, for ops that aggregate among other things. ``terms`` is empty, (term,) or
# (attribute, slope, offset).


def aggregate_rows(batch: GraphBatch, own: bool, weight: Any, x: Any, *terms: Any) -> Any:
    """What :func:`aggregate` returns, [N, h]."""
    out = empty(*x.shape)
    places = batch.node_ptr.numpy(), batch.dst_ptr.numpy(), batch.src.numpy()
    if weight is None:
        weight = np.ones(batch.num_edges, np.float32)
    kernels = {0: _plain_forward, 1: _dense_forward, 3: _scalar_forward}
    split(kernels[len(terms)], *places, weight, x, *terms, own, out)
    return out


def aggregate_rows_backward(
    batch: GraphBatch, own: bool, needs: Sequence[bool], grad: Any, weight: Any, x: Any, *terms: Any
) -> tuple[Any, ...]:
    """Gradients of weight, x and terms; None where ``needs`` says that nobody asks.

    A gradient of length 0 tells a kernel not to bother.
    """
    places = (batch.node_ptr, batch.src_ptr, batch.by_src, batch.dst)
    if weight is None:
        weight = np.ones(batch.num_edges, np.float32)
    nothing = np.empty(0, np.float32)
    grad_x = empty(*x.shape)
    grad_weight = empty(*weight.shape) if needs[0] else nothing
    arguments = [*(place.numpy() for place in places), weight, x, *terms, own, grad, grad_x]
    if not terms:
        split(_plain_backward, *arguments, grad_weight)
        to_terms: tuple[Any, ...] = ()
    elif len(terms) == 1:
        grad_term = empty(*terms[0].shape)
        split(_dense_backward, *arguments, grad_weight, grad_term)
        to_terms = (grad_term,)
    else:
        grad_attribute = empty(*terms[0].shape) if needs[2] else nothing
        slopes, offsets = np.empty((2, batch.num_graphs, x.shape[1]), np.float32)
        split(_scalar_backward, *arguments, grad_weight, grad_attribute, slopes, offsets)
        to_terms = (grad_attribute if needs[2] else None, slopes.sum(0), offsets.sum(0))
    return (grad_weight if needs[0] else None, grad_x, *to_terms)


class _Aggregate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, batch: GraphBatch, own: bool, x: Tensor, *rest: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, *rest)
        ctx.batch, ctx.own = batch, own
        weight, *terms = (None if t is None else array(t) for t in rest)
        return torch.from_numpy(aggregate_rows(batch, own, weight, array(x), *terms))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *terms = (None if t is None else array(t) for t in ctx.saved_tensors)
        _, _, of_x, *of_rest = ctx.needs_input_grad
        needs = (of_rest[0], of_x, *of_rest[1:])
        made = aggregate_rows_backward(ctx.batch, ctx.own, needs, array(grad), weight, x, *terms)
        to_weight, to_x, *to_terms = (None if g is None else torch.from_numpy(g) for g in made)
        return None, None, to_x, to_weight, *to_terms
