"""The few operations that cost time: one meaning in plain torch, one fast form for the CPU.

``reference`` says what each op means, ``numba`` holds the compiled forms, ``functional`` the ops
that models call, ``dispatch`` the choice between forms, ``random`` the source of random numbers.
"""

from gsat.ops.adam import Adam
from gsat.ops.dispatch import engine
from gsat.ops.functional import (
    add_dropout,
    aggregate,
    batch_norm_relu,
    bernoulli_kl,
    concrete,
    gather_normalise_relu_dropout,
    multi_aggregate_edges,
    normalise_relu_dropout,
    pool,
    relu_dropout,
    row_normalise_relu_dropout,
    scalar_term,
    segment_topk_mask,
    train_statistics_network,
)
from gsat.ops.layers import extractor, gin_layer, gin_layers, pna_layer, pna_layers
from gsat.ops.numba.buffers import keep_freed_memory, return_freed_memory
from gsat.ops.numba.parallel import exclusive_threads
from gsat.ops.random import Draws
from gsat.ops.reference import (
    AGGREGATORS,
    STD_EPS,
    Aggregator,
    EdgeTerm,
    ScalarTerm,
    StatisticsNetwork,
    donsker_varadhan,
)

__all__ = [
    "AGGREGATORS",
    "STD_EPS",
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
