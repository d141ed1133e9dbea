"""The expensive operations, each defined in plain torch for any device and dtype.

The decorator :func:`~gsat.ops.dispatch.op` names the compiled form of an op. It runs wherever it
takes the tensors, and is tested against the definition, values and gradients.

Notation: a batch has B graphs, N nodes and E directed edges u → v; h, d, k, c and m are widths.
Arguments that many ops have in common:

* ``ptr`` [B + 1]: segment i holds the rows ``ptr[i]`` to ``ptr[i + 1] - 1``;
* ``weight`` [E]: factor of the message on each edge; None for all ones;
* ``drop``: probability of dropping an entry; ``draws``: source of the randomness, None for no
  dropout;
* ``row_id`` [M]: an id of each row that is the same in every batch (``batch.node_id`` or
  ``batch.edge_id``), which keys its random draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from gsat.graphs.batch import GraphBatch
from gsat.ops.dispatch import compilable, op
from gsat.ops.random import Draws

# Inside both logarithms of the KL, and added to 1 − r but not to r, as in the published code: value
# and gradient stay finite at α = 0 and 1.
KL_EPS = 1e-6
NORM_EPS = 1e-5  # added to variances of the per-graph normalisation, as in PyG's InstanceNorm
STD_EPS = 1e-5  # added to the variance of messages, as in PyG's StdAggregation
ADAM_BETAS, ADAM_EPS = (0.9, 0.999), 1e-8


# -- 1. segments ---------------------------------------------------------------------------------


def pool(x: Tensor, ptr: Tensor, how: Literal["sum", "mean"] = "sum") -> Tensor:
    """Sum or average the rows of each segment, [M, h] to [B, h]; zeros for an empty segment."""
    total = segment_sum(x, ptr)
    if how == "sum":
        return total
    return total / ptr.diff().clamp(min=1).to(x.dtype)[:, None]


@op("segments.SegmentSum")
def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """Sum the rows of each segment: [M, h] to [B, h]; zero for an empty segment."""
    segment = _segment_of_rows(ptr)
    return x.new_zeros(len(ptr) - 1, x.shape[1]).index_add(0, segment, x)


@op("segments.segment_topk_mask")
def segment_topk_mask(scores: Tensor, ptr: Tensor, k: Tensor) -> Tensor:
    """Mark the ``k[i]`` highest scores of each segment i, [M] bool; ties go to the first rows."""
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


@op("concrete.Concrete")
def concrete(logits: Tensor, row_id: Tensor, draws: Draws, temperature: float = 1.0) -> Tensor:
    """Draw from the concrete (relaxed Bernoulli) distribution, for logits [M].

    α = sigmoid((logit + log u − log(1 − u)) / temperature),    u uniform in (0, 1)
    """
    u = draws.uniform(row_id).to(logits.dtype)
    return torch.sigmoid((logits + torch.log(u) - torch.log1p(-u)) / temperature)


@op("concrete.BernoulliKL", when=lambda alpha, r: alpha.numel() > 0)
def bernoulli_kl(alpha: Tensor, r: float) -> Tensor:
    """Compute the mean of KL(Bernoulli(α) ‖ Bernoulli(r)) over all entries; 0 for no entries.

    mean[α log(α / r + ε) + (1 − α) log((1 − α) / (1 − r + ε) + ε)]
    """
    if alpha.numel() == 0:
        return alpha.sum()
    keep = alpha * torch.log(alpha / r + KL_EPS)
    drop = (1 - alpha) * torch.log((1 - alpha) / (1 - r + KL_EPS) + KL_EPS)
    return (keep + drop).mean()


# -- 3. activations with dropout -----------------------------------------------------------------


@op(
    "normalise.ReLUDropout",
    when=lambda z, row_id, drop, draws, bias: draws is not None and drop > 0,
)
def relu_dropout(
    z: Tensor, row_id: Tensor, drop: float, draws: Draws | None, bias: Tensor | None = None
) -> Tensor:
    """Compute ``dropout(ReLU(z + bias))`` for z [M, d] and bias [d]."""
    return _dropout(torch.relu(z if bias is None else z + bias), row_id, drop, draws)


@op(
    "normalise.AddDropout",
    when=lambda x, z, row_id, drop, draws: draws is not None and drop > 0,
)
def add_dropout(x: Tensor, z: Tensor, row_id: Tensor, drop: float, draws: Draws | None) -> Tensor:
    """Compute ``dropout(x + z)``, a residual connection with dropout, for x and z [M, d]."""
    return _dropout(x + z, row_id, drop, draws)


def _dropout(y: Tensor, row_id: Tensor, drop: float, draws: Draws | None) -> Tensor:
    if draws is None or drop == 0.0:
        return y
    return y * draws.keep(row_id, y.shape[1], drop).to(y.dtype) * (1.0 / (1.0 - drop))


# -- 4. normalisation ----------------------------------------------------------------------------


@op("batch_norm.batch_norm_relu", when=lambda z, bias, norm: norm.training and len(z) >= 2)
def batch_norm_relu(z: Tensor, bias: Tensor, norm: nn.BatchNorm1d) -> Tensor:
    """Compute ``ReLU(norm(z + bias))`` for z [N, h], and update the norm's statistics in training.

    ``bias`` [h] is that of the linear layer that made ``z``.
    """
    if norm.training:
        return torch.relu(norm(z + bias))
    # With fixed statistics it is one scale and one shift per channel.
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    return torch.relu(torch.addcmul(norm.bias + (bias - norm.running_mean) * scale, z, scale))


@op("normalise.NormaliseReLUDropout")
def normalise_relu_dropout(
    z: Tensor, ptr: Tensor, row_id: Tensor, drop: float, draws: Draws | None
) -> Tensor:
    """Normalise each segment to mean 0 and variance 1 per channel, then apply ReLU and dropout.

        y = dropout(ReLU((z − mean_g) / √(var_g + ε)))

    Mean and (biased) variance are taken per segment g and channel of z [M, d], in training and
    evaluation alike: PyG's ``InstanceNorm`` without parameters. One row alone becomes zero.
    """
    segment = _segment_of_rows(ptr)
    count = ptr.diff().clamp(min=1).to(z.dtype)[:, None]
    zeros = z.new_zeros(len(count), z.shape[1])
    centred = z - (zeros.index_add(0, segment, z) / count)[segment]
    variance = zeros.index_add(0, segment, centred * centred) / count
    return relu_dropout(centred / (variance + NORM_EPS).sqrt()[segment], row_id, drop, draws)


@op("normalise.GatherNormaliseReLUDropout")
def gather_normalise_relu_dropout(
    a: Tensor, b: Tensor, batch: GraphBatch, drop: float, draws: Draws | None
) -> Tensor:
    """Apply :func:`normalise_relu_dropout` per graph to ``a[src] + b[dst]``, for a and b [N, d].

    This is the extractor's first layer: Linear(concat(h_u, h_v)) is two products on N rows and a
    sum per edge, instead of one product on E rows twice as wide. The compiled form never stores
    the sums.
    """
    z = a[batch.src] + b[batch.dst]
    return normalise_relu_dropout(z, batch.edge_ptr, batch.edge_id, drop, draws)


@op("normalise.RowNormaliseReLUDropout")
def row_normalise_relu_dropout(
    z: Tensor, row_id: Tensor, drop: float, draws: Draws | None
) -> Tensor:
    """Normalise each row (a layer norm without weights), then apply ReLU and dropout.

    y = dropout(ReLU((z − mean_i) / √(var_i + ε)))      over the channels of row i of z [M, d]
    """
    return relu_dropout(F.layer_norm(z, z.shape[1:], eps=NORM_EPS), row_id, drop, draws)


# -- 5. the extractor ----------------------------------------------------------------------------


@op("extractor.Extractor", fused=True)
def extractor(
    h: Tensor,
    batch: GraphBatch,
    first: Tensor,
    second: Tensor,
    last: Tensor,
    bias: Tensor,
    drop: float = 0.0,
    draws: Draws | None = None,
) -> Tensor:
    """Compute attention logits [E] or [N] from node embeddings h [N, k] by three linear layers.

        z₁ = W₁ concat(h_u, h_v) = W_src h_u + W_dst h_v per edge, or W₁ h_v per node
        z₂ = W₂ dropout(ReLU(norm(z₁)))
        logit = w₃ · dropout(ReLU(norm(z₂))) + b₃

    ``first`` is W₁, [c, 2k] for edges or [c, k] for nodes; ``second`` is W₂ [m, c], ``last`` w₃
    [1, m], ``bias`` b₃ [1]. The biases of the first two layers are left out: the normalisation per
    graph cancels them.
    """
    one, two = (draws.child(0), draws.child(1)) if draws else (None, None)
    if first.shape[1] > h.shape[1]:
        w_src, w_dst = first.split(h.shape[1], dim=1)
        ptr, row_id = batch.edge_ptr, batch.edge_id
        y = gather_normalise_relu_dropout(h @ w_src.T, h @ w_dst.T, batch, drop, one)  # [E, c]
    else:
        ptr, row_id = batch.node_ptr, batch.node_id
        y = normalise_relu_dropout(h @ first.T, ptr, row_id, drop, one)  # [N, c]
    y = normalise_relu_dropout(y @ second.T, ptr, row_id, drop, two)  # [E or N, m]
    return (y @ last.T + bias)[:, 0]


# -- 6. GIN --------------------------------------------------------------------------------------


class ScalarTerm(NamedTuple):
    """Edge term made of one number per edge: c_uv = attribute_uv · slope + offset."""

    attribute: Tensor  # [E]
    slope: Tensor  # [h]
    offset: Tensor  # [h]


EdgeTerm = ScalarTerm | Tensor | None  # c_uv: from a scalar attribute, any [E, h], or none


@op(
    "aggregate.scalar_term",
    when=lambda attribute, encoder, edge: compilable(encoder.weight, edge.weight),
)
def scalar_term(attribute: Tensor, encoder: nn.Linear, edge: nn.Linear) -> ScalarTerm:
    """Write ``edge(encoder(a))`` of a scalar edge attribute a [E] as ``a * slope + offset``.

    This is exact, and needs no product of size E × h × h. ``encoder`` has one input.
    """
    slope, offset = edge.weight @ encoder.weight[:, 0], edge.weight @ encoder.bias + edge.bias
    return ScalarTerm(attribute, slope, offset)


@op("aggregate.aggregate")
def aggregate(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    term: EdgeTerm = None,
    include_self: bool = False,
) -> Tensor:
    """Sum the weighted messages that arrive at each node, [N, h]; zero where no edge arrives.

        out_v = Σ_{u→v} w_uv · x_u                  (GIN, no edge term)
        out_v = Σ_{u→v} w_uv · ReLU(x_u + c_uv)     (GINE, edge term c)

    With ``include_self``, x is added.
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
) -> Tensor:
    """Compute one layer of GIN with the ReLU and the dropout that follow it, [N, h] to [N, d].

        s_v = x_v + Σ_{u→v} w_uv · m_uv (+ extra_v)      m as in :func:`aggregate`
        y = dropout(ReLU(ReLU(BatchNorm(s W₁ᵀ + b₁)) W₂ᵀ + b₂))

    ``inner`` holds W₁ and b₁, ``outer`` W₂ and b₂.
    """
    s = aggregate(x, batch, weight, term, include_self=True)
    if extra is not None:
        s = s + extra
    y = batch_norm_relu(s @ inner.weight.T, inner.bias, norm)
    return relu_dropout(y @ outer.weight.T, batch.node_id, drop, draws, outer.bias)


