"""The layers of PNA in one op: compiled form, in-degrees, edge attributes and gradients.

That the plain form is PNA is tested against PyG, in ``tests/models/test_pna.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import AGGREGATORS, Aggregator, Draws, pna_layers
from gsat.ops.numba import parallel
from gsat.ops.numba import pna_layers as pna_layers_numba
from reference import random_graphs

H = 8
DRAWS = [Draws(3, "layer", number) for number in range(2)]
EDGES = ["none", "constant", "each"]


def op(
    batch: GraphBatch,
    weighted: bool,
    edges: str,
    kinds: Sequence[Aggregator] = AGGREGATORS,
    draws: Sequence[Draws] | None = DRAWS,
    training: bool = True,
) -> Callable[..., Tensor]:
    """Two layers as a function of their tensors: x, weight, edge attribute, the layers' own."""

    def run(x: Tensor, *tensors: Tensor) -> Tensor:
        rest = list(tensors)
        weight = rest.pop(0) if weighted else None
        edge = None if edges == "none" else rest.pop(0)
        layers = []
        while rest:
            w, bias, scale, shift, *rest = rest
            linear, norm = nn.Linear(1, 1), nn.BatchNorm1d(H).to(x.dtype).train(training)
            assert norm.running_mean is not None
            norm.running_mean.fill_(0.3)
            for module, own in ((linear, (w, bias)), (norm, (scale, shift))):
                for name, tensor in zip(("weight", "bias"), own, strict=True):
                    delattr(module, name)
                    setattr(module, name, tensor)
            layers.append((linear, norm))
        return pna_layers(x, batch, weight, edge, layers, kinds, None, 0.3, draws)

    return run


