"""Training of the mutual-information estimator: hundreds of tiny Adam steps in one call.

W concat(e, p) is split into a product with e and one with p, so that shuffled pairs need no product
of their own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gsat.ops.numba.buffers import aligned_empty, as_array, empty_tensor, local_array
from gsat.ops.numba.compile import inlined, kernel
from gsat.ops.numba.matmul import (
    add_matmul_tn,
    fill_zero,
    matmul_nt,
    run_over_blocks,
    sgemm_address,
)
from gsat.ops.reference import ADAM_BETAS, ADAM_EPS


def train_statistics_network(network, adam, e, p, orders):
    (group,), weights = adam.param_groups, list(network.parameters())
    values = [_copy(w) for w in weights]
    rows, h = len(e), len(values[1])
    states = [adam.state[w] for w in weights]
    moments = [s[name] for s in states for name in ("exp_avg", "exp_avg_sq")]
    new_moments = [_copy(m) for m in moments]
    grads = [aligned_empty(*w.shape) for w in weights]
    scratch = [aligned_empty(rows, h) for _ in range(4)]
    estimates = empty_tensor(len(orders))
    run_over_blocks(
        _train, np.array([0, 1]), sgemm_address(), as_array(e), as_array(p), as_array(orders),
        *values, *grads, *new_moments, *scratch, float(states[0]["step"]), group["lr"],
        group["weight_decay"], estimates.numpy(),
    )  # fmt: skip
    with torch.no_grad():
        for tensor, value in zip([*weights, *moments], [*values, *new_moments], strict=True):
            tensor.copy_(torch.from_numpy(value))
    for state in states:
        state["step"] += len(orders)
    return estimates


def _copy(tensor: Tensor) -> Any:
    """Copy a tensor into an array that a kernel may write."""
    out = aligned_empty(*tensor.shape)
    out[...] = as_array(tensor)
    return out


@inlined
def _score(a, b, w):
    """w · ReLU(a + b)."""
    total = np.float32(0.0)
    for j in range(len(w)):
        total += w[j] * max(a[j] + b[j], np.float32(0.0))
    return total


@inlined
def _score_backward(g, a, b, w, line, g_a, g_b, g_w):
    """Add the gradients of a, b and w for a gradient g of w · ReLU(a + b); line is scratch, [h]."""
    for j in range(len(w)):
        line[j] = a[j] + b[j]
    for j in range(len(w)):
        g_w[j] += g * max(line[j], np.float32(0.0))
    for j in range(len(w)):
        line[j] = g * w[j] if line[j] > np.float32(0.0) else np.float32(0.0)
    for j in range(len(w)):
        g_a[j] += line[j]
    for j in range(len(w)):
        g_b[j] += line[j]


@inlined
def _adam(w, g, m, v, rate, correction, decay):
    """One step of Adam on a row of weights w with gradient g and moments m and v, as in torch."""
    keep, fresh = np.float32(1.0 - ADAM_BETAS[0]), np.float32(1.0 - ADAM_BETAS[1])
    for j in range(len(w)):
        g[j] += decay * w[j]
    for j in range(len(w)):
        m[j] += (g[j] - m[j]) * keep
    for j in range(len(w)):
        v[j] = v[j] * np.float32(ADAM_BETAS[1]) + g[j] * g[j] * fresh
    for j in range(len(w)):
        w[j] -= rate * m[j] / (np.sqrt(v[j]) * correction + np.float32(ADAM_EPS))


@kernel
def _train(
    begin, end, ptr, sgemm, e, p, orders, first, bias, last, g_first, g_bias, g_last,
    m_first, v_first, m_bias, v_bias, m_last, v_last, a, b, g_a, g_b, steps, lr, decay, estimates,
):  # fmt: skip
    """One Adam step per row of orders; ptr is a single segment, so that one thread does it all.

    m_* and v_* are Adam's moments of first, bias and last; g_* their gradients. a = e W_eᵀ and
    b = p W_pᵀ + bias, [B, h] each, are the two parts of the hidden layer.
    """
    rows, h = a.shape
    half = e.shape[1]
    joint, shuffled = local_array(rows), local_array(rows)
    line, w, g_w = local_array(h), last[0], g_last[0]
    zero, share = np.float32(0.0), np.float32(1.0 / rows)
    for t in range(len(orders) if end > begin else 0):
        order = orders[t]
        matmul_nt(sgemm, e, first[:, :half], a)
        matmul_nt(sgemm, p, first[:, half:], b)
        for i in range(rows):
            for j in range(h):
                b[i, j] += bias[j]
        for i in range(rows):
            joint[i] = _score(a[i], b[i], w)
            shuffled[i] = _score(a[order[i]], b[i], w)
        highest, total, mean = shuffled[0], 0.0, 0.0
        for i in range(rows):
            highest = max(highest, shuffled[i])
        for i in range(rows):
            shuffled[i] = np.exp(shuffled[i] - highest)
            total += shuffled[i]
            mean += joint[i]
        estimates[t] = mean / rows - (highest + math.log(total / rows))
        inverse = np.float32(1.0 / total)
        fill_zero(g_a)
        fill_zero(g_b)
        for j in range(h):
            g_w[j] = zero
            g_bias[j] = zero
        # Gradients of −Î: −1/B for each pair, the softmax of T for the shuffled ones.
        for i in range(rows):
            _score_backward(-share, a[i], b[i], w, line, g_a[i], g_b[i], g_w)
            _score_backward(
                shuffled[i] * inverse, a[order[i]], b[i], w, line, g_a[order[i]], g_b[i], g_w
            )
        for i in range(rows):
            for j in range(h):
                g_bias[j] += g_b[i, j]
        fill_zero(g_first)
        add_matmul_tn(sgemm, g_a, e, g_first[:, :half])
        add_matmul_tn(sgemm, g_b, p, g_first[:, half:])
        done = steps + t + 1.0
        rate = np.float32(lr / (1.0 - ADAM_BETAS[0] ** done))
        correction = np.float32(1.0 / math.sqrt(1.0 - ADAM_BETAS[1] ** done))
        wd = np.float32(decay)
        for k in range(h):
            _adam(first[k], g_first[k], m_first[k], v_first[k], rate, correction, wd)
        _adam(bias, g_bias, m_bias, v_bias, rate, correction, wd)
        _adam(w, g_w, m_last[0], v_last[0], rate, correction, wd)
