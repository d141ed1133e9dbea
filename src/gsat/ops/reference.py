"""What each costly operation means, in plain torch: any device, any dtype.

The compiled forms in :mod:`gsat.ops.numba` are checked against these, values and gradients. Models
call neither: they call :mod:`gsat.ops`, which chooses.

Notation: a batch has B graphs, N nodes and E directed edges u → v; h, d, k, c and m are widths.
Rows that belong together are contiguous: segment i of ``ptr`` holds the rows ``ptr[i]`` to
``ptr[i + 1] - 1``. Random draws are keyed by ``row_id`` [M], a name of each row that is the same in
every batch (``batch.node_id`` or ``batch.edge_id``); ``draws=None`` means no dropout.

Contents:
    1. Segments: segment_sum, segment_topk_mask
    2. Stochastic attention: concrete, bernoulli_kl
    3. Activations with dropout: relu_dropout, add_dropout
    4. Normalisation: batch_norm_relu, normalise_relu_dropout, gather_normalise_relu_dropout,
       row_normalise_relu_dropout
    5. The extractor: extractor
    6. GIN: scalar_term, aggregate, gin_layer, gin_layers
    7. PNA: multi_aggregate_edges, pna_layer, pna_layers
    8. Mutual information: StatisticsNetwork, donsker_varadhan, train_statistics_network
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from gsat.graphs.batch import GraphBatch
from gsat.ops.random import Draws

# Inside both logarithms of the KL, and added to 1 − r but not to r, as in the published code: value
# and gradient stay finite at α = 0 and 1.
KL_EPS = 1e-6
NORM_EPS = 1e-5  # added to variances of the per-graph normalisation, as in PyG's InstanceNorm
STD_EPS = 1e-5  # added to the variance of messages, as in PyG's StdAggregation
ADAM_BETAS, ADAM_EPS = (0.9, 0.999), 1e-8


# -- 1. segments ---------------------------------------------------------------------------------


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """Sum the rows of each segment: [M, h] to [B, h]; zero for an empty segment."""
    segment = _segment_of_rows(ptr)
    return x.new_zeros(len(ptr) - 1, x.shape[1]).index_add(0, segment, x)


def segment_topk_mask(scores: Tensor, ptr: Tensor, k: Tensor) -> Tensor:
    """Mark the k[i] highest scores of each segment i: [M] to [M] bool; of equal ones the first."""
    segment = _segment_of_rows(ptr)
    order = torch.argsort(scores, descending=True, stable=True)
    order = order[torch.argsort(segment[order], stable=True)]  # by segment, then by falling score
    rank = torch.arange(len(scores), device=scores.device) - ptr[segment]
    top = torch.empty(len(scores), dtype=torch.bool, device=scores.device)
    top[order] = rank < k[segment]
    return top


def _segment_of_rows(ptr: Tensor) -> Tensor:
    """The segment of each row, [M]."""
    counts = ptr.diff()
    return torch.repeat_interleave(torch.arange(len(counts), device=ptr.device), counts)


# -- 2. stochastic attention ---------------------------------------------------------------------


def concrete(logits: Tensor, row_id: Tensor, draws: Draws, temperature: float = 1.0) -> Tensor:
    """α = sigmoid((logit + log u − log(1 − u)) / temperature), u uniform in (0, 1): [M] to [M]."""
    u = draws.uniform(row_id).to(logits.dtype)
    return torch.sigmoid((logits + torch.log(u) - torch.log1p(-u)) / temperature)


def bernoulli_kl(alpha: Tensor, r: float) -> Tensor:
    """mean[α log(α / r + ε) + (1 − α) log((1 − α) / (1 − r + ε) + ε)]: any shape to a scalar."""
    keep = alpha * torch.log(alpha / r + KL_EPS)
    drop = (1 - alpha) * torch.log((1 - alpha) / (1 - r + KL_EPS) + KL_EPS)
    return (keep + drop).mean()


# -- 3. activations with dropout -----------------------------------------------------------------


def relu_dropout(
    z: Tensor, row_id: Tensor, drop: float, draws: Draws | None, bias: Tensor | None = None
) -> Tensor:
    """y = dropout(ReLU(z + bias)): [M, d] and [d] to [M, d]."""
    return _dropout(torch.relu(z if bias is None else z + bias), row_id, drop, draws)


def add_dropout(x: Tensor, z: Tensor, row_id: Tensor, drop: float, draws: Draws | None) -> Tensor:
    """y = dropout(x + z): [M, d] and [M, d] to [M, d]."""
    return _dropout(x + z, row_id, drop, draws)


def _dropout(y: Tensor, row_id: Tensor, drop: float, draws: Draws | None) -> Tensor:
    if draws is None or drop == 0.0:
        return y
    return y * draws.keep(row_id, y.shape[1], drop).to(y.dtype) * (1.0 / (1.0 - drop))


# -- 4. normalisation ----------------------------------------------------------------------------


def batch_norm_relu(z: Tensor, bias: Tensor, norm: nn.BatchNorm1d) -> Tensor:
    """y = ReLU(BatchNorm(z + bias)): [N, h] and [h] to [N, h]; training updates the statistics."""
    if norm.training:
        return torch.relu(norm(z + bias))
    # With fixed statistics it is one scale and one shift per channel.
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    return torch.relu(torch.addcmul(norm.bias + (bias - norm.running_mean) * scale, z, scale))


def normalise_relu_dropout(
    z: Tensor, ptr: Tensor, row_id: Tensor, drop: float, draws: Draws | None
) -> Tensor:
    """y = dropout(ReLU((z − mean_g) / √(var_g + ε))): [M, d] to [M, d].

    Mean and (biased) variance are taken per segment g and channel, in training and evaluation
    alike: PyG's ``InstanceNorm`` without parameters. A segment with one row becomes zero.
    """
    segment = _segment_of_rows(ptr)
    count = ptr.diff().clamp(min=1).to(z.dtype)[:, None]
    zeros = z.new_zeros(len(count), z.shape[1])
    centred = z - (zeros.index_add(0, segment, z) / count)[segment]
    variance = zeros.index_add(0, segment, centred * centred) / count
    return relu_dropout(centred / (variance + NORM_EPS).sqrt()[segment], row_id, drop, draws)


def gather_normalise_relu_dropout(
    a: Tensor, b: Tensor, batch: GraphBatch, drop: float, draws: Draws | None
) -> Tensor:
    """The same for each edge on z_uv = a_u + b_v: [N, d] and [N, d] to [E, d].

    This is the extractor's first layer: Linear(concat(h_u, h_v)) is two products on N rows and a
    sum per edge, instead of one product on E rows twice as wide.
    """
    z = a[batch.src] + b[batch.dst]
    return normalise_relu_dropout(z, batch.edge_ptr, batch.edge_id, drop, draws)


def row_normalise_relu_dropout(
    z: Tensor, row_id: Tensor, drop: float, draws: Draws | None
) -> Tensor:
    """y = dropout(ReLU((z − mean_i) / √(var_i + ε))) over the channels of row i: [M, d] to [M, d].

    A layer norm without weights.
    """
    return relu_dropout(F.layer_norm(z, z.shape[1:], eps=NORM_EPS), row_id, drop, draws)


# -- 5. the extractor ----------------------------------------------------------------------------


def extractor(
    h: Tensor,
    batch: GraphBatch,
    first: Tensor,
    second: Tensor,
    last: Tensor,
    bias: Tensor,
    drop: float = 0.0,
    draws: Draws | None = None,
    ops: Any = None,
) -> Tensor:
    """Attention logits: h [N, k] to [E] (``first`` is [c, 2k]) or to [N] (``first`` is [c, k]).

        z₁ = W₁ concat(h_u, h_v) = W_src h_u + W_dst h_v per edge, or W₁ h_v per node
        z₂ = W₂ dropout(ReLU(norm(z₁)))
        logit = w₃ · dropout(ReLU(norm(z₂))) + b₃

    The biases of the first two layers are left out: the normalisation per graph cancels them.
    ``ops`` is the module whose smaller ops it is made of (default: this one).
    """
    ops = ops or sys.modules[__name__]
    one, two = (draws.child(0), draws.child(1)) if draws else (None, None)
    if first.shape[1] > h.shape[1]:
        w_src, w_dst = first.split(h.shape[1], dim=1)
        ptr, row_id = batch.edge_ptr, batch.edge_id
        y = ops.gather_normalise_relu_dropout(h @ w_src.T, h @ w_dst.T, batch, drop, one)  # [E, c]
    else:
        ptr, row_id = batch.node_ptr, batch.node_id
        y = ops.normalise_relu_dropout(h @ first.T, ptr, row_id, drop, one)  # [N, c]
    y = ops.normalise_relu_dropout(y @ second.T, ptr, row_id, drop, two)  # [E or N, m]
    return (y @ last.T + bias)[:, 0]


# -- 6. GIN --------------------------------------------------------------------------------------


class ScalarTerm(NamedTuple):
    """Edge term made of one number per edge: c_uv = attribute_uv · slope + offset.

    Attributes:
        attribute: One number per edge, ``[E]``.
        slope: ``[h]``.
        offset: ``[h]``.
    """

    attribute: Tensor
    slope: Tensor
    offset: Tensor


EdgeTerm = ScalarTerm | Tensor | None  # c_uv: from a scalar attribute, any [E, h], or none


def scalar_term(attribute: Tensor, encoder: nn.Linear, edge: nn.Linear) -> ScalarTerm:
    """``edge(encoder(a))`` of a scalar attribute a [E], as one line: a · slope + offset."""
    slope, offset = edge.weight @ encoder.weight[:, 0], edge.weight @ encoder.bias + edge.bias
    return ScalarTerm(attribute, slope, offset)


def aggregate(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    term: EdgeTerm = None,
    include_self: bool = False,
) -> Tensor:
    """Attention-weighted sum of messages: x [N, h] and weight [E] to [N, h].

        out_v = Σ_{u→v} w_uv · x_u                  (GIN, no edge term)
        out_v = Σ_{u→v} w_uv · ReLU(x_u + c_uv)     (GINE, edge term c)

    plus x_v itself if ``include_self``. ``weight=None`` means all ones.
    """
    message = x[batch.src]
    if isinstance(term, ScalarTerm):
        term = term.attribute[:, None] * term.slope + term.offset
    if term is not None:
        message = torch.relu(message + term)
    if weight is not None:
        message = message * weight[:, None]
    return (x if include_self else torch.zeros_like(x)).index_add(0, batch.dst, message)


def gin_layer(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    term: EdgeTerm,
    inner: nn.Linear,
    norm: nn.BatchNorm1d,
    outer: nn.Linear,
    drop: float = 0.0,
    draws: Draws | None = None,
    extra: Tensor | None = None,
    ops: Any = None,
) -> Tensor:
    """One layer of GIN with the ReLU and the dropout that follow it: x [N, h] to [N, d].

        s_v = x_v + Σ_{u→v} w_uv · m_uv (+ extra_v)      m as in :func:`aggregate`
        y = dropout(ReLU(ReLU(BatchNorm(s W₁ᵀ + b₁)) W₂ᵀ + b₂))

    ``ops`` is the module whose smaller ops it is made of (default: this one).
    """
    ops = ops or sys.modules[__name__]
    s = ops.aggregate(x, batch, weight, term, include_self=True)
    if extra is not None:
        s = s + extra
    y = ops.batch_norm_relu(s @ inner.weight.T, inner.bias, norm)
    return ops.relu_dropout(y @ outer.weight.T, batch.node_id, drop, draws, outer.bias)


def gin_layers(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    terms: Sequence[EdgeTerm],
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d, nn.Linear]],
    drop: float = 0.0,
    draws: Sequence[Draws | None] | None = None,
    ops: Any = None,
) -> Tensor:
    """Layers of GIN, each with its own edge term and draws; see :func:`gin_layer`."""
    for number, (term, layer) in enumerate(zip(terms, layers, strict=True)):
        source = draws[number] if draws else None
        x = gin_layer(x, batch, weight, term, *layer, drop, source, ops=ops)
    return x


# -- 7. PNA --------------------------------------------------------------------------------------

Aggregator = Literal["mean", "min", "max", "std", "sum"]
AGGREGATORS: tuple[Aggregator, ...] = ("mean", "min", "max", "std", "sum")


def multi_aggregate_edges(
    e: Tensor, batch: GraphBatch, weight: Tensor | None, aggregators: Sequence[Aggregator]
) -> Tensor:
    """Aggregate messages from the edges, m_uv = w_uv · e_uv: [E, h] to [N, A, h].

    Over the edges u → v into each node v, in the order of the A ``aggregators``. Where no edge
    arrives the results are 0, except std = √(ReLU(mean(m²) − mean(m)²) + ε) = √ε.
    """
    message = e if weight is None else e * weight[:, None]
    index = batch.dst[:, None].expand_as(message)
    zeros = message.new_zeros(batch.num_nodes, message.shape[1])
    degree = batch.dst_ptr.diff().clamp(min=1).to(message.dtype)[:, None]
    total = zeros.index_add(0, batch.dst, message)
    mean = total / degree
    out = []
    for name in aggregators:
        if name == "sum":
            out.append(total)
        elif name == "mean":
            out.append(mean)
        elif name == "std":
            square = zeros.index_add(0, batch.dst, message * message) / degree
            out.append((torch.relu(square - mean * mean) + STD_EPS).sqrt())
        else:
            # Not from 0: torch would count it among the ties and give it a share of the gradient.
            how, worst = ("amin", float("inf")) if name == "min" else ("amax", -float("inf"))
            extreme = (zeros + worst).scatter_reduce(0, index, message, how)
            out.append(torch.where(extreme == worst, zeros, extreme))
    return torch.stack(out, dim=1)


def pna_layer(
    x: Tensor,
    messages: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    linear: nn.Linear,
    norm: nn.BatchNorm1d,
    aggregators: Sequence[Aggregator],
    scale: Tensor | None = None,
    drop: float = 0.0,
    draws: Draws | None = None,
    ops: Any = None,
) -> Tensor:
    """One layer of PNA: x [N, h] and messages [E, parts · h] to [N, h].

        x'_v = Dropout(x_v + ReLU(BatchNorm(W concat_a(aggregate_a w_uv · m_uv) + b)))

    The columns of W are ordered by scaler, part of the message, aggregator and channel. With
    ``scale`` [N, S, 1], S groups of them are multiplied with factors of each node and added.
    ``ops`` is the module whose smaller ops it is made of (default: this one).
    """
    ops = ops or sys.modules[__name__]
    h, scalers = x.shape[1], 1 if scale is None else scale.shape[1]
    blocks = linear.weight.view(h, scalers, -1, len(aggregators) * h).permute(2, 1, 0, 3)
    z = x.new_zeros(())
    for part, block in zip(messages.split(h, dim=1), blocks.flatten(1, 2), strict=True):
        seen = ops.multi_aggregate_edges(part, batch, weight, aggregators)  # [N, A, h]
        z = z + seen.flatten(1) @ block.T
    if scale is not None:
        z = (z.unflatten(1, (scalers, h)) * scale).sum(1)
    y = ops.batch_norm_relu(z, linear.bias, norm)
    return ops.add_dropout(x, y, batch.node_id, drop, draws)


def pna_layers(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    edge: Tensor | None,
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d]],
    aggregators: Sequence[Aggregator],
    scale: Tensor | None = None,
    drop: float = 0.0,
    draws: Sequence[Draws | None] | None = None,
    ops: Any = None,
) -> Tensor:
    """Layers of PNA with messages m_uv = concat(x_u, x_v, e_uv): x [N, h] to [N, h].

    e is [E, h], or [1, h] where it is the same on all edges; the rest is as in :func:`pna_layer`.
    """
    more = [] if edge is None else [edge.expand(batch.num_edges, -1)]
    for number, (linear, norm) in enumerate(layers):
        messages = torch.cat([x[batch.src], x[batch.dst], *more], dim=1)
        source = draws[number] if draws else None
        x = pna_layer(
            x, messages, batch, weight, linear, norm, aggregators, scale, drop, source, ops
        )
    return x


# -- 8. mutual information -----------------------------------------------------------------------


class StatisticsNetwork(nn.Module):
    """The network T of the Donsker-Varadhan bound: T(e, p) = w · ReLU(W concat(e, p) + b).

    It has no bias at the end: that would cancel in the bound.

    Args:
        hidden: h, the width of e and of p.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.first = nn.Linear(2 * hidden, hidden)
        self.last = nn.Linear(hidden, 1, bias=False)

    def forward(self, e: Tensor, p: Tensor) -> Tensor:
        """Compute T of each pair.

        Args:
            e: First members of the pairs, ``[B, h]``.
            p: Second members of the pairs, ``[B, h]``.

        Returns:
            ``[B]``.
        """
        return self.last(torch.relu(self.first(torch.cat([e, p], dim=1))))[:, 0]

    def adam(self, lr: float, weight_decay: float) -> Adam:
        """Return a fresh Adam for :func:`train_statistics_network`.

        Args:
            lr: Learning rate.
            weight_decay: Weight decay.
        """
        adam = Adam(self.parameters(), lr, ADAM_BETAS, ADAM_EPS, weight_decay)
        for weights in self.parameters():  # as Adam makes it in its first step
            adam.state[weights] = {
                "step": torch.tensor(0.0),
                "exp_avg": torch.zeros_like(weights),
                "exp_avg_sq": torch.zeros_like(weights),
            }
        return adam


def donsker_varadhan(joint: Tensor, shuffled: Tensor) -> Tensor:
    """Î = mean_i T(e_i, p_i) − log mean_i exp T(e_π(i), p_i), a lower bound of the information.

    Args:
        joint: T of the pairs, ``[B]``.
        shuffled: T of the pairs whose first members are permuted by π, ``[B]``.

    Returns:
        A scalar.
    """
    return joint.mean() - (torch.logsumexp(shuffled, dim=0) - math.log(len(shuffled)))


def train_statistics_network(
    network: StatisticsNetwork, adam: Adam, e: Tensor, p: Tensor, orders: Tensor
) -> Tensor:
    """Raise Î over T, one Adam step per permutation in ``orders`` [I, B]; Î before each, [I].

    e and p are [B, h] and get no gradient.
    """
    e, p = e.detach(), p.detach()
    estimates = []
    with torch.enable_grad():
        for order in orders:
            estimate = donsker_varadhan(network(e, p), network(e[order], p))
            adam.zero_grad(set_to_none=True)
            (-estimate).backward()
            adam.step()
            estimates.append(estimate.detach())
    adam.zero_grad(set_to_none=True)
    return torch.stack(estimates) if estimates else e.new_zeros(0)
