"""A data set in flat arrays, mini-batches gathered from it, and explanations of its graphs."""

from gsat.graphs.batch import GraphBatch
from gsat.graphs.convert import from_networkx, from_pyg, to_networkx, to_pyg
from gsat.graphs.disk import ShardWriter
from gsat.graphs.explanation import Explanation
from gsat.graphs.store import GraphStore

__all__ = [
    "Explanation",
    "GraphBatch",
    "GraphStore",
    "ShardWriter",
    "from_networkx",
    "from_pyg",
    "to_networkx",
    "to_pyg",
]
