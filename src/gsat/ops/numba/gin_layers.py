"""The layers of GIN, each with the ReLU and the dropout that follow it, in one pass.

A few hundred rows at a time go through the linear layers and all that is between them. Backward
keeps s (the aggregated messages), z (its first product) and the result, and computes the rest
again. While training, the first bias cancels: the batch norm subtracts the mean.
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
from gsat.ops.numba.aggregate import aggregate_rows
from gsat.ops.numba.batch_norm import normalise_rows, update_running_statistics
from gsat.ops.numba.buffers import GUARD, aligned_empties, aligned_empty, as_array
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.gin_kernels import (
    BATCH_MEAN,
    CHUNK,
    COLUMNS,
    DENSE,
    GRAD_OFFSET,
    GRAD_SLOPE,
    GRAD_TERM,
    GRADS,
    IN,
    KEY,
    MEANS,
    MIDDLE,
    NORM,
    OUT,
    OUTER_BIAS,
    SCALAR,
    SQUARES,
    TERM,
    VARIANCE,
    S,
    X,
    Y,
    Z,
    backward_pass,
    forward_pass,
)
from gsat.ops.numba.matmul import (
    block_ptr,
    matmul_nt,
    run_over_blocks,
    run_stages,
    sgemm_address,
)
from gsat.ops.numba.parallel import num_threads
from gsat.ops.numba.random import dropout_arguments
from gsat.ops.random import Draws
from gsat.ops.reference import EdgeTerm, ScalarTerm

_WEIGHTS = 6  # tensors of a layer


def gin_layers(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    terms: Sequence[EdgeTerm],
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d, nn.Linear]],
    drop: float = 0.0,
    draws: Sequence[Draws | None] | None = None,
) -> Tensor:
    """Fused form of :func:`gsat.ops.reference.gin_layers`."""
    if not layers[0][1].training:
        return _evaluated(x, batch, weight, terms, layers)
    dropout = [dropout_arguments(drop, source) for source in draws or [None] * len(layers)]
    parts = [tuple(t) if isinstance(t, ScalarTerm) else () if t is None else (t,) for t in terms]
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
    terms: Sequence[EdgeTerm],
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d, nn.Linear]],
) -> Tensor:
    """The layers in evaluation mode, without dropout or gradients."""
    values, edges = as_array(x), None if weight is None else as_array(weight)
    ptr = block_ptr(len(x))
    for term, (inner, norm, outer) in zip(terms, layers, strict=True):
        assert norm.running_mean is not None
        assert norm.running_var is not None
        parts = term if isinstance(term, ScalarTerm) else () if term is None else (term,)
        s = aggregate_rows(batch, True, edges, values, *(as_array(part) for part in parts))
        mean = as_array(norm.running_mean) - as_array(inner.bias)
        scale = as_array(norm.weight) / np.sqrt(as_array(norm.running_var) + np.float32(norm.eps))
        lines = mean, scale, as_array(norm.bias)
        values = aligned_empty(len(s), outer.out_features)
        weights = as_array(outer.weight), as_array(outer.bias)
        scratch = _scratch(ptr, inner.out_features, inner.out_features, outer.out_features)
        run_over_blocks(
            _inference, ptr, sgemm_address(), s, as_array(inner.weight), *lines, *weights, values,
            *scratch,
        )  # fmt: skip
    return torch.from_numpy(values)


def _scratch(ptr: Any, *widths: int) -> list[Any]:
    """Allocate scratch memory for a chunk of rows, [blocks, CHUNK, width] for each width.

    A thread uses that of the first block of its range.
    """
    return aligned_empties(*((len(ptr) - 1, CHUNK, width) for width in widths))


@kernel
def _inference(  # type: ignore[no-untyped-def]
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
        table = _weights_table(weights, terms, layers)
        memory = _lay_out_memory(table, len(x), len(ptr) - 1)
        out = aligned_empty(len(x), int(table[-1, OUT]))
        table[-1, Y] = out.ctypes.data
        table[:, X] = [given.data_ptr(), *table[:-1, Y]]
        keys, thresholds, keep_scales = zip(*dropout, strict=True)
        table[:, KEY] = np.array(keys, np.uint64).view(np.int64)
        threads, widest = num_threads(), int(table[:, IN : OUT + 1].max())
        index = (batch.node_ptr, batch.dst_ptr, batch.src)
        ctx.shared = ptr, edges, keep_scales[0]
        run_stages(
            forward_pass, ptr, *(tensor.numpy() for tensor in index), edges,
            batch.node_id.numpy(), len(terms) // layers, sgemm_address(), table,
            np.array([norm.eps for norm in norms], np.float32), thresholds[0], keep_scales[0],
            aligned_empty(threads, 2 * CHUNK * widest),
        )  # fmt: skip
        means, variances = _moments(table, memory)
        biases = [weights[_WEIGHTS * number + 1].detach() for number in range(layers)]
        update_running_statistics(norms, torch._foreach_add(means, biases), variances, len(x))
        ctx.batch, ctx.table, ctx.kind, ctx.widest = batch, table, len(terms) // layers, widest
        ctx.kept = given, tensors, memory, out  # what the addresses point to
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ctx.saved_tensors  # noqa: B018  checks that nothing was changed in place
        batch, table, needs = ctx.batch, ctx.table, ctx.needs_input_grad[3:]
        ptr, edges, keep_scale = ctx.shared
        n, layers = int(ptr[-1]), len(table)
        starts, total = _grads_layout(table)
        table[:, GRADS] = 4 * starts[:, 0]
        grads = aligned_empty(len(ptr) - 1, total)
        of_terms = _term_gradients(table, ctx.kind, batch, needs[2 + _WEIGHTS * layers :])
        of_weight = aligned_empty(len(edges) if needs[1] else 0)
        rows = [aligned_empty(n * ctx.widest) for _ in range(2 + min(layers, 2))]
        index = (batch.node_ptr, batch.dst_ptr, batch.src_ptr, batch.by_src, batch.dst)
        run_stages(
            backward_pass, ptr, *(tensor.numpy() for tensor in index), edges, ctx.kind,
            sgemm_address(), table, keep_scale, as_array(grad), grads, of_weight,
            aligned_empty(*of_weight.shape), np.array([row.ctypes.data for row in rows]),
            aligned_empty(num_threads(), 4 * CHUNK * ctx.widest),
        )  # fmt: skip
        width = int(table[0, IN])
        of_x = rows[2][: n * width].reshape(n, width)
        of_weights = _split_gradients(table, starts, torch.from_numpy(grads.sum(0)))
        first = torch.from_numpy(of_x), torch.from_numpy(of_weight) if needs[1] else None
        return None, None, None, *first, *of_weights, *_tensors_of(of_terms, ctx.kind)


def _weights_table(
    weights: Sequence[Tensor], terms: Sequence[Tensor], layers: int
) -> NDArray[np.int64]:
    """Make the table of ``gin_kernels`` with the addresses and sizes of weights and edge terms."""
    table = np.zeros((layers, COLUMNS), np.int64)
    kind = len(terms) // layers
    for number in range(layers):
        inner, _, scale, shift, outer, bias = weights[_WEIGHTS * number :][:_WEIGHTS]
        of_term = [term.data_ptr() for term in terms[kind * number :][:kind]]
        table[number, : OUTER_BIAS + 1] = [
            inner.shape[1], *outer.shape[::-1],
            *(tensor.data_ptr() for tensor in (inner, scale, shift, outer, bias)),
        ]  # fmt: skip
        table[number, TERM : TERM + kind] = of_term
    return table


def _padded(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return (sizes + 15) // 16 * 16


def _lay_out_memory(table: NDArray[np.int64], n: int, blocks: int) -> Any:
    """Allocate what a pass keeps, except its result, in one piece; write where it is."""
    rows = np.array([n, n, blocks, blocks, 1, 1, 4, n])
    sizes = rows * table[:, [IN, *[MIDDLE] * 6, OUT]]
    sizes[-1, -1] = 0  # the result
    steps = GUARD + _padded(sizes)
    starts = np.cumsum(steps).reshape(steps.shape) - _padded(sizes)
    memory = aligned_empty(int(steps.sum()))
    columns = [S, Z, MEANS, SQUARES, BATCH_MEAN, VARIANCE, NORM, Y]
    table[:, columns] = memory.ctypes.data + 4 * starts
    return memory


def _moments(table: NDArray[np.int64], memory: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Mean and variance of z of each layer, as the forward pass wrote them."""
    numbers, base = torch.from_numpy(memory), memory.ctypes.data
    found: list[list[Tensor]] = []
    for column in (BATCH_MEAN, VARIANCE):
        starts = (table[:, column] - base) // 4
        ends = (starts + table[:, MIDDLE]).tolist()
        found.append([numbers[a:b] for a, b in zip(starts.tolist(), ends, strict=True)])
    return found[0], found[1]


