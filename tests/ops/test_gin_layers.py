"""Layers of GIN in one op: two rows, and evaluation without gradients."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch_geometric.data import Data

from gsat.graphs import GraphBatch, from_pyg
from gsat.ops import EdgeTerm, ScalarTerm, gin_layers
from gsat.ops.numba import gin_layers as gin_layers_numba
from gsat.ops.numba import matmul
from op_cases import H, edge_terms, gin, normal, with_gradients

KINDS = ("plain", "scalar", "dense")


@pytest.mark.parametrize("kind", KINDS)
def test_two_rows(kind: str) -> None:
    """The gradient through the norm of two rows is a difference of nearly equal numbers, for which
    float32 has few digits (torch sums in float64 there)."""
    edge = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    batch, case = from_pyg([edge]).batch(), gin(kind)
    inputs, run = case.inputs(batch, H), partial(case.run, batch)
    exact = with_gradients(run, *(t.double() for t in inputs))
    for ours, truth in zip(with_gradients(run, *inputs), exact, strict=True):
        torch.testing.assert_close(ours.double(), truth, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_without_gradients_it_is_the_same_in_one_pass(
    kind: str, batch: GraphBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    inner, outer, norm = nn.Linear(H, H), nn.Linear(H, H), nn.BatchNorm1d(H).eval()
    norm.running_mean.copy_(normal(20, H))
    norm.running_var.copy_(normal(21, H).square())
    x, weight = normal(1, batch.num_nodes, H), normal(2, batch.num_edges).sigmoid()
    terms = edge_terms(kind, batch, H)
    term: EdgeTerm = ScalarTerm(*terms) if len(terms) == 3 else terms[0] if terms else None
    run = partial(gin_layers, x, batch, weight, [term], [(inner, norm, outer)], 0.3)
    with_gradients, calls = run(), []
    kernel = matmul.run_over_blocks
    monkeypatch.setattr(
        gin_layers_numba, "run_over_blocks", lambda *args: calls.append(1) or kernel(*args)
    )
    with torch.no_grad():
        value = run()
    assert len(calls) == (1 if matmul.sgemm_address() else 0)
    torch.testing.assert_close(value, with_gradients, rtol=1e-4, atol=1e-4)
