"""The meaning of each op, in both forms: against PyG, torch or plain Python."""

from __future__ import annotations

import copy
from typing import Literal

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GINConv, global_add_pool, global_mean_pool
from torch_geometric.nn.aggr import MultiAggregation
from torch_geometric.nn.norm import InstanceNorm

from gsat.graphs import GraphBatch
from gsat.ops import (
    AGGREGATORS,
    Draws,
    add_dropout,
    aggregate,
    batch_norm_relu,
    bernoulli_kl,
    concrete,
    gin_layers,
    multi_aggregate_edges,
    pool,
    scalar_term,
    segment_topk_mask,
)
from op_cases import (
    CASES,
    DRAWS,
    NORMALISE,
    check,
    edge_terms,
    normal,
    normalise_inputs,
    run_normalise,
    with_gradients,
)

How = Literal["sum", "mean"]
ROWS = torch.arange(700) + (5 << 32)


# -- segments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["sum", "mean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pool_is_pygs(how: How, dtype: torch.dtype, mixed: GraphBatch) -> None:
    x = normal(1, mixed.num_nodes, 5).to(dtype)
    theirs = {"sum": global_add_pool, "mean": global_mean_pool}[how]
    pooled = pool(x, mixed.node_ptr, how)
    torch.testing.assert_close(pooled, theirs(x, mixed.node_graph, mixed.num_graphs))
    empty = mixed.node_ptr.diff() == 0
    assert empty.any()
    assert (pooled[empty] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("values", [2, 5, 10**6])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_topk_is_a_stable_sort_of_each_segment(
    engine: str, dtype: torch.dtype, values: int, share: float
) -> None:
    lengths = torch.tensor([3, 0, 1, 6, 0, 40, 7, 200, 0])
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    draw = torch.Generator().manual_seed(values)
    scores = torch.randint(values, (int(ptr[-1]),), generator=draw).to(dtype) - values / 2
    scores[ptr[3] : ptr[4]] = 0.0  # equal scores only
    count = (share * lengths).long()
    expected = [False] * len(scores)
    for first, last, k in zip(ptr[:-1].tolist(), ptr[1:].tolist(), count.tolist(), strict=True):
        for i in sorted(range(first, last), key=lambda i: -float(scores[i]))[:k]:
            expected[i] = True
    top = segment_topk_mask(scores.clone().requires_grad_(), ptr, count)
    assert top.dtype == torch.bool
    assert top.tolist() == expected


def test_topk_of_no_segments(engine: str) -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert segment_topk_mask(torch.zeros(0), torch.zeros(1, dtype=torch.long), none).shape == (0,)


# -- stochastic attention ----------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 700])
@pytest.mark.parametrize("number", [0.1, 0.5, 0.7, 4.0])
def test_samples_and_information_at_any_temperature_and_prior(count: int, number: float) -> None:
    logits, rows = 3 * normal(1, count), ROWS[:count]
    check(lambda logits: concrete(logits, rows, DRAWS, number), logits)
    if number < 1:
        check(lambda alpha: bernoulli_kl(alpha, number), logits.sigmoid())


def test_samples_and_information_are_finite_at_the_ends(engine: str) -> None:
    logits = torch.tensor([-1000.0, -100.0, 0.0, 100.0, 1000.0], requires_grad=True)
    alpha = concrete(logits, ROWS[:5], DRAWS, 0.1)
    assert alpha[[0, 1, 3, 4]].tolist() == [0.0, 0.0, 1.0, 1.0]
    loss = bernoulli_kl(alpha, 0.7)
    loss.backward()
    assert loss.isfinite()
    assert logits.grad.isfinite().all()


def test_information_takes_any_shape(engine: str) -> None:
    table = torch.rand(700, 3, generator=torch.Generator().manual_seed(0))
    wide, turned, flat = (t.clone().requires_grad_() for t in (table, table.T, table.flatten()))
    for t in (wide, turned.T, flat):
        bernoulli_kl(t, 0.7).backward()
    torch.testing.assert_close(wide.grad, turned.grad.T)
    torch.testing.assert_close(wide.grad.flatten(), flat.grad)


# -- activations and normalisation -------------------------------------------------------------


@pytest.mark.parametrize("kind", NORMALISE)
@pytest.mark.parametrize("draws", [None, DRAWS])
@pytest.mark.parametrize("drop", [0.3, 0.9])
def test_normalisation_is_that_of_pyg_or_torch_then_relu_then_dropout(
    engine: str, drop: float, draws: Draws | None, kind: str, mixed: GraphBatch
) -> None:
    given = normalise_inputs(kind, mixed, 8)
    on_edges = kind in ("edges", "gather")
    graph = mixed.edge_graph if on_edges else mixed.node_graph
    z = given[0][mixed.src] + given[1][mixed.dst] if kind == "gather" else sum(given)
    if kind == "rows":
        z = nn.LayerNorm(8, elementwise_affine=False)(z)
    elif kind not in ("relu", "bias"):
        z = InstanceNorm(8)(z, graph, batch_size=mixed.num_graphs)
    expected = torch.relu(z)
    if draws:
        kept = draws.keep(mixed.edge_id if on_edges else mixed.node_id, 8, drop)
        expected = expected * kept / (1 - drop)
    value = run_normalise(kind, drop, draws, mixed, *given)
    torch.testing.assert_close(value, expected, rtol=0, atol=2e-4)


def test_a_kept_zero_still_has_a_gradient_after_add_dropout(engine: str) -> None:
    """x + z may be exactly 0, after a dropout before and a ReLU."""
    x, z, names = torch.zeros(500, 20, requires_grad=True), torch.zeros(500, 20), torch.arange(500)
    out = add_dropout(x, z, names, 0.25, DRAWS)
    assert not out.any()
    (grad,) = torch.autograd.grad(out.sum(), x)
    kept = DRAWS.keep(names, 20, 0.25)
    torch.testing.assert_close(grad, kept / 0.75)
    assert kept.float().mean() == pytest.approx(0.75, abs=0.02)


def make_norm(h: int, momentum: float | None = 0.1) -> nn.BatchNorm1d:
    norm = nn.BatchNorm1d(h, momentum=momentum)
    norm.weight.data, norm.bias.data = normal(1, h), normal(2, h)
    norm.running_mean.copy_(normal(3, h))
    norm.running_var.copy_(normal(4, h).abs() + 0.5)
    return norm


@pytest.mark.parametrize("rows", [2, 7, 256, 700])
@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_is_torchs(
    engine: str, training: bool, momentum: float | None, rows: int
) -> None:
    """Values, the gradient of the bias in evaluation, and running statistics."""
    ours = make_norm(5, momentum).train(training)
    theirs = copy.deepcopy(ours)
    z, bias = normal(1, rows, 5) + 3, normal(2, 5).requires_grad_()
    for step in range(3):
        value, expected = batch_norm_relu(z + step, bias, ours), theirs(z + step + bias).relu()
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-5, atol=1e-5)
    assert ours.num_batches_tracked == theirs.num_batches_tracked == (3 if training else 0)
    if not training:
        (mine,), (other,) = (torch.autograd.grad(v.sum(), bias) for v in (value, expected))
        torch.testing.assert_close(mine, other)


