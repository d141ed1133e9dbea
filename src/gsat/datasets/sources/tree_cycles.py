"""Tree-Cycles: one graph, six-cycles on a binary tree; is a node in a cycle or in the tree?

After GNNExplainer (Ying et al., 2019): a balanced tree of depth 8 (511 nodes) and 80 cycles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from pydantic import Field

from gsat.core.registry import register_dataset
from gsat.datasets.source import DatasetOptions, DatasetSource
from gsat.datasets.sources._motifs import attach_motifs

if TYPE_CHECKING:
    from gsat.graphs import GraphStore
    from gsat.tasks import Task

BASE: Final = 2**9 - 1
SIX_CYCLE: Final = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))


@register_dataset("tree-cycles")
class TreeCycles(DatasetSource):
    """One graph, 80 six-cycles on a binary tree: is a node in a cycle?"""

    class Options(DatasetOptions):
        motifs: int = Field(80, ge=1, le=BASE, description="number of cycles")

    def task(self, name: str, options: Options) -> Task:
        """Whether each node is in the tree or in a cycle."""
        from gsat.tasks import Task

        return Task("multiclass", 2, level="node")

    def build(self, name: str, options: Options, data_seed: int) -> GraphStore:
        """Generate the graph: tree nodes by level, then cycle after cycle."""
        rng = np.random.RandomState(data_seed)
        tree = [((node - 1) // 2, node) for node in range(1, BASE)]
        return attach_motifs(
            rng,
            BASE,
            tree,
            SIX_CYCLE,
            (1,) * 6,
            options.motifs,
            noise=0.0,
            classes=("tree", "cycle"),
        )
