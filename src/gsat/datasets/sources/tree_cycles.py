"""Tree-Cycles: one graph, six-cycles hung on a binary tree; is a node in a cycle or in the tree?

After GNNExplainer (Ying et al., 2019): a balanced tree of depth 8 (511 nodes) and 80 cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gsat.datasets.sources.ba_shapes import hung, matches_paper, split
from gsat.graphs import GraphStore
from gsat.tasks import Task

__all__ = ["SPLIT_OPTIONS", "TASK", "VERSION", "build", "matches_paper", "split"]

VERSION: Final = 1
TASK: Final = Task("multiclass", 2, level="node")
SPLIT_OPTIONS: Final[frozenset[str]] = frozenset()

BASE: Final = 2**9 - 1
CYCLE: Final = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))


def build(name: str, options: Mapping[str, Any]) -> GraphStore:
    """The graph: tree nodes by level, then cycle after cycle."""
    rng = np.random.RandomState(options["data_seed"])
    tree = [((node - 1) // 2, node) for node in range(1, BASE)]
    motifs: int = options["motifs"]
    return hung(rng, BASE, tree, CYCLE, (1,) * 6, motifs, noise=0.0, classes=("tree", "cycle"))
