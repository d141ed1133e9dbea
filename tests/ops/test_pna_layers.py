"""The layers of PNA in one op: aggregators, in-degrees, and how nodes are grouped.

That the plain form is PNA is tested against PyG, in ``tests/models/test_pna.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import AGGREGATORS, Aggregator, pna_layers
from gsat.ops.numba import pna_layers as pna_layers_numba
from op_cases import H, check, normal, pna
from reference import random_graphs

EDGES = ("none", "constant", "each")


@pytest.mark.parametrize("kinds", [("min",), ("std",), ("sum", "max"), ("mean", "std", "min")])
@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize("weighted", [True, False])
def test_any_aggregators_in_any_order(
    kinds: tuple[Aggregator, ...], edges: str, weighted: bool, mixed: GraphBatch
) -> None:
    check(*pna(weighted, edges, kinds=kinds).on(mixed))


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
def test_every_in_degree(degree: int, edges: str) -> None:
    check(*pna(True, edges).on(stars([degree, 1, degree])))


@pytest.mark.parametrize("degree", [2, 3])
def test_ties_share_the_gradient(degree: int) -> None:
    """Equal messages are equally the smallest and the largest."""
    batch, case = stars([degree] * 8), pna(True, "none", kinds=("min", "max", "sum"))
    x, weight, *rest = case.inputs(batch, H)
    x = x[:1].expand(batch.num_nodes, -1).contiguous()
    check(partial(case.run, batch), x, torch.full_like(weight, 0.3), *rest)


def test_more_rows_than_go_through_the_steps_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pna_layers_numba, "_CHUNK_NUMBERS", 1)  # 64 rows at a time
    check(*pna(True, "none").on(from_pyg(random_graphs(5, 200)).batch()))


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
