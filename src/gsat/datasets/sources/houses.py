"""Houses: two or three houses on a Barabási–Albert tree, after the paper's figure 3.

The explanation is in several pieces, so a method that looks for one connected piece fails. The
paper gives no sizes: the base has the 20 nodes of BA-2Motifs in both classes, so that nothing but
the houses differs between them; each house hangs by a wall on its own uniformly drawn base node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from gsat.datasets.sources.ba2motifs import (
    BASE,
    HOUSE,
    check_count,
    dense_store,
    integers,
    random_trees,
    split,
)
from gsat.graphs import GraphStore
from gsat.tasks import Task

__all__ = ["SPLIT_OPTIONS", "TASK", "VERSION", "build", "matches_paper", "split"]

VERSION: Final = 1
TASK: Final = Task("binary")
SPLIT_OPTIONS: Final[frozenset[str]] = frozenset()


def build(name: str, options: Mapping[str, Any]) -> GraphStore:
    """The graphs: the first half with two houses (class 0), the second with three (class 1)."""
    graphs: int = options["graphs"]
    check_count(graphs)
    rng = np.random.RandomState(options["data_seed"])
    label = (np.arange(graphs) >= graphs // 2).astype(np.int64)
    houses = 2 + label
    adjacency = np.zeros((graphs, BASE + 15, BASE + 15), dtype=np.uint8)
    adjacency[:, :BASE, :BASE] = random_trees(rng, graphs)
    for house in range(3):
        rows = np.flatnonzero(houses > house)
        first = BASE + 5 * house
        joint = integers(rng, BASE, len(rows))
        adjacency[rows, joint, first] = adjacency[rows, first, joint] = 1
        for u, v in HOUSE:
            adjacency[rows, first + u, first + v] = adjacency[rows, first + v, first + u] = 1
    return dense_store(adjacency, BASE + 5 * houses, label, classes=("two houses", "three houses"))


def matches_paper(name: str, options: Mapping[str, Any]) -> str:
    """``rebuilt``: the paper describes the set but does not publish it."""
    return "rebuilt" if options["graphs"] == 1000 else "different"
