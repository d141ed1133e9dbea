"""The few operations that cost time: one meaning in plain torch, one fast form for the CPU."""

from gsat.ops.aggregate import EdgeTerm, ScalarTerm, aggregate, scalar_term
from gsat.ops.batchnorm import batch_norm_relu
from gsat.ops.centre import centre_aggregate, weight_statistics
from gsat.ops.concrete import bernoulli_kl, concrete
from gsat.ops.engine import engine, exclusive_threads, keep_freed_memory
from gsat.ops.extractor import extractor
from gsat.ops.gin import gin_layer
from gsat.ops.multi import Aggregator, edge_aggregate, multi_aggregate
from gsat.ops.normalise import (
    gather_normalise_relu_dropout,
    normalise_relu_dropout,
    relu_dropout,
)
from gsat.ops.pool import pool
from gsat.ops.random import Draws
from gsat.ops.residual import add_dropout
from gsat.ops.topk import top_of_segments

__all__ = [
    "Aggregator",
    "Draws",
    "EdgeTerm",
    "ScalarTerm",
    "add_dropout",
    "aggregate",
    "batch_norm_relu",
    "bernoulli_kl",
    "centre_aggregate",
    "concrete",
    "edge_aggregate",
    "engine",
    "exclusive_threads",
    "extractor",
    "gather_normalise_relu_dropout",
    "gin_layer",
    "keep_freed_memory",
    "multi_aggregate",
    "normalise_relu_dropout",
    "pool",
    "relu_dropout",
    "scalar_term",
    "top_of_segments",
    "weight_statistics",
]