def test_one_row_cannot_be_batch_normalised() -> None:
    with pytest.raises(ValueError, match="more than 1 value"):
        batch_norm_relu(torch.ones(1, 4), torch.zeros(4), make_norm(4))
    for rows in (0, 1):
        z = torch.ones(rows, 4)
        assert batch_norm_relu(z, torch.zeros(4), make_norm(4).eval()).shape == (rows, 4)


# -- messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["aggregate", "messages"])
@pytest.mark.parametrize("kind", ["plain", "scalar", "dense"])
def test_aggregate_is_the_sum_over_incoming_edges(
    engine: str, kind: str, name: str, mixed: GraphBatch
) -> None:
    case = CASES[f"{name} {kind}"]
    inputs = case.inputs(mixed, 5)
    x, weight, *term = (t.double().numpy() for t in inputs)
    expected = x.copy() if name == "aggregate" else np.zeros_like(x)
    for e, (u, v) in enumerate(mixed.edge_index.T.tolist()):
        message = x[u]
        if kind == "scalar":
            message = np.maximum(message + term[0][e] * term[1] + term[2], 0)
        elif kind == "dense":
            message = np.maximum(message + term[0][e], 0)
        expected[v] += weight[e] * message
    np.testing.assert_allclose(case.run(mixed, *inputs).numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["plain", "dense"])
