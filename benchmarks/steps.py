"""A training step against its floor, an epoch against plain PyG, peak memory."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric.loader import DataLoader

from benchmarks.common import (
    ROUNDS,
    Case,
    Timing,
    apart,
    case,
    peak_memory,
    side_by_side,
    use_threads,
)
from benchmarks.plain_pyg import PlainGSAT, information
from gsat.graphs import GraphBatch
from gsat.methods import Context
from gsat.models import GIN
from gsat.ops import Draws, exclusive_threads, keep_freed_memory
from gsat.training.loop import Loop

STEPS = 10  # in one measurement
BLOCK = 512  # rows of a product that stay in the cache


class Product(NamedTuple):
    """A matrix product [m, k] × [k, n] of the forward pass; backward costs two more like it.

    Attributes:
        name: The layer it belongs to.
        m: Rows.
        k: Inner dimension.
        n: Columns.
        input_grad: Whether its input needs a gradient; otherwise backward costs one more only.
    """

    name: str
    m: int
    k: int
    n: int
    input_grad: bool = True

    @property
    def flops(self) -> float:
        """Operations of the product and of its backward."""
        return 2.0 * self.m * self.k * self.n * (3 if self.input_grad else 2)


def products(model: Any, batch: GraphBatch) -> list[Product]:
    """List the matrix products of one GSAT step on GIN, after all exact algebra."""
    gin = model.backbone
    assert isinstance(gin, GIN)
    n, h = batch.num_nodes, gin.hidden
    out = []
    for run in ("first run", "second run"):
        out.append(Product(f"{run}: encoder", n, gin.encoder.in_features, h, input_grad=False))
        for i in range(len(gin.layers)):
            out += [Product(f"{run}: layer {i} {part}", n, h, h) for part in ("inner", "outer")]
    out.append(Product("head", batch.num_graphs, h, gin.task.num_logits))
    return out + extractor_products(model.extractor, batch)


def extractor_products(g: Any, batch: GraphBatch) -> list[Product]:
    """List those of the extractor."""
    n, h, wide = batch.num_nodes, g.hidden, g.first.out_features
    if g.on == "edge":
        out = [Product(f"extractor first, {end}", n, h, wide) for end in ("source", "target")]
        rows = batch.num_edges
    else:
        out = [Product("extractor first", n, h, wide)]
        rows = n
    return [*out, Product("extractor second", rows, wide, h), Product("extractor last", rows, h, 1)]


class Floor:
    """The products of a step, forward and backward, and nothing else, at their best speed.

    A few hundred rows at a time, each time the same ones: nothing has to come from memory. Runs on
    one thread; the floor of more is its time divided by their number.
    """

    def __init__(self, shapes: list[Product]) -> None:
        self.flops = sum(p.flops for p in shapes)
        # Each with the number of blocks it is repeated for, and whether it is added up over them.
        self.calls: list[tuple[int, bool, Tensor, Tensor, Tensor]] = []
        for p in shapes:
            blocks = -(-p.m // BLOCK)
            rows = -(-p.m // blocks)
            x, w, y = torch.randn(rows, p.k), torch.randn(p.n, p.k), torch.randn(rows, p.n)
            self.calls.append((blocks, False, x, w.T, torch.empty(rows, p.n)))
            self.calls.append((blocks, True, y.T, x, torch.zeros(p.n, p.k)))
            if p.input_grad:
                self.calls.append((blocks, False, y, w, torch.empty(rows, p.k)))

    def __call__(self) -> None:
        for blocks, add, a, b, out in self.calls:
            for _ in range(blocks):
                if add:
                    torch.addmm(out, a, b, out=out)
                else:
                    torch.mm(a, b, out=out)


def floor_row(
    dataset: str, threads: int, step: Timing, floor: Timing, flops: float
) -> dict[str, Any]:
    """Compare a step with its floor.

    Returns milliseconds, the speed of the floor, and the ratio: of processor times on one thread,
    by the clock on more.
    """
    ratio = step.cpu / floor.cpu if threads == 1 else step.wall / (floor.wall / threads)
    return {
        "dataset": dataset, "threads": threads, "step_ms": step.wall * 1e3,
        "step_cpu_ms": step.cpu * 1e3, "floor_ms": floor.wall / threads * 1e3,
        "floor_cpu_ms": floor.cpu * 1e3, "floor_gflops": flops / floor.cpu / 1e9, "ratio": ratio,
    }  # fmt: skip


def step_against_floor(dataset: str, threads: int, show: bool) -> dict[str, Any] | None:
    """Measure a training step, its floor, and gathering its batch.

    Returns the values of :func:`floor_row` and the share of gathering; None without raw files.
    """
    use_threads(threads)
    made = case(dataset)
    if made is None:
        return None
    store, size = made.data.train, made.recipe.training.batch_size
    order = Draws(0).permutation(len(store))
    starts = itertools.cycle(range(0, len(order) - size + 1, size))
    draws = Draws(0)
    keep_freed_memory()  # as a training does
    made.model.train()
    counter = itertools.count()
    batch = store.batch(order[:size])
    shapes = products(made.model, batch)
    if show:
        for p in shapes:
            print(f"    {p.name:<28} [{p.m}, {p.k}] x [{p.k}, {p.n}]")
    floor = Floor(shapes)

    def gather() -> GraphBatch:
        start = next(starts)
        return store.batch(order[start : start + size])

    def steps() -> None:
        with exclusive_threads():  # as a training does
            for _ in range(STEPS):
                made.method.step(gather(), Context("train", 0, draws.child(next(counter))))

    def floors() -> None:
        with exclusive_threads():  # torch has one
            for _ in range(STEPS):
                floor()

    def batches() -> None:
        for _ in range(STEPS):
            gather()

    measured = side_by_side([steps, floors, batches], rounds=2 * ROUNDS)
    step, least, gathering = (Timing(t.wall / STEPS, t.cpu / STEPS) for t in measured)
    row = floor_row(dataset, threads, step, least, floor.flops)
    return {**row, "batch_share": gathering.cpu / step.cpu}


class PlainEpoch:
    """Train one epoch and validate, in plain PyG."""

    def __init__(self, made: Case) -> None:
        size = made.recipe.training.batch_size
        self.task, self.model = made.data.task, PlainGSAT(made.model)
        self.loader = DataLoader(list(made.data.train), batch_size=size, shuffle=True)
        self.valid = DataLoader(list(made.data.valid), batch_size=size)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=made.recipe.training.lr)

    def step(self, batch: Any) -> None:
        """One update."""
        output = self.model(
            batch.x, batch.edge_index, batch.batch, batch.edge_attr, batch.num_graphs
        )
        loss = self.task.loss(output.logits, batch.y) + information(output.alpha, 0.7)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def __call__(self) -> None:
        self.model.train()
        for batch in self.loader:
            self.step(batch)
        self.model.eval()
        logits, y, scores, truth = [], [], [], []
        with torch.no_grad():
            for batch in self.valid:
                output = self.model(
                    batch.x, batch.edge_index, batch.batch, batch.edge_attr, batch.num_graphs
                )
                logits.append(output.logits)
                y.append(batch.y)
                scores.append(output.weight)
                truth.append(batch.edge_truth)
        self.task.score(torch.cat(logits), torch.cat(y))
        roc_auc_score(torch.cat(truth).numpy(), torch.cat(scores).numpy())


class OurEpoch:
    """Train one epoch and validate, as the training loop does."""

    def __init__(self, made: Case) -> None:
        size = made.recipe.training.batch_size
        keep_freed_memory()  # as a training does
        self.loop = Loop(made.method, made.data, batch_size=size, seed=0)
        self.phase = made.method.phases()[0]

    def __call__(self) -> None:
        draws = Draws(0)
        with exclusive_threads() if self.loop.method.model.backbone.in_kernels else nullcontext():
            self.loop._train_epoch(self.phase, 0, draws)
            self.loop._evaluate("valid", Context(self.phase.name, 0, draws))


def our_epoch(dataset: str, threads: int, backbone: str) -> OurEpoch:
    """Make our epoch, in the process it runs in."""
    return OurEpoch(_case(dataset, threads, backbone))


def plain_epoch(dataset: str, threads: int, backbone: str) -> PlainEpoch:
    """Make the plain epoch, in the process it runs in."""
    return PlainEpoch(_case(dataset, threads, backbone))


def _case(dataset: str, threads: int, backbone: str) -> Case:
    use_threads(threads)
    made = case(dataset, backbone)
    assert made is not None
    return made


def epoch_against_plain(
    dataset: str, backbone: str, threads: int, rounds: int
) -> dict[str, Any] | None:
    """Measure an epoch (train and validate) of both, in seconds."""
    if case(dataset) is None:
        return None
    ours, plain = apart([our_epoch, plain_epoch], dataset, threads, backbone, rounds=rounds)
    return {
        "dataset": dataset, "backbone": backbone, "threads": threads,
        "ours_s": ours, "plain_s": plain, "ratio": plain / ours,
    }  # fmt: skip


def training_memory(who: str, dataset: str) -> float:
    """Return the MiB that five training steps add to the peak of this (fresh) process."""
    use_threads(1)
    made = case(dataset)
    assert made is not None
    size = made.recipe.training.batch_size
    if who == "plain":
        epoch = PlainEpoch(made)
        epoch.model.train()
        before = peak_memory()
        for batch in itertools.islice(epoch.loader, 5):
            epoch.step(batch)
        return peak_memory() - before
    keep_freed_memory()  # as a training does
    made.model.train()
    made.method.step(made.data.train.batch([0]), Context("train", 0, Draws(0)))  # compiles
    before = peak_memory()
    for i in range(5):
        batch = made.data.train.batch(range(i * size, (i + 1) * size))
        made.method.step(batch, Context("train", 0, Draws(i)))
    return peak_memory() - before
