"""A data set in flat arrays, mini-batches gathered from it, and conversions to other libraries."""

from gsat.graphs.batch import GraphBatch
from gsat.graphs.conversions import from_networkx, from_pyg, to_networkx, to_pyg
from gsat.graphs.storage import ShardWriter
from gsat.graphs.store import GraphStore

__all__ = [
    "GraphBatch",
    "GraphStore",
    "ShardWriter",
    "from_networkx",
    "from_pyg",
    "to_networkx",
    "to_pyg",
]