def test_no_weight_means_all_ones(engine: str, kind: str, mixed: GraphBatch) -> None:
    x, ones = normal(1, mixed.num_nodes, 4), torch.ones(mixed.num_edges)
    term = edge_terms(kind, mixed, 4)
    none, given = (
        with_gradients(lambda x, *term, w=w: aggregate(x, mixed, w, *term), x, *term)
        for w in (None, ones)
    )
    assert all(torch.equal(a, b) for a, b in zip(none, given, strict=True))
    e = normal(1, mixed.num_edges, 4)
    none, given = (multi_aggregate_edges(e, mixed, w, AGGREGATORS) for w in (None, ones))
    assert torch.equal(none, given)


def test_two_linear_layers_on_a_scalar_are_one_line(engine: str) -> None:
    torch.manual_seed(0)
    encoder, edge = nn.Linear(1, 6), nn.Linear(6, 6)
    parameters = [*encoder.parameters(), *edge.parameters()]
    attribute, along = normal(1, 20), normal(2, 20, 6)
    term = scalar_term(attribute, encoder, edge)
    ours = term.attribute[:, None] * term.slope + term.offset
    theirs = edge(encoder(attribute[:, None]))
    torch.testing.assert_close(ours, theirs)
    mine, others = (torch.autograd.grad(value, parameters, along) for value in (ours, theirs))
    for a, b in zip(mine, others, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("training", [True, False])
def test_a_layer_is_pygs_gin(engine: str, training: bool, mixed: GraphBatch) -> None:
    torch.manual_seed(0)
    inner, outer, norm = nn.Linear(8, 8), nn.Linear(8, 8), nn.BatchNorm1d(8)
    theirs = GINConv(nn.Sequential(inner, nn.BatchNorm1d(8), nn.ReLU(), outer))
    norm.train(training)
    theirs.train(training)
    x = normal(1, mixed.num_nodes, 8)
    ours = gin_layers(x, mixed, None, [None], [(inner, norm, outer)], 0.3, [DRAWS])
    expected = torch.relu(theirs(x, mixed.edge_index))
    expected = expected * DRAWS.keep(mixed.node_id, 8, 0.3) / 0.7
    torch.testing.assert_close(ours, expected, rtol=0, atol=2e-5)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(norm, name), getattr(theirs.nn[1], name))


def test_several_aggregations_are_pygs(engine: str, mixed: GraphBatch) -> None:
    e, weight = normal(1, mixed.num_edges, 5), normal(2, mixed.num_edges).sigmoid()
    messages = e * weight[:, None]
    pyg = MultiAggregation(list(AGGREGATORS))(messages, mixed.dst, dim_size=mixed.num_nodes)
    ours = multi_aggregate_edges(e, mixed, weight, AGGREGATORS)
    busy = mixed.dst_ptr.diff() > 1  # on fewer messages PyG's std is 0, the published one √1e-5
    torch.testing.assert_close(ours.flatten(1)[busy], pyg[busy], rtol=1e-4, atol=4e-3)
    lonely = mixed.dst_ptr.diff() == 0
    assert lonely.any()
    for name, values in zip(AGGREGATORS, ours.unbind(1), strict=True):
        expected = 1e-5**0.5 if name == "std" else 0.0
        torch.testing.assert_close(values[lonely], torch.full_like(values[lonely], expected))
    some = multi_aggregate_edges(e, mixed, weight, ("sum", "min"))
    assert torch.equal(some, ours[:, [AGGREGATORS.index("sum"), AGGREGATORS.index("min")]])


@pytest.mark.parametrize("kind", ["min", "std"])
def test_ties_share_the_gradient(kind: str, mixed: GraphBatch) -> None:
    """Equal messages are equally the smallest and the largest; one aggregator is enough."""
    e = torch.arange(mixed.num_edges).remainder(2).float()[:, None].expand(-1, 3).contiguous()
    ones = torch.ones(mixed.num_edges)
    check(lambda e, w: multi_aggregate_edges(e, mixed, w, ("min", "max")), e, ones)
    given = normal(1, mixed.num_edges, 8), normal(2, mixed.num_edges).sigmoid()
    check(lambda e, w: multi_aggregate_edges(e, mixed, w, (kind,)), *given)
