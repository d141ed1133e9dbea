"""The layers of PNA in one op: aggregators, in-degrees, and how nodes are grouped.

That the plain form is PNA is tested against PyG, in ``tests/models/test_pna.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import AGGREGATORS, Aggregator, pna_layers
from gsat.ops.numba import pna_layers as pna_layers_numba
from op_cases import Case, H, normal, pna
from reference import random_graphs

Agree = Callable[..., None]
EDGES = ("none", "constant", "each")


def check(case: Case, batch: GraphBatch, agree: Agree) -> None:
    agree(partial(case.run, batch), *case.inputs(batch, H))


@pytest.mark.parametrize("kinds", [("min",), ("std",), ("sum", "max"), ("mean", "std", "min")])
@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("weighted", [True, False])
def test_any_aggregators_in_any_order(
    kinds: tuple[Aggregator, ...], edges: str, weighted: bool, mixed: GraphBatch, agree: Agree
) -> None:
    check(pna(weighted, edges, kinds=kinds), mixed, agree)


def stars(degrees: Sequence[int]) -> GraphBatch:
    """Nodes with these in-degrees, in one graph each."""
    graphs = []
    for degree in degrees:
        leaves = torch.arange(1, degree + 1)
        edges = torch.stack([leaves, torch.zeros_like(leaves)])
        graphs.append(Data(x=torch.ones(degree + 1, 1), edge_index=edges))
    return from_pyg(graphs).batch()


@pytest.mark.parametrize("degree", range(6))
@pytest.mark.parametrize("edges", EDGES)
def test_every_in_degree(degree: int, edges: str, agree: Agree) -> None:
    check(pna(True, edges), stars([degree, 1, degree]), agree)


@pytest.mark.parametrize("degree", [2, 3])
def test_ties_share_the_gradient(degree: int, agree: Agree) -> None:
    """Equal messages are equally the smallest and the largest."""
    batch, case = stars([degree] * 8), pna(True, "none", kinds=("min", "max", "sum"))
    x, weight, *rest = case.inputs(batch, H)
    x = x[:1].expand(batch.num_nodes, -1).contiguous()
    agree(partial(case.run, batch), x, torch.full_like(weight, 0.3), *rest)


def test_more_rows_than_go_through_the_steps_together(
    agree: Agree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pna_layers_numba, "_CHUNK_NUMBERS", 1)  # 64 rows at a time
    check(pna(True, "none"), from_pyg(random_graphs(5, 200)).batch(), agree)


def test_nodes_are_grouped_by_in_degree_within_blocks_of_graphs() -> None:
    batch = from_pyg(random_graphs(5, 300)).batch()
    plan = pna_layers_numba._plan(batch, True, None, AGGREGATORS, H)
    degree = batch.dst_ptr.diff().numpy()
    assert sorted(plan.order) == list(range(batch.num_nodes))
    for b in range(len(plan.ptr) - 1):
        nodes = plan.order[plan.ptr[b] : plan.ptr[b + 1]]
        assert nodes.min() == plan.ptr[b]
        assert nodes.max() == plan.ptr[b + 1] - 1
        for kind in range(4):
            rows = plan.order[plan.bounds[b, kind] : plan.bounds[b, kind + 1]]
            assert (np.minimum(degree[rows], 3) == kind).all()
    # One block of columns for one edge, three for two; source and destination, and the tail.
    assert plan.widths.tolist() == [16, 2 * H + 16, 6 * H + 16, 10 * H + 16]
    unweighted = pna_layers_numba._plan(batch, False, None, AGGREGATORS, H)
    assert unweighted.widths.tolist() == [16, 2 * H + 16, 4 * H + 16, 7 * H + 16]


def test_running_statistics_are_those_of_torch(
    mixed: GraphBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    linear, norms = nn.Linear(2 * 5 * H, H), []
    for engine in ("numba", "torch"):
        monkeypatch.setenv("GSAT_OPS", engine)
        norms.append(nn.BatchNorm1d(H))
        layers = [(linear, norms[-1])]
        pna_layers(normal(1, mixed.num_nodes, H), mixed, None, None, layers, AGGREGATORS)
    for ours, plain in zip(*(norm.buffers() for norm in norms), strict=True):
        torch.testing.assert_close(ours, plain)
