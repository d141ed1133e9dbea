"""A training step of GSAT on PNA against its floor."""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.common import case, side_by_side, use_threads
from benchmarks.steps import Floor, Product, extractor_products, floor_row
from gsat.graphs import GraphBatch
from gsat.methods import Context
from gsat.models import PNA
from gsat.ops import Draws, exclusive_threads, keep_freed_memory


def products(model: Any, batch: GraphBatch) -> list[Product]:
    """List the matrix products of one GSAT step on PNA without scalers, after all exact algebra.

    Where the edge attribute is constant, its part is a vector, except for std under attention.
    """
    pna = model.backbone
    assert isinstance(pna, PNA)
    n, h, blocks = batch.num_nodes, pna.hidden, len(pna.aggregators)
    edges = pna.edge_encoder is not None
    out = []
    for run, centre in (("first run", 1 + ("sum" in pna.aggregators)), ("second run", blocks)):
        out.append(Product(f"{run}: encoder", n, pna.encoder.in_features, h, input_grad=False))
        for i in range(len(pna.layers)):
            out.append(Product(f"{run}: layer {i} source", n, blocks * h, h))
            out.append(Product(f"{run}: layer {i} centre", n, centre * h, h))
            if edges and run == "second run":
                out.append(Product(f"{run}: layer {i} edge", n, h, h))
    head = [m for m in pna.head if hasattr(m, "in_features")]
    out += [Product("head", batch.num_graphs, m.in_features, m.out_features) for m in head]
    return out + extractor_products(model.extractor, batch)


def step_against_floor(dataset: str, threads: int) -> dict[str, Any] | None:
    """Measure a training step and its floor; see :func:`benchmarks.steps.floor_row`."""
    use_threads(threads)
    made = case(dataset, "pna")
    if made is None:
        return None
    store, size = made.data.train, made.recipe.training.batch_size
    order = Draws(0).permutation(len(store))
    starts = itertools.cycle(range(0, len(order) - size + 1, size))
    keep_freed_memory()  # as a training does
    counter = itertools.count()
    made.model.train()
    floor = Floor(products(made.model, store.batch(order[:size])))

    def step() -> None:
        start = next(starts)
        batch = store.batch(order[start : start + size])
        made.method.step(batch, Context("train", 0, Draws(0, next(counter))))

    def least() -> None:
        with exclusive_threads():  # torch has one
            floor()

    timings = side_by_side([step, least], repeats=5)
    return floor_row(dataset, threads, *timings, floor.flops)
