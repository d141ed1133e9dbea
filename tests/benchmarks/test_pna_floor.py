"""The floor of a PNA step is what torch itself counts in it."""

from __future__ import annotations

import pytest
from benchmarks.pna import products
from torch.utils.flop_counter import FlopCounterMode

from gsat.graphs import from_pyg
from gsat.gsat import GSAT
from gsat.models import PNA
from gsat.ops import Aggregator, Draws
from gsat.ops.numba import matmul
from gsat.tasks import Task
from reference import random_graphs


@pytest.mark.parametrize("edge_features", [0, 1])
@pytest.mark.parametrize("aggregators", [("mean", "min", "max", "std", "sum"), ("mean", "std")])
def test_the_products_of_a_step_are_all_there(
    edge_features: int, aggregators: tuple[Aggregator, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matmul, "sgemm_address", lambda: 0)  # torch does not see those in kernels
    graphs = random_graphs(1, 60, edge_features=edge_features)
    for graph in graphs:
        if edge_features:
            graph.edge_attr.fill_(1.0)
    batch = from_pyg(graphs).batch()
    pna = PNA(4, Task("binary"), edge_features=edge_features, aggregators=aggregators)
    model = GSAT(pna)
    with FlopCounterMode(display=False) as counter:
        model(batch, Draws(0)).logits.sum().backward()
    listed = sum(2 * p.m * p.k * p.n * (3 if p.input_grad else 2) for p in products(model, batch))
    # What is not listed are products with a few rows or columns.
    assert listed <= counter.get_total_flops() <= 1.02 * listed
