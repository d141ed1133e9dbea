"""What follows the product of a PNA layer: batch norm, ReLU, residual connection and dropout.

z has the nodes in another order than x; order[i] is the node of its row i. ``norm`` is as in
:mod:`gsat.ops.numba.batch_norm`.
"""

from __future__ import annotations

import numpy as np

from gsat.ops.numba.batch_norm import INVERSE_STD, MEAN, SCALE, SHIFT
from gsat.ops.numba.buffers import local_array
from gsat.ops.numba.compile import kernel
from gsat.ops.numba.random import channel_bits_numba, column_offsets_numba, row_words_numba


@kernel
def finish_forward(first, last, ptr, order, x, z, norm, row_id, key, threshold, keep_scale, out):  # type: ignore[no-untyped-def]
    """out = dropout(x + ReLU(BatchNorm(z)))."""
    h = z.shape[1]
    zero = np.float32(0.0)
    line = local_array(h)
    offsets = column_offsets_numba(h)
    for i in range(ptr[first], ptr[last]):
        v = order[i]
        for j in range(h):
            value = (z[i, j] - norm[MEAN, j]) * norm[SCALE, j] + norm[SHIFT, j]
            # Cut where it is <= 0, not kept where it is > 0: a NaN gets through, as in torch.
            line[j] = zero if value <= zero else value
        if threshold == 0:
            for j in range(h):
                out[v, j] = x[v, j] + line[j]
        else:
            low, high = row_words_numba(key, row_id[v])
            for j in range(h):
                dropped = channel_bits_numba(low, high, offsets[j]) < threshold
                out[v, j] = zero if dropped else (x[v, j] + line[j]) * keep_scale


@kernel
def finish_backward(  # type: ignore[no-untyped-def]
    first, last, ptr, order, z, norm, row_id, key, threshold, keep_scale, grad, grad_x, grad_y, sums
):
    """Gradient of x by the residual connection, and what passes the ReLU.

    Per block, sums[b] = the sum of that, and of its products with (z - mean) / std.
    """
    h = z.shape[1]
    zero = np.float32(0.0)
    offsets = column_offsets_numba(h)
    for b in range(first, last):
        total, dot = sums[b, 0], sums[b, 1]
        for j in range(h):
            total[j] = zero
            dot[j] = zero
        for i in range(ptr[b], ptr[b + 1]):
            v = order[i]
            if threshold == 0:
                for j in range(h):
                    grad_x[v, j] = grad[v, j]
            else:
                # Hashed again: a sum may be 0 where it was kept, so the result does not show it.
                low, high = row_words_numba(key, row_id[v])
                for j in range(h):
                    dropped = channel_bits_numba(low, high, offsets[j]) < threshold
                    grad_x[v, j] = zero if dropped else grad[v, j] * keep_scale
            for j in range(h):
                value = (z[i, j] - norm[MEAN, j]) * norm[SCALE, j] + norm[SHIFT, j]
                grad_y[i, j] = grad_x[v, j] if value > zero else zero
            for j in range(h):
                total[j] += grad_y[i, j]
            for j in range(h):
                dot[j] += grad_y[i, j] * (z[i, j] - norm[MEAN, j])
        for j in range(h):
            dot[j] *= norm[INVERSE_STD, j]
