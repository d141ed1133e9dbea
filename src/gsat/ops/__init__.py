"""The expensive operations: defined in plain torch, with a compiled form for the CPU.

``reference`` defines the ops, ``numba`` holds their compiled forms, ``dispatch`` chooses between
the two, and ``random`` is the source of random numbers.
"""

from gsat.ops.adam import Adam
from gsat.ops.dispatch import engine
from gsat.ops.numba.buffers import keep_freed_memory, return_freed_memory
from gsat.ops.numba.parallel import exclusive_threads
from gsat.ops.random import Draws
from gsat.ops.reference import (
    AGGREGATORS,
    Aggregator,
    EdgeTerm,
    ScalarTerm,
    StatisticsNetwork,
    add_dropout,
    aggregate,
    batch_norm_relu,
    bernoulli_kl,
    concrete,
    donsker_varadhan,
    extractor,
    gather_normalise_relu_dropout,
    gin_layer,
    gin_layers,
    multi_aggregate_edges,
    normalise_relu_dropout,
    pna_layer,
    pna_layers,
    pool,
    relu_dropout,
    row_normalise_relu_dropout,
    scalar_term,
    segment_topk_mask,
    train_statistics_network,
)

__all__ = [
    "AGGREGATORS",
    "Adam",
    "Aggregator",
    "Draws",
    "EdgeTerm",
    "ScalarTerm",
    "StatisticsNetwork",
    "add_dropout",
    "aggregate",
    "batch_norm_relu",
    "bernoulli_kl",
    "concrete",
    "donsker_varadhan",
    "engine",
    "exclusive_threads",
    "extractor",
    "gather_normalise_relu_dropout",
    "gin_layer",
    "gin_layers",
    "keep_freed_memory",
    "multi_aggregate_edges",
    "normalise_relu_dropout",
    "pna_layer",
    "pna_layers",
    "pool",
    "relu_dropout",
    "return_freed_memory",
    "row_normalise_relu_dropout",
    "scalar_term",
    "segment_topk_mask",
    "train_statistics_network",
]
