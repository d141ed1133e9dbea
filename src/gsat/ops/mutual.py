"""The mutual information of pairs, by the Donsker-Varadhan bound, and its estimator's training.

    Î = mean_i T(e_i, p_i) − log mean_i exp T(e_π(i), p_i)
    T(e, p) = w · ReLU(W concat(e, p) + b)

π is a permutation. T has no bias at the end: it would cancel. Raising Î over T takes hundreds of
tiny steps per batch; the compiled form makes them, gradients and Adam included, in one call. There,
W concat(e, p) is taken apart into a product with e and one with p, so that shuffled pairs need no
product of their own.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Adam

from gsat.ops.engine import array, empty, inlined, kernel
from gsat.ops.products import (
    add_transposed_times,
    blas,
    clear,
    fused,
    spread,
    times_transposed,
)

_BETAS, _EPS = (0.9, 0.999), 1e-8


class Estimator(nn.Module):
    """T: e and p, both [B, h], to one number per pair [B]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(2 * hidden, hidden)
        self.last = nn.Linear(hidden, 1, bias=False)

    def forward(self, e: Tensor, p: Tensor) -> Tensor:
        """T of each pair."""
        return self.last(torch.relu(self.first(torch.cat([e, p], dim=1))))[:, 0]

    def adam(self, lr: float, weight_decay: float) -> Adam:
        """A fresh Adam for :func:`raise_estimate`."""
        adam = Adam(self.parameters(), lr, _BETAS, _EPS, weight_decay)
        for weights in self.parameters():  # as Adam makes it in its first step
            adam.state[weights] = {
                "step": torch.tensor(0.0),
                "exp_avg": torch.zeros_like(weights),
                "exp_avg_sq": torch.zeros_like(weights),
            }
        return adam


def donsker_varadhan(joint: Tensor, shuffled: Tensor) -> Tensor:
    """Î from T of the pairs and T of the shuffled pairs, both [B]."""
    return joint.mean() - (torch.logsumexp(shuffled, dim=0) - math.log(len(shuffled)))


def raise_estimate(
    estimator: Estimator, adam: Adam, e: Tensor, p: Tensor, orders: Tensor
) -> Tensor:
    """Train the estimator on a batch of pairs, one Adam step per permutation.

    Args:
        estimator, adam: changed in place; ``adam`` is the one the estimator made.
        e, p: [B, h]; no gradient comes back to them. orders: [I, B] long, permutations.

    Returns:
        Î before each step, [I].
    """
    e, p = e.detach(), p.detach()
    if not fused(e, p, estimator.first.weight):
        return raise_plain(estimator, adam, e, p, orders)
    (group,), weights = adam.param_groups, list(estimator.parameters())
    first, bias, last = (array(w) for w in weights)
    rows, h = len(e), len(bias)
    states = [adam.state[w] for w in weights]
    moments = [array(s[name]) for s in states for name in ("exp_avg", "exp_avg_sq")]
    grads = [np.empty_like(w) for w in (first, bias, last)]
    rooms = [empty(rows, h) for _ in range(4)]
    estimates = torch.empty(len(orders))
    spread(
        _raise, np.array([0, 1]), blas(), array(e), array(p), array(orders), first, bias, last,
        *grads, *moments, *rooms, float(states[0]["step"]), group["lr"], group["weight_decay"],
        estimates.numpy(),
    )  # fmt: skip
    for state in states:
        state["step"] += len(orders)
    return estimates


def raise_plain(estimator: Estimator, adam: Adam, e: Tensor, p: Tensor, orders: Tensor) -> Tensor:
    """The meaning of :func:`raise_estimate`, in plain torch."""
    estimates = []
    with torch.enable_grad():
        for order in orders:
            estimate = donsker_varadhan(estimator(e, p), estimator(e[order], p))
            adam.zero_grad(set_to_none=True)
            (-estimate).backward()
            adam.step()
            estimates.append(estimate.detach())
    adam.zero_grad(set_to_none=True)
    return torch.stack(estimates) if estimates else e.new_zeros(0)


