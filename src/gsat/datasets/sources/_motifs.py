"""Parts of the generated data sets: motifs and random base graphs.

All draws come from ``random_sample``, whose stream numpy has frozen; the graphs are the same on
every machine and with every version of numpy and networkx.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gsat.datasets.source import DatasetOptions


class GeneratedOptions(DatasetOptions):
    """Options of data sets whose graphs are generated."""

    graphs: int = Field(1000, le=200_000, ge=10, description="number of graphs to generate")


Edge = tuple[int, int]

# Edges among the five motif nodes, numbered as in the published BA-2Motifs; node 0 is the one that
# is joined to the base.
CYCLE: Final[tuple[Edge, ...]] = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
HOUSE: Final[tuple[Edge, ...]] = ((0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4))


def integers(rng: np.random.RandomState, below: int, size: int) -> NDArray[np.int64]:
    """Draw integers uniformly.

    ``randint`` would draw differently where C's long has 32 bits.
    """
    return np.floor(rng.random_sample(size) * below).astype(np.int64)


def barabasi_albert(rng: np.random.RandomState, nodes: int, per_node: int) -> list[Edge]:
    """Draw a Barabási–Albert graph by the process of ``networkx.barabasi_albert_graph``.

    A star, to which each new node is joined by edges to nodes drawn by their degree.
    """
    edges = [(0, leaf) for leaf in range(1, per_node + 1)]
    ends = [end for edge in edges for end in edge]
    for node in range(per_node + 1, nodes):
        joined: set[int] = set()
        while len(joined) < per_node:
            joined.add(ends[int(integers(rng, len(ends), 1)[0])])
        edges += [(target, node) for target in sorted(joined)]
        ends += [end for target in sorted(joined) for end in (target, node)]
    return edges