def inputs(
    batch: GraphBatch,
    weighted: bool,
    edges: str,
    normal: Callable[..., Tensor],
    kinds: Sequence[Aggregator] = AGGREGATORS,
) -> list[Tensor]:
    made = [normal(1, batch.num_nodes, H)]
    if weighted:
        made.append(normal(2, batch.num_edges).sigmoid())
    if edges != "none":
        made.append(normal(3, 1 if edges == "constant" else batch.num_edges, H))
    columns = (2 if edges == "none" else 3) * len(kinds) * H
    for layer in range(2):
        made += [normal(10 + layer, H, columns) / columns**0.5, normal(20 + layer, H)]
        made += [normal(30 + layer, H) + 1, normal(40 + layer, H)]
    return made


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("weighted", [True, False])
def test_the_compiled_form_is_as_exact_as_the_plain_one(
    weighted: bool,
    edges: str,
    training: bool,
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    agree: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = inputs(mixed, weighted, edges, normal)
    if training:  # the batch norm subtracts the bias again: no form has a gradient worth comparing
        run, names = op(mixed, weighted, edges), range(len(given))
        biases = [len(given) - 7, len(given) - 3]
        kept = [i for i in names if i not in biases]

        def without_biases(*tensors: Tensor) -> Tensor:
            whole = [t.to(tensors[0].dtype) for t in given]
            for i, tensor in zip(kept, tensors, strict=True):
                whole[i] = tensor
            return run(*whole)

        agree(without_biases, *(given[i] for i in kept))
    else:
        agree(op(mixed, weighted, edges, draws=None, training=False), *given)


@pytest.mark.parametrize("kinds", [("min",), ("std",), ("sum", "max"), ("mean", "std", "min")])
@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("weighted", [True, False])
def test_any_aggregators_in_any_order(
    kinds: tuple[Aggregator, ...],
    edges: str,
    weighted: bool,
    mixed: GraphBatch,
    normal: Callable[..., Tensor],
    agree: Callable[..., None],
) -> None:
    run = op(mixed, weighted, edges, kinds, training=False)
    agree(run, *inputs(mixed, weighted, edges, normal, kinds))


@pytest.mark.parametrize("edges", EDGES)
def test_awkward_batches(
    edges: str, batch: GraphBatch, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    """One node, no edge, no graph."""
    if edges == "each" and batch.num_edges == 0:
        edges = "constant"  # as a model has it then
    agree(op(batch, True, edges, training=False), *inputs(batch, True, edges, normal))


def stars(degrees: Sequence[int], repeat: int = 1) -> GraphBatch:
    """Nodes with these in-degrees, in one graph each."""
    graphs = []
    for degree in list(degrees) * repeat:
        leaves = torch.arange(1, degree + 1)
        edges = torch.stack([leaves, torch.zeros_like(leaves)])
        graphs.append(Data(x=torch.ones(degree + 1, 1), edge_index=edges))
    return from_pyg(graphs).batch()


@pytest.mark.parametrize("degree", range(6))
@pytest.mark.parametrize("edges", EDGES)
def test_every_in_degree(
    degree: int, edges: str, normal: Callable[..., Tensor], agree: Callable[..., None]
) -> None:
    batch = stars([degree, 1, degree])
    agree(op(batch, True, edges, training=False), *inputs(batch, True, edges, normal))


@pytest.mark.parametrize("degree", [2, 3])
def test_ties_share_the_gradient(degree: int, agree: Callable[..., None]) -> None:
    """Equal messages are equally the smallest and the largest."""
    batch = stars([degree], repeat=8)
    generator = torch.Generator().manual_seed(0)

    def normal(_: int, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    given = inputs(batch, True, "none", normal)
    given[0] = given[0][:1].expand(batch.num_nodes, -1).contiguous()
    given[1] = torch.full_like(given[1], 0.3)
    agree(op(batch, True, "none", ("min", "max", "sum"), training=False),
          *given[:2], *(t[:, : 2 * 3 * H] if t.dim() == 2 else t for t in given[2:]))  # fmt: skip


@pytest.mark.parametrize("edges", EDGES)
def test_finite_differences(
    edges: str, small: GraphBatch, normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSAT_OPS", "torch")
    given = [t.double().requires_grad_() for t in inputs(small, True, edges, normal)]
    assert torch.autograd.gradcheck(op(small, True, edges, training=False), given, fast_mode=True)


@pytest.mark.parametrize("edges", EDGES)
def test_threads_do_not_matter(
    edges: str,
    normal: Callable[..., Tensor],
    measured: Callable[..., list[Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = from_pyg(random_graphs(5, 300)).batch()
    given = inputs(batch, True, edges, normal)
    found = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(parallel, "_kernel_threads", [threads])
        run = op(batch, True, edges, training=False)
        found.append(measured(run, *given))
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_more_rows_than_go_through_the_steps_together(
    normal: Callable[..., Tensor], agree: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pna_layers_numba, "_CHUNK_NUMBERS", 1)  # 64 rows at a time
    batch = from_pyg(random_graphs(5, 200)).batch()
    agree(op(batch, True, "none", training=False), *inputs(batch, True, "none", normal))


def test_nodes_are_grouped_by_in_degree_within_blocks_of_graphs() -> None:
    batch = from_pyg(random_graphs(5, 300)).batch()
    plan = pna_layers_numba._plan(batch, True, None, AGGREGATORS, H)
    degree = batch.dst_ptr.diff().numpy()
    assert sorted(plan.order) == list(range(batch.num_nodes))
    for b in range(len(plan.ptr) - 1):
        own = plan.order[plan.ptr[b] : plan.ptr[b + 1]]
        assert own.min() == plan.ptr[b]
        assert own.max() == plan.ptr[b + 1] - 1
        for kind in range(4):
            rows = plan.order[plan.bounds[b, kind] : plan.bounds[b, kind + 1]]
            assert (np.minimum(degree[rows], 3) == kind).all()
    # One block of columns for one edge, three for two; source and destination, and the tail.
    assert plan.widths.tolist() == [16, 2 * H + 16, 6 * H + 16, 10 * H + 16]
    unweighted = pna_layers_numba._plan(batch, False, None, AGGREGATORS, H)
    assert unweighted.widths.tolist() == [16, 2 * H + 16, 4 * H + 16, 7 * H + 16]


def test_running_statistics_are_those_of_torch(
    mixed: GraphBatch, normal: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(2 * 5 * H, H)
    found = []
    for engine in ("numba", "torch"):
        monkeypatch.setenv("GSAT_OPS", engine)
        norm = nn.BatchNorm1d(H)
        pna_layers(normal(1, mixed.num_nodes, H), mixed, None, None, [(linear, norm)], AGGREGATORS)
        found.append((norm.running_mean, norm.running_var, norm.num_batches_tracked))
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain)
