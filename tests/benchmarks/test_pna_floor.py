"""The floor of a PNA step: the products that its kernels make, and those that torch counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from benchmarks.pna import products
from benchmarks.steps import extractor_products
from torch.utils.flop_counter import FlopCounterMode

from gsat.graphs import GraphBatch, from_pyg
from gsat.gsat import GSAT
from gsat.models import PNA
from gsat.ops import Aggregator, Draws
from gsat.ops.numba import matmul, pna_layers
from gsat.ops.numba.pna_rows import TAIL
from gsat.tasks import Task
from reference import random_graphs


def make(edges: str, aggregators: tuple[Aggregator, ...]) -> tuple[GSAT, GraphBatch]:
    graphs = random_graphs(1, 60, edge_features=0 if edges == "none" else 1)
    for graph in graphs:
        if edges == "constant":
            graph.edge_attr.fill_(1.0)
    features = 0 if edges == "none" else 1
    pna = PNA(4, Task("binary"), edge_features=features, aggregators=aggregators)
    return GSAT(pna), from_pyg(graphs).batch()


@pytest.mark.skipif(not matmul.sgemm_address(), reason="torch's BLAS is not MKL")
@pytest.mark.parametrize("edges", ["none", "constant", "each"])
@pytest.mark.parametrize("aggregators", [("mean", "min", "max", "std", "sum"), ("mean", "std")])
def test_the_products_of_the_layers_are_those_of_the_kernels(
    edges: str, aggregators: tuple[Aggregator, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = make(edges, aggregators)
    plans: list[Any] = []
    plan_of = pna_layers._Pass
    monkeypatch.setattr(
        pna_layers, "_Pass", lambda *args: plans.append(plan_of(*args)) or plans[-1]
    )
    model(batch, Draws(0))
    layers, h = len(model.backbone.layers), model.backbone.hidden
    made = 0
    for plan in plans:
        rows = torch.from_numpy(plan.bounds).diff(dim=1).sum(0)
        made += layers * int((rows * torch.from_numpy(plan.widths - TAIL)).sum()) * h
    listed = [p for p in products(model, batch) if "layer" in p.name]
    assert len(plans) == 2
    # With two aggregators, two in-edges need two blocks; the kernels use three.
    exact = len(aggregators) == 5
    total = sum(p.m * p.k * p.n for p in listed)
    assert total == made if exact else 0.6 * made <= total <= made


def test_the_products_of_the_extractor_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "sgemm_address", lambda: 0)  # torch does not see those in kernels
    model, batch = make("none", ("mean", "std"))
    h = torch.randn(batch.num_nodes, model.backbone.hidden, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        model.extractor(h, batch, Draws(0)).sum().backward()
    listed = sum(product.flops for product in extractor_products(model.extractor, batch))
    # Products with only a few rows or columns are not listed.
    assert listed <= counter.get_total_flops() <= 1.02 * listed