@inlined
def _score(a, b, w):  # type: ignore[no-untyped-def]
    """w · ReLU(a + b)."""
    total = np.float32(0.0)
    for j in range(len(w)):
        total += w[j] * max(a[j] + b[j], np.float32(0.0))
    return total


@inlined
def _pull(g, a, b, w, line, g_a, g_b, g_w):  # type: ignore[no-untyped-def]
    """Add what a gradient g of w · ReLU(a + b) means for a, b and w."""
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
def _adam(w, g, m, v, rate, correction, decay):  # type: ignore[no-untyped-def]
    """One step of Adam on a row of weights, as torch takes it."""
    keep, fresh = np.float32(1.0 - _BETAS[0]), np.float32(1.0 - _BETAS[1])
    for j in range(len(w)):
        g[j] += decay * w[j]
    for j in range(len(w)):
        m[j] += (g[j] - m[j]) * keep
    for j in range(len(w)):
        v[j] = v[j] * np.float32(_BETAS[1]) + g[j] * g[j] * fresh
    for j in range(len(w)):
        w[j] -= rate * m[j] / (np.sqrt(v[j]) * correction + np.float32(_EPS))


@kernel
def _raise(  # type: ignore[no-untyped-def]
    begin, end, ptr, blas, e, p, orders, first, bias, last, g_first, g_bias, g_last,
    m_first, v_first, m_bias, v_bias, m_last, v_last, a, b, g_a, g_b, steps, lr, decay, estimates,
):  # fmt: skip
    rows, h = a.shape
    half = e.shape[1]
    joint, other = np.empty(rows, np.float32), np.empty(rows, np.float32)
    line, w, g_w = np.empty(h, np.float32), last[0], g_last[0]
    zero, share = np.float32(0.0), np.float32(1.0 / rows)
    for t in range(len(orders) if end > begin else 0):
        order = orders[t]
        times_transposed(blas, e, first[:, :half], a)
        times_transposed(blas, p, first[:, half:], b)
        for i in range(rows):
            for j in range(h):
                b[i, j] += bias[j]
        for i in range(rows):
            joint[i] = _score(a[i], b[i], w)
            other[i] = _score(a[order[i]], b[i], w)
        highest, total, mean = other[0], 0.0, 0.0
        for i in range(rows):
            highest = max(highest, other[i])
        for i in range(rows):
            other[i] = np.exp(other[i] - highest)
            total += other[i]
            mean += joint[i]
        estimates[t] = mean / rows - (highest + math.log(total / rows))
        inverse = np.float32(1.0 / total)
        clear(g_a)
        clear(g_b)
        for j in range(h):
            g_w[j] = zero
            g_bias[j] = zero
        # The gradients of −Î: 1/B less on each pair, the softmax of T on the shuffled ones.
        for i in range(rows):
            _pull(-share, a[i], b[i], w, line, g_a[i], g_b[i], g_w)
            _pull(other[i] * inverse, a[order[i]], b[i], w, line, g_a[order[i]], g_b[i], g_w)
        for i in range(rows):
            for j in range(h):
                g_bias[j] += g_b[i, j]
        clear(g_first)
        add_transposed_times(blas, g_a, e, g_first[:, :half])
        add_transposed_times(blas, g_b, p, g_first[:, half:])
        done = steps + t + 1.0
        rate = np.float32(lr / (1.0 - _BETAS[0] ** done))
        correction = np.float32(1.0 / math.sqrt(1.0 - _BETAS[1] ** done))
        wd = np.float32(decay)
        for k in range(h):
            _adam(first[k], g_first[k], m_first[k], v_first[k], rate, correction, wd)
        _adam(bias, g_bias, m_bias, v_bias, rate, correction, wd)
        _adam(w, g_w, m_last[0], v_last[0], rate, correction, wd)