def _grads_layout(table: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Where the gradients of each layer's weights begin in those of a block, and how many they are.

    ``[layers, 4]``: of inner, of outer, the batch norm's sums, of outer's bias.
    """
    width, h, d = table[:, IN : OUT + 1].T
    steps = _padded(np.stack([h * width, d * h, 2 * h, d], axis=1))
    return np.cumsum(steps).reshape(steps.shape) - steps, int(steps.sum())


def _split_gradients(
    table: NDArray[np.int64], starts: NDArray[np.int64], total: Tensor
) -> list[Tensor | None]:
    """Gradients of the weights of all layers; the first bias of a layer has none."""
    found: list[Tensor | None] = []
    for (width, h, d), at in zip(table[:, IN : OUT + 1].tolist(), starts.tolist(), strict=True):
        inner = total[at[0] : at[0] + h * width].view(h, width)
        outer = total[at[1] : at[1] + d * h].view(d, h)
        shift, scale = total[at[2] : at[2] + 2 * h].view(2, h)
        found += [inner, None, scale, shift, outer, total[at[3] : at[3] + d]]
    return found


def _term_gradients(
    table: NDArray[np.int64], kind: int, batch: GraphBatch, needs: Sequence[bool]
) -> list[Any]:
    """Allocate the gradients of the edge terms and write where they are; None where not needed."""
    found: list[Any] = []
    for number, row in enumerate(table):
        if kind == DENSE:
            found.append(aligned_empty(batch.num_edges, int(row[IN])))
            row[GRAD_TERM] = found[-1].ctypes.data
        elif kind == SCALAR:
            needed = needs[kind * number]
            attribute = aligned_empty(batch.num_edges) if needed else None
            # One row of partial sums per graph, of slope and of offset.
            sums = aligned_empty(2, batch.num_graphs, int(row[IN]))
            row[GRAD_TERM] = attribute.ctypes.data if attribute is not None else 0
            row[GRAD_SLOPE], row[GRAD_OFFSET] = sums[0].ctypes.data, sums[1].ctypes.data
            found += [attribute, sums]
    return found


def _tensors_of(found: list[Any], kind: int) -> list[Tensor | None]:
    """The gradients of the edge terms from what :func:`_term_gradients` allocated."""
    if kind != SCALAR:
        return [torch.from_numpy(array) for array in found]
    tensors: list[Tensor | None] = []
    for attribute, sums in zip(found[::2], found[1::2], strict=True):
        slope, offset = torch.from_numpy(sums.sum(1))
        of_attribute = None if attribute is None else torch.from_numpy(attribute)
        tensors += [of_attribute, slope, offset]
    return tensors