def _gin_fits(
    x: Tensor, batch: Any, weight: Any, terms: Any, layers: Any, drop: float, draws: Any
) -> bool:
    """The compiled form trains two rows or more, or evaluates without gradients."""
    training = {norm.training for _, norm, _ in layers}
    if not compilable(*terms, *(inner.weight for inner, _, _ in layers)):
        return False
    if training == {True}:
        return len(x) >= 2
    return training == {False} and draws is None and not torch.is_grad_enabled()


@op("gin_layers.gin_layers", fused=True, when=_gin_fits)
def gin_layers(
    x: Tensor,
    batch: GraphBatch,
    weight: Tensor | None,
    terms: Sequence[EdgeTerm],
    layers: Sequence[tuple[nn.Linear, nn.BatchNorm1d, nn.Linear]],
    drop: float = 0.0,
    draws: Sequence[Draws | None] | None = None,
) -> Tensor:
    """Compute layers of GIN (:func:`gin_layer`), each with its own edge term and draws.

    ``layers`` has the first linear layer, batch norm and second linear layer of each.
    """
    for number, (term, layer) in enumerate(zip(terms, layers, strict=True)):
        source = draws[number] if draws else None
        x = gin_layer(x, batch, weight, term, *layer, drop, source)
    return x


# -- 7. PNA --------------------------------------------------------------------------------------

