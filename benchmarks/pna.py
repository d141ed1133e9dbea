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

    By in-degree: a node without an in-edge needs no product; one with a single in-edge one block of
    h columns per part of the message, with two three, with more as many as there are aggregators.
    Without attention, messages from the node itself are all equal: one block, or two of more than
    two in-edges. A constant edge attribute is a vector, except for std under attention.
    """
    pna = model.backbone
    assert isinstance(pna, PNA)
    h, count = pna.hidden, len(pna.aggregators)
    nodes = batch.dst_ptr.diff().clamp(max=3).bincount(minlength=4).tolist()
    messages = [0, 1, min(3, count), count]
    attribute = batch.edge_attr
    edges = pna.edge_encoder is not None and attribute is not None
    constant = edges and bool((attribute == attribute[:1]).all())
    centre = {"first run": [0, 1, 1, 1 + ("sum" in pna.aggregators)], "second run": messages}
    spread = {"first run": [0, 0, 0, 0], "second run": [0, 0, 1, 1]}
    out = []
    for run in ("first run", "second run"):
        inputs = pna.encoder.in_features
        out.append(Product(f"{run}: encoder", batch.num_nodes, inputs, h, input_grad=False))
        parts = [messages, centre[run]]
        if edges:
            parts.append(spread[run] if constant else messages)
        for i in range(len(pna.layers)):
            for kind in range(1, 4):
                blocks = sum(part[kind] for part in parts)
                name = f"{run}: layer {i}, in-degree {'more' if kind == 3 else kind}"
                out.append(Product(name, nodes[kind], blocks * h, h))
    head = [m for m in pna.head if hasattr(m, "in_features")]
    out += [Product("head", batch.num_graphs, m.in_features, m.out_features) for m in head]
    out = [product for product in out if product.m > 0]
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
        with exclusive_threads():  # as a training does
            made.method.step(batch, Context("train", 0, Draws(0, next(counter))))

    def least() -> None:
        with exclusive_threads():  # torch has one
            floor()

    timings = side_by_side([step, least], repeats=5)
    return floor_row(dataset, threads, *timings, floor.flops)
