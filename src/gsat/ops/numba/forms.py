"""All compiled forms in one namespace, under the names of their plain forms."""

from gsat.ops.numba.add_dropout import add_dropout
from gsat.ops.numba.aggregate import aggregate, scalar_term
from gsat.ops.numba.batch_norm import batch_norm_relu
from gsat.ops.numba.concrete import bernoulli_kl, concrete
from gsat.ops.numba.extractor import extractor
from gsat.ops.numba.gin_layers import gin_layers, gin_layers_inference
from gsat.ops.numba.multi_aggregate import multi_aggregate_edges
from gsat.ops.numba.mutual_information import train_statistics_network
from gsat.ops.numba.normalise import (
    gather_normalise_relu_dropout,
    normalise_relu_dropout,
    relu_dropout,
    row_normalise_relu_dropout,
)
from gsat.ops.numba.pna_layers import pna_layers
from gsat.ops.numba.pool import segment_sum
from gsat.ops.numba.topk import segment_topk_mask

__all__ = [
    "add_dropout",
    "aggregate",
    "batch_norm_relu",
    "bernoulli_kl",
    "concrete",
    "extractor",
    "gather_normalise_relu_dropout",
    "gin_layers",
    "gin_layers_inference",
    "multi_aggregate_edges",
    "normalise_relu_dropout",
    "pna_layers",
    "relu_dropout",
    "row_normalise_relu_dropout",
    "scalar_term",
    "segment_sum",
    "segment_topk_mask",
    "train_statistics_network",
]
