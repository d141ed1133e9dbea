"""Compilation of all kernels ahead of time, so that no training has to wait for it.

Each part calls some ops on a few small graphs, forward and backward; no two parts need the same
kernels, so they can be compiled by several processes at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gsat.attention import Extractor
from gsat.core.errors import RunError
from gsat.graphs import GraphBatch, GraphStore
from gsat.launch.jobs import Job, Outcome
from gsat.launch.pool import WorkerPool, worker_count
from gsat.launch.progress import Progress
from gsat.ops import (
    AGGREGATORS,
    Draws,
    ScalarTerm,
    StatisticsNetwork,
    add_dropout,
    aggregate,
    batch_norm_relu,
    bernoulli_kl,
    concrete,
    gather_normalise_relu_dropout,
    gin_layers,
    multi_aggregate_edges,
    normalise_relu_dropout,
    pna_layers,
    pool,
    relu_dropout,
    row_normalise_relu_dropout,
    segment_topk_mask,
    train_statistics_network,
)
from gsat.ops.numba.compile import compile_quietly, compiled_kernels
from gsat.ops.numba.segments import segment_sum_kernel
from gsat.ops.numba.thread_pool import thread_pool

_H = 16
_DRAWS = Draws(0, "warm-up")


def warm_up(jobs: int | None = None, progress: bool = True) -> int:
    """Compile all kernels for this machine; those that are on disk already are only read."""
    bar = Progress("compiling kernels", quiet=not progress)
    kernels: set[str] = set()

    def on_done(name: str, outcome: Outcome) -> None:
        if outcome.status != "done":
            raise RunError(f"the kernels of {name} can't be compiled: {outcome.value}")
        kernels.update(outcome.value)
        bar.advance()

    bar.start(len(PARTS))
    try:
        function = f"{__name__}.{compile_part.__name__}"
        with WorkerPool(jobs or worker_count()) as workers:
            workers.run({name: Job(function, name) for name in PARTS}, on_done=on_done)
    finally:
        bar.stop()
    return len(kernels)


def compile_part(name: str) -> list[str]:
    """Compile the kernels of a part."""
    compile_quietly()
    for value in PARTS[name](_batch()):
        if value.requires_grad:
            value.sum().backward()
    return compiled_kernels()


def _batch() -> GraphBatch:
    """A few graphs with in-degrees of 0, 1, 2 and more."""
    edges = np.array([[0, 1, 0, 2, 3, 3, 3], [1, 0, 2, 3, 0, 1, 2]])
    store = GraphStore.from_arrays(
        node_ptr=[0, 5, 10], edge_ptr=[0, 7, 14], edge_index=np.concatenate([edges, edges], axis=1)
    )
    return store.batch()


def _leaf(*shape: int) -> Tensor:
    values = torch.arange(float(np.prod(shape))).sin()
    return values.reshape(shape).requires_grad_()


def _norm() -> nn.BatchNorm1d:
    return nn.BatchNorm1d(_H)


def _extractor(on: Any) -> Callable[[GraphBatch], list[Tensor]]:
    return lambda batch: [Extractor(_H, on)(_leaf(batch.num_nodes, _H), batch, _DRAWS)]


def _gin(batch: GraphBatch) -> list[Tensor]:
    x, weight = _leaf(batch.num_nodes, _H), _leaf(batch.num_edges)
    layer = nn.Linear(_H, _H), _norm(), nn.Linear(_H, _H)
    outputs = [gin_layers(x, batch, weight, [None], [layer], 0.3, [_DRAWS])]
    layer[1].eval()
    with torch.no_grad():
        gin_layers(x, batch, weight, [None], [layer])
    return outputs


def _edge_terms(batch: GraphBatch) -> list[Tensor]:
    x, weight, e = _leaf(batch.num_nodes, _H), _leaf(batch.num_edges), batch.num_edges
    scalar = ScalarTerm(torch.ones(e), _leaf(_H), _leaf(_H))
    return [aggregate(x, batch, weight, term) for term in (None, scalar, _leaf(e, _H))]


def _pna(batch: GraphBatch) -> list[Tensor]:
    x, weight = _leaf(batch.num_nodes, _H), _leaf(batch.num_edges)
    layer = nn.Linear(3 * len(AGGREGATORS) * _H, _H), _norm()
    edge = _leaf(batch.num_edges, _H)
    return [pna_layers(x, batch, weight, edge, [layer], AGGREGATORS, None, 0.3, [_DRAWS])]


def _sampling(batch: GraphBatch) -> list[Tensor]:
    alpha = concrete(_leaf(batch.num_edges), batch.edge_id, _DRAWS)
    segment_topk_mask(alpha, batch.edge_ptr, torch.ones(batch.num_graphs, dtype=torch.long))
    return [bernoulli_kl(alpha, 0.7), pool(_leaf(batch.num_nodes, _H), batch.node_ptr)]


def _threads(batch: GraphBatch) -> list[Tensor]:
    ptr, x = batch.node_ptr.numpy(), np.ones((batch.num_nodes, _H), np.float32)
    out = np.empty((batch.num_graphs, _H), np.float32)
    thread_pool(2).run(segment_sum_kernel, [0, 1, batch.num_graphs], (ptr, x, out))
    return []


def _unfused(batch: GraphBatch) -> list[Tensor]:
    """Steps of layers without a fused kernel: LEConv, PNA with scalers, gates."""
    x, e, row = _leaf(batch.num_nodes, _H), _leaf(batch.num_edges, _H), batch.node_id
    return [
        relu_dropout(x, row, 0.3, _DRAWS),
        add_dropout(x, x, row, 0.3, _DRAWS),
        batch_norm_relu(x, torch.zeros(_H), _norm()),
        normalise_relu_dropout(x, batch.node_ptr, row, 0.3, _DRAWS),
        row_normalise_relu_dropout(x, row, 0.3, _DRAWS),
        gather_normalise_relu_dropout(x, x, batch, 0.3, _DRAWS),
        multi_aggregate_edges(e, batch, _leaf(batch.num_edges), AGGREGATORS),
    ]


def _mutual_information(batch: GraphBatch) -> list[Tensor]:
    network, e = StatisticsNetwork(_H), torch.ones(4, _H)
    train_statistics_network(
        network, network.adam(1e-3, 0.0), e, e, torch.arange(4).expand(2, 4).contiguous()
    )
    return []


# The longest first.
PARTS: dict[str, Callable[[GraphBatch], list[Tensor]]] = {
    "PNA": _pna,
    "attention on edges": _extractor("edge"),
    "GIN": _gin,
    "single steps": _unfused,
    "edge attributes": _edge_terms,
    "attention on nodes": _extractor("node"),
    "IB-subgraph": _mutual_information,
    "sampling": _sampling,
    "threads": _threads,
}