Aggregator = Literal["mean", "min", "max", "std", "sum"]
AGGREGATORS: tuple[Aggregator, ...] = ("mean", "min", "max", "std", "sum")


@op("multi_aggregate.MultiAggregate")
def multi_aggregate_edges(
    e: Tensor, batch: GraphBatch, weight: Tensor | None, aggregators: Sequence[Aggregator]
) -> Tensor:
    """Aggregate messages m_uv = w_uv · e_uv from the edges into each node, [E, h] to [N, A, h].

    A is the number of aggregators, in the order of the result. Where no edge arrives, the result
    is 0, and √ε for std = √(ReLU(mean(m²) − mean(m)²) + ε).
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
) -> Tensor:
    """Compute one layer of PNA, [N, h] to [N, h], from given messages m [E, parts * h].

        x'_v = Dropout(x_v + ReLU(BatchNorm(W concat_a(aggregate_a w_uv · m_uv) + b)))

    The columns of W are ordered by scaler, part of the message, aggregator and channel. With
    ``scale`` [N, S, 1], S groups of them are multiplied with factors of each node and added.
    """
    h, scalers = x.shape[1], 1 if scale is None else scale.shape[1]
    blocks = linear.weight.view(h, scalers, -1, len(aggregators) * h).permute(2, 1, 0, 3)
    z = x.new_zeros(())
    for part, block in zip(messages.split(h, dim=1), blocks.flatten(1, 2), strict=True):
        aggregated = multi_aggregate_edges(part, batch, weight, aggregators)  # [N, A, h]
        z = z + aggregated.flatten(1) @ block.T
    if scale is not None:
        z = (z.unflatten(1, (scalers, h)) * scale).sum(1)
    y = batch_norm_relu(z, linear.bias, norm)
    return add_dropout(x, y, batch.node_id, drop, draws)


def _pna_fits(
    x: Tensor,
    batch: Any,
    weight: Any,
    edge: Any,
    layers: Any,
    aggregators: Any,
    scale: Any,
    *_: Any,
) -> bool:
    """The compiled form has no scalers, and trains two rows or more."""
    training = {norm.training for _, norm in layers}
    rows = len(x) >= 2 or True not in training
    fits = compilable(*(linear.weight for linear, _ in layers))
    return scale is None and len(training) == 1 and rows and fits


@op("pna_layers.pna_layers", fused=True, when=_pna_fits)
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
) -> Tensor:
    """Compute layers of PNA (:func:`pna_layer`) with messages m_uv = concat(x_u, x_v, e_uv).

    ``edge`` holds the attributes e, [E, h], or [1, h] where all are equal; None for none.
    """
    more = [] if edge is None else [edge.expand(batch.num_edges, -1)]
    for number, (linear, norm) in enumerate(layers):
        messages = torch.cat([x[batch.src], x[batch.dst], *more], dim=1)
        source = draws[number] if draws else None
        x = pna_layer(x, messages, batch, weight, linear, norm, aggregators, scale, drop, source)
    return x


# -- 8. mutual information -----------------------------------------------------------------------


class StatisticsNetwork(nn.Module):
    """The network T of the Donsker-Varadhan bound: T(e, p) = w · ReLU(W concat(e, p) + b).

    ``hidden`` is h, the width of e and of p, and by default that of the layer between. There is no
    bias at the end: it would cancel in the bound.
    """

    def __init__(self, hidden: int, width: int | None = None) -> None:
        super().__init__()
        self.first = nn.Linear(2 * hidden, width or hidden)
        self.last = nn.Linear(width or hidden, 1, bias=False)

    def forward(self, e: Tensor, p: Tensor) -> Tensor:
        """Compute T of each pair: e and p [B, h] to [B]."""
        return self.last(torch.relu(self.first(torch.cat([e, p], dim=1))))[:, 0]

    def adam(self, lr: float, weight_decay: float) -> Adam:
        """Return a fresh Adam for :func:`train_statistics_network`."""
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

    ``joint`` [B] holds T of the pairs, ``shuffled`` [B] T of the pairs permuted by π.
    """
    return joint.mean() - (torch.logsumexp(shuffled, dim=0) - math.log(len(shuffled)))


@op(
    "mutual_information.train_statistics_network",
    fused=True,
    when=lambda network, *_: compilable(network.first.weight),
)
def train_statistics_network(
    network: StatisticsNetwork, adam: Adam, e: Tensor, p: Tensor, orders: Tensor
) -> Tensor:
    """Train an estimator of the mutual information of pairs, one Adam step per permutation.

    The weights of the network and the state of ``adam`` (from ``network.adam()``) change in place;
    the pairs e and p [B, h] get no gradient. Each row of ``orders`` [I, B] permutes e. Returns the
    estimate before each step, [I].
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
