"""Houses: two or three houses on a Barabási–Albert tree, after the paper's figure 3.

The explanation is disconnected, so a method that searches for one connected subgraph fails. The
paper gives no sizes: the base is the 20-node tree of BA-2Motifs in both classes, so that only the
houses differ between them; each house is joined to a uniformly drawn base node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gsat.core.registry import register_dataset
from gsat.datasets.source import DatasetSource, Match
from gsat.datasets.sources._motifs import (
    HOUSE,
    TREE_NODES,
    GeneratedOptions,
    integers,
    join_motif,
    random_trees,
    store_from_adjacency,
)

if TYPE_CHECKING:
    from gsat.graphs import GraphStore
    from gsat.tasks import Task


@register_dataset("houses")
class Houses(DatasetSource):
    """1000 graphs, two or three houses on a Barabási–Albert tree: disconnected explanations."""

    Options = GeneratedOptions
    in_paper = True

    def task(self, name: str, options: GeneratedOptions) -> Task:
        """Two houses or three."""
        from gsat.tasks import Task

        return Task("binary")

    def build(self, name: str, options: GeneratedOptions, data_seed: int) -> GraphStore:
        """Generate the graphs: the first half with two houses (class 0), the rest with three."""
        rng = np.random.RandomState(data_seed)
        label = (np.arange(options.graphs) >= options.graphs // 2).astype(np.int64)
        houses = 2 + label
        size = TREE_NODES + 15
        adjacency = np.zeros((options.graphs, size, size), dtype=np.uint8)
        adjacency[:, :TREE_NODES, :TREE_NODES] = random_trees(rng, options.graphs)
        for house in range(3):
            rows = np.flatnonzero(houses > house)
            first = TREE_NODES + 5 * house
            join_motif(adjacency, rows, integers(rng, TREE_NODES, len(rows)), first, HOUSE)
        return store_from_adjacency(
            adjacency, TREE_NODES + 5 * houses, label, classes=("two houses", "three houses")
        )

    def matches_paper(self, name: str, options: GeneratedOptions) -> Match:
        """``rebuilt``: the paper describes the set but does not publish it."""
        return "rebuilt" if options.graphs == 1000 else "different"
